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
        try shift(db, measured)
        try db.execute(
            sql: """
                UPDATE sync_clock SET "offset" = ?, stamp = max(seen, coalesce((SELECT max(stamp) FROM sync_change), 0))
                WHERE one = 1
                """, arguments: [measured])
        return measured - (known ?? 0)
    }

    private static func shift(_ db: Database, _ measured: Int64) throws {
        // A successor keeps the stamps of the change that it stands for, which was sent; so may have been what another
        // device brought along in a backup or a copy: under that device's name its key stands for these stamps.
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT position, stamp, coalesce("offset", 0), seen, entity, id,
                  state = 0 AND device IS NULL AND sequence = position, madeAt
                FROM sync_change ORDER BY position
                """)
        let update = try db.cachedStatement(
            sql: "UPDATE sync_change SET stamp = ?, \"offset\" = ? WHERE position = ?")
        var last: (original: Int64, shifted: Int64) = (.max, 0)
        // What was written after a change that keeps its stamp was written over it, whatever the clock says by now.
        var floors: [RecordKey: Int64] = [:]
        while let row = try rows.next() {
            let (position, stamp, offset, seen): (Int64, Int64, Int64, Int64) = (row[0], row[1], row[2], row[3])
            let record = RecordKey(row[4], row[5])
            guard row[6] else {
                floors[record] = max(floors[record] ?? 0, stamp)
                continue
            }
            // A stamp that was held up, above an earlier one, says nothing of the time at which it was made: after a clock was
            // set back it would be moved as far ahead of the time as the clock was behind.
            let made = min(stamp >> 16, (row[7] as Int64) + offset)
            var shifted = max(made + measured - offset, 0) << 16 | (stamp & 0xffff)
            shifted = max(shifted, seen + 1)
            if stamp > last.original { shifted = max(shifted, last.shifted + 1) }
            last = (stamp, shifted)
            if let floor = floors[record] {
                shifted = max(shifted, floor + 1)
                floors[record] = shifted
            }
            try update.execute(arguments: [shifted, measured, position])
        }
    }
}
