import GRDB
import SyncCore

/// Records that wait for each other only: they are applied together, since keys are checked at the commit.
///
/// They need not come together: of two comments that answer each other, one may come pages before the other, and wait (seed 16687).
extension SliceApplier {
    /// Of records that wait at the end of a slice, applies those that need nothing but each other and what is held.
    /// - Returns: the others.
    func settleCircles(
        _ waiting: [(record: ServerRecord, missing: RecordKey)]
    ) throws -> [(record: ServerRecord, missing: RecordKey)] {
        guard !context.circular.isEmpty, !waiting.isEmpty else { return waiting }
        let fresh = Dictionary(waiting.map { ($0.record.key, $0.record) }, uniquingKeysWith: { $1 })
        let done = try closeCircles(among: waiting.map(\.record), fresh)
        return waiting.filter { !done.contains($0.record.key) }
    }

    /// Applies each of these with all that it needs, where nothing of that is missing but what waits, too.
    /// - Parameter fresh: what waits and is not held yet.
    /// - Returns: what was applied.
    @discardableResult
    func closeCircles(
        among records: [ServerRecord], _ fresh: [RecordKey: ServerRecord] = [:]
    ) throws -> Set<RecordKey> {
        var done: Set<RecordKey> = []
        var hopeless: Set<RecordKey> = []
        for record in records where context.circular.contains(record.key.entity) {
            guard !done.contains(record.key), !hopeless.contains(record.key),
                let circle = try circle(around: fresh[record.key] ?? record, fresh, &hopeless)
            else { continue }
            if try fits(circle) {
                try applyTogether(circle)
                done.formUnion(circle.map(\.key))
            }
        }
        return done
    }

    /// The record and what it needs, and so on, where all of that waits; `nil` where something is not here at all.
    /// - Parameter hopeless: records that are known to need what is not here.
    private func circle(
        around record: ServerRecord, _ fresh: [RecordKey: ServerRecord], _ hopeless: inout Set<RecordKey>
    ) throws -> [ServerRecord]? {
        var members = [record]
        /// Each with the one that needs it.
        var neededBy: [RecordKey: RecordKey] = [:]
        var seen: Set<RecordKey> = [record.key]
        var next = 0
        while next < members.count {
            let member = members[next]
            next += 1
            for need in try table(member.key.entity)?.allMissing(member.key, member.fields) ?? [] {
                if seen.contains(need) { continue }
                let other = hopeless.contains(need) ? nil : try fresh[need] ?? HeldRecords.waitingForParent(db, need)
                guard let other else {
                    var lost: RecordKey? = member.key
                    while let key = lost {
                        hopeless.insert(key)
                        lost = neededBy[key]
                    }
                    return nil
                }
                seen.insert(need)
                neededBy[need] = member.key
                members.append(other)
            }
        }
        return members
    }

    /// Whether the app's tables take the rows of all of them: one that they do not take would leave the others without it at the commit.
    private func fits(_ circle: [ServerRecord]) throws -> Bool {
        try marks.flush()
        var fits = true
        do {
            try db.inSavepoint {
                for record in circle {
                    guard let table = try table(record.key.entity) else { continue }
                    var row: [FieldValue] = []
                    let shape = try table.bind(record, into: &row)
                    try table.upsert(record, row, shape)
                }
                return .rollback
            }
        } catch is ValueMismatch {
            fits = false
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            fits = false
        }
        for record in circle { try table(record.key.entity)?.forgetKnown() }
        return fits
    }

    private func applyTogether(_ circle: [ServerRecord]) throws {
        for record in circle {
            let wasHeld = try hasHeld && HeldRecords.version(db, record.key) != nil
            switch try take(record, checksNeeds: false) {
            case .done: if wasHeld { try noteReleased(record) }
            case .waits(let missing): try hold(record, .parent, "\(missing) is not here", waits: missing)
            case .held(let reason, let detail): try hold(record, reason, detail)
            }
        }
        for record in circle { try release(record.key) }
    }
}

extension AppliedTable {
    /// All records that these fields refer to and that are not here.
    func allMissing(_ key: RecordKey, _ fields: [String: FieldValue]) throws -> [RecordKey] {
        var found: [RecordKey] = []
        _ = try isMissing(key, fields) { missing in
            found.append(missing)
            return false
        }
        return found
    }

    /// Whether these fields refer to a record that is neither here nor among `others`.
    func isMissingOne(
        _ key: RecordKey, _ fields: [String: FieldValue], besides others: Set<RecordKey>
    ) throws -> Bool {
        try isMissing(key, fields) { !others.contains($0) }
    }

    /// Looks at what these fields refer to and is not here, until one counts.
    private func isMissing(
        _ key: RecordKey, _ fields: [String: FieldValue], _ counts: (RecordKey) -> Bool
    ) throws -> Bool {
        var rest = fields
        while let missing = try missing(key, rest) {
            if counts(missing) { return true }
            for need in needs
            where rest[need.field.name] == .string(missing.id) && need.target == missing.entity {
                rest[need.field.name] = nil
            }
        }
        return false
    }
}
