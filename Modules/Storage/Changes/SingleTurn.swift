import GRDB
import SyncCore

/// The turn of a queue that sends one change after another: this one was done as it was sent, and the next goes.
///
/// The general way (``Settling``, ``Claiming``) asks some twenty questions, one statement each, that nearly every such turn
/// answers alike: nothing is set aside, blocked, held or rewritten, and nobody else is on the way. Two statements ask all of
/// them here, before anything is written; where one answer is another, nothing has happened, and the general way is gone.
struct SingleTurn {
    let table: ChangeTable

    /// What of the settled change is needed.
    private struct Done {
        var position: Int64
        var record: RecordKey
        var baseVersion: Int64?
    }

    /// What is asked of everything but the first rows of the queue.
    private struct Glance {
        var queued: Int64
        var highest: Int64
        var epochSequence: Int64
        var deviceID: String
        var schedule: String?
        /// What is held of the settled change's record, and of the next one's.
        var version: Int64
        var nextVersion: Int64
    }

    /// Records the outcome and claims the next change.
    /// - Returns: `nil` where it is not that simple; nothing was written then.
    func settle(_ db: Database, _ settlement: Settlement, claim limits: ClaimLimits?) throws -> Claim? {
        guard settlement.stamp == nil, settlement.schedule == nil, settlement.outcomes.count == 1, let limits,
            limits.maxChanges == 1, !settlement.outcomes[0].isClamped,
            case .applied(let told, let overwrote, nil) = settlement.outcomes[0].kind, overwrote.isEmpty
        else { return nil }
        let rows = try RawStatement(
            db, "SELECT \(StoredChange.columns) FROM sync_change WHERE position > 0 AND state < 3 ORDER BY position")
        guard let (done, next) = try heads(rows, settlement.outcomes[0].changeID, limits),
            let glance = try glance(db, done.record, next.record)
        else { return nil }
        let isRisen = told.map { $0 > glance.version && glance.version == done.baseVersion ?? 0 } ?? false
        if let told, isRisen { try raise(db, done.record, to: told) }
        if let told, told > glance.highest { try Meta.set(db, .highest, told) }
        try run(db, "DELETE FROM sync_change WHERE position = ?") { $0.add(done.position) }
        try run(db, "UPDATE sync_clock SET queued = queued - 1 WHERE one = 1") { _ in }
        var claimed = next
        // PROTOCOL.md, `baseVersion`; as ``Marking`` has it.
        if next.operation != .create, next.sequence > glance.epochSequence {
            let held = isRisen && next.record == done.record ? told ?? 0 : glance.nextVersion
            claimed.baseVersion = held > 0 ? held : nil
        } else {
            claimed.baseVersion = nil
        }
        if next.isRaw { try ChangeRows.rewrite(db, next) }
        try run(db, "UPDATE sync_change SET state = 1, baseVersion = ? WHERE position = ?") {
            $0.add(claimed.baseVersion)
            $0.add(next.position)
        }
        claimed.state = .uploading
        let summary = QueueSummary(
            pending: max(0, Int(glance.queued) - 2), inFlight: 1, oldestMilliseconds: next.madeAt,
            schedule: try ScheduleCodec.read(glance.schedule))
        return Claim(
            changes: [claimed.queued], settled: next.sequence - 1, deviceID: glance.deviceID, summary: summary)
    }

    /// The change that was done, and the one behind it, if they are the first of the queue and of the plain kind.
    private func heads(
        _ rows: RawStatement, _ changeID: String, _ limits: ClaimLimits
    ) throws -> (done: Done, next: StoredChange)? {
        rows.begin()
        defer { rows.begin() }
        do {
            guard try rows.step(), rows.text(2) == changeID, rows.integer(10) == StoredChange.State.uploading.rawValue,
                let position = rows.integer(0), rows.integer(5) != Operation.delete.number
            else { return nil }
            let done = Done(
                position: position, record: RecordKey(rows.text(3) ?? "", rows.text(4) ?? ""),
                baseVersion: rows.integer(11))
            guard try rows.step() else { return nil }
            let next = try StoredChange(rows, table.schema)
            guard next.state == .pending, next.unit == nil, table.schema[next.record.entity] != nil else { return nil }
            // A neighbour may be merged into it.
            if limits.merges, try rows.step(), RecordKey(rows.text(3) ?? "", rows.text(4) ?? "") == next.record {
                return nil
            }
            return (done, next)
        } catch is JSONFailure {
            return nil
        }
    }

    /// A version held, counts and marks; last whether anything stands in the way.
    private static let question = """
        SELECT clock.queued, coalesce(\(meta(.highest)), -1), coalesce(\(meta(.epochSequence)), 0),
          \(meta(.device)), \(meta(.schedule)), coalesce(held.version, 0),
          (SELECT version FROM sync_record WHERE entity = ?3 AND id = ?4),
          held.base IS NOT NULL OR coalesce(\(meta(.passRuns)), 0) = 1
          OR EXISTS (SELECT 1 FROM sync_draft) OR (SELECT count(*) FROM sync_change WHERE state <> 0) <> 1
          OR EXISTS (SELECT 1 FROM sync_change INDEXED BY sync_change_successor WHERE sequence <> position)
        FROM sync_clock AS clock LEFT JOIN sync_record AS held ON held.entity = ?1 AND held.id = ?2
        WHERE clock.one = 1
        """

    private static func meta(_ key: Meta.Key) -> String {
        "(SELECT value FROM sync_meta WHERE key = '\(key.rawValue)')"
    }

    private func glance(_ db: Database, _ done: RecordKey, _ next: RecordKey) throws -> Glance? {
        let row = try RawStatement(db, Self.question)
        row.begin()
        for record in [done, next] {
            row.add(record.entity)
            row.add(record.id)
        }
        defer { row.begin() }
        guard try row.step(), row.integer(7) == 0 else { return nil }
        return Glance(
            queued: row.integer(0) ?? 0, highest: row.integer(1) ?? -1, epochSequence: row.integer(2) ?? 0,
            deviceID: row.text(3) ?? "", schedule: row.text(4), version: row.integer(5) ?? 0,
            nextVersion: row.integer(6) ?? 0)
    }

    private func raise(_ db: Database, _ record: RecordKey, to version: Int64) throws {
        let sql = """
            INSERT INTO sync_record (entity, id, version) VALUES (?, ?, ?)
            ON CONFLICT (entity, id) DO UPDATE SET version = excluded.version
            """
        try run(db, sql) {
            $0.add(record.entity)
            $0.add(record.id)
            $0.add(version)
        }
    }

    private func run(_ db: Database, _ sql: String, _ bind: (RawStatement) -> Void) throws {
        let statement = try RawStatement(db, sql)
        statement.begin()
        bind(statement)
        try statement.run()
    }
}

extension RawStatement {
    fileprivate func add(_ number: Int64?) {
        if let number { add(number) } else { add(String?.none) }
    }
}
