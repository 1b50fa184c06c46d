import GRDB
import SyncCore

/// How far the server's clock is ahead of this device's, and what it means for stamps of what was never sent (DAT-04).
///
/// Each change remembers when it was made by the device's clock, the offset that it was stamped with, and the greatest stamp
/// that had been seen by then. When the measured offset differs by more than a second, its stamp is shifted to when it was
/// made, order kept, and never to or below what had been seen: an edit made after seeing a value beats it, whatever the
/// clocks say. What was sent once keeps its stamps, and what was written over it later stays above it.
enum ClockOffset {
    /// Smaller differences are the network's.
    private static let tolerance: Int64 = 1_000

    static func known(_ db: Database) throws -> Int64? {
        try Int64.fetchOne(db.cachedStatement(sql: "SELECT \"offset\" FROM sync_clock WHERE one = 1"))
    }

    /// - Returns: by how many milliseconds stamps were shifted; 0 if they were not.
    static func set(_ db: Database, _ measured: Int64) throws -> Int64 {
        let known = try known(db)
        guard abs(measured - (known ?? 0)) > tolerance else {
            if known == nil { try db.execute(sql: "UPDATE sync_clock SET \"offset\" = 0 WHERE one = 1") }
            return 0
        }
        let greatest = try shift(db, measured)
        try db.execute(
            sql: "UPDATE sync_clock SET \"offset\" = ?, stamp = max(seen, ?) WHERE one = 1",
            arguments: [measured, greatest])
        return measured - (known ?? 0)
    }

    /// - Returns: the greatest stamp of all that is in the queue now.
    private static func shift(_ db: Database, _ measured: Int64) throws -> Int64 {
        // What was never sent moves, also where it waits: a draft, or what needs a create that was refused.
        // A successor keeps the stamps of the change that it stands for, which was sent; so may have been what another
        // device brought along in a backup or a copy: under that device's name its key stands for these stamps.
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT position, stamp, coalesce("offset", 0), seen, entity, id,
                  state IN (0, 3) AND device IS NULL AND sequence = position, madeAt, operation,
                  CASE WHEN instr(fields, '"stamp":') THEN fields END
                FROM sync_change ORDER BY position
                """)
        let update = try db.cachedStatement(
            sql: "UPDATE sync_change SET stamp = ?, \"offset\" = ?, fields = coalesce(?, fields) WHERE position = ?")
        var greatest: Int64 = 0
        var last: (original: Int64, shifted: Int64) = (.max, 0)
        // What was written after a change that keeps its stamp was written over it, whatever the clock says by now.
        var floors: [RecordKey: Int64] = [:]
        while let row = try rows.next() {
            let (position, stamp, offset, seen): (Int64, Int64, Int64, Int64) = (row[0], row[1], row[2], row[3])
            let record = RecordKey(row[4], row[5])
            var fields = FieldStamps(row[9])
            guard row[6] else {
                floors[record] = max(floors[record] ?? 0, stamp, fields.greatest)
                greatest = max(greatest, stamp, fields.greatest)
                continue
            }
            // A stamp that was held up, above an earlier one, says nothing of the time at which it was made: after a clock was
            // set back it would be moved as far ahead of the time as the clock was behind.
            let made = min(stamp >> 16, (row[7] as Int64) + offset)
            var shifted = max(made + measured - offset, 0) << 16 | (stamp & 0xffff)
            shifted = max(shifted, seen + 1)
            if stamp > last.original { shifted = max(shifted, last.shifted + 1) }
            last = (stamp, shifted)
            let floor = floors[record]
            if let floor {
                shifted = max(shifted, floor + 1)
                floors[record] = shifted
            }
            fields.move(with: stamp, to: shifted, seen: seen, above: floor ?? 0)
            // What is written behind it is written over its fields, too.
            if fields.greatest > 0 { floors[record] = max(floors[record] ?? 0, shifted, fields.greatest) }
            greatest = max(greatest, shifted, fields.greatest)
            try update.execute(arguments: [shifted, measured, try fields.json(Operation(number: row[8])), position])
        }
        return greatest
    }
}

/// The fields of a change that have stamps of their own, since several writes are one change by now: they were merged before they
/// were sent, or an edit ended the refusal of its create.
private struct FieldStamps {
    private var deltas: [String: FieldDelta] = [:]

    /// - Parameter json: the change's deltas, where one may have a stamp.
    init(_ json: String?) {
        guard let json else { return }
        do { deltas = try DeltaCodec.deltas(json, of: nil) } catch {
            // kept: the claim that cannot read them says so.
            return
        }
        if deltas.values.allSatisfy({ $0.stamp == nil }) { deltas = [:] }
    }

    /// 0 where no field has one.
    var greatest: Int64 { deltas.values.compactMap { $0.stamp.map(Self.packed) }.max() ?? 0 }

    /// Each moves as its change does; what was written later stays above what had been seen by then.
    mutating func move(with stamp: Int64, to shifted: Int64, seen: Int64, above floor: Int64) {
        for (name, delta) in deltas {  // any order
            guard let own = delta.stamp.map(Self.packed) else { continue }
            var moved = max(own + shifted - stamp, floor + 1)
            if own > stamp { moved = max(moved, seen + 1, shifted + 1) }
            deltas[name]?.stamp = Stamp(packed: UInt64(bitPattern: moved))
        }
    }

    /// The deltas as they are stored; `nil` where none has a stamp of its own.
    func json(_ operation: Operation) throws -> String? {
        deltas.isEmpty ? nil : try DeltaCodec.json(deltas, operation: operation)
    }

    /// No stamp is as great as the limit: what is, was damaged, and is not to overflow.
    private static func packed(_ stamp: Stamp) -> Int64 { min(Int64(bitPattern: stamp.packed), 1 << 62) }
}
