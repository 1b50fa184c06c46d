import GRDB
import SyncCore

/// The turn of a queue that sends one change after another: this one was done as it was sent, and the next goes.
///
/// The general way (``Settling``, ``Claiming``) asks some twenty questions, one statement each, that nearly every such turn
/// answers alike: nothing is set aside, blocked, held or rewritten, and nobody else is on the way. Two statements ask all of
/// them here, before anything is written; where one answer is another, nothing has happened, and the general way is gone.
struct SingleTurn {
    let table: ChangeTable

    /// What was found of a turn, before anything is written and before it is known what came of the change under way.
    struct Found {
        fileprivate var done: Done
        fileprivate var next: StoredChange
        fileprivate var glance: Glance
        /// The claim of the next change, but for its `baseVersion`.
        fileprivate var claim: Claim

        /// The key of the change that is under way.
        var changeID: String { done.key }
    }

    /// What of the settled change is needed.
    fileprivate struct Done {
        var key: String
        var position: Int64
        var record: RecordKey
        var baseVersion: Int64?
    }

    /// What is asked of everything but the first rows of the queue.
    fileprivate struct Glance {
        var queued: Int64
        var highest: Int64
        var epochSequence: Int64
        var deviceID: String
        var schedule: QueueSchedule
        /// What is held of the settled change's record, and of the next one's.
        var version: Int64
        var nextVersion: Int64
    }

    /// Records the outcome and claims the next change.
    /// - Returns: `nil` where it is not that simple; nothing was written then.
    func settle(_ db: Database, _ settlement: Settlement, claim limits: ClaimLimits?) throws -> Claim? {
        guard let limits, let plain = Self.plain(settlement), let found = try look(db, plain.changeID, limits) else {
            return nil
        }
        return try perform(db, found, version: plain.version)
    }

    /// The change that a settlement says was done as it was sent, and nothing else; with its version.
    static func plain(_ settlement: Settlement) -> (changeID: String, version: Int64?)? {
        guard settlement.stamp == nil, settlement.schedule == nil, settlement.outcomes.count == 1,
            !settlement.outcomes[0].isClamped, !settlement.outcomes[0].isRepeated,
            case .applied(let version, let overwrote, nil) = settlement.outcomes[0].kind, overwrote.isEmpty
        else { return nil }
        return (settlement.outcomes[0].changeID, version)
    }

    /// Whether the turn after this change can be the simple one.
    func look(_ db: Database, _ changeID: String, _ limits: ClaimLimits) throws -> Found? {
        guard limits.maxChanges == 1 else { return nil }
        let rows = try rows(db)
        defer { rows.begin() }
        guard let (done, next) = try heads(rows, changeID, limits),
            let glance = try glance(db, done.record, next.record)
        else { return nil }
        return found(done, next, glance)
    }

    /// The same outside a transaction and before the answer: nothing is written here, and nothing may be left to do that
    /// ``ChangeTable`` or ``Store`` does in the same transaction.
    /// - Parameter generation: of the lease that must still be held; `nil` asks for none.
    /// - Returns: what was found, and the state of the file in which it was.
    func lookAhead(
        _ db: Database, _ changeID: String, _ limits: ClaimLimits, generation: Int64?
    ) throws -> (found: Found, file: FileVersion)? {
        guard limits.maxChanges == 1 else { return nil }
        // While the first statement stands on a row, the second sees the same state of the file.
        let rows = try rows(db)
        defer { rows.begin() }
        guard let (done, next) = try heads(rows, changeID, limits), let file = FileVersion(db),
            let glance = try glance(db, done.record, next.record, ahead: generation ?? .min), FileVersion(db) == file
        else { return nil }
        return (found(done, next, glance), file)
    }

    private func rows(_ db: Database) throws -> RawStatement {
        let rows = try RawStatement(
            db, "SELECT \(StoredChange.columns) FROM sync_change WHERE position > 0 AND state < 3 ORDER BY position")
        rows.begin()
        return rows
    }

    private func found(_ done: Done, _ next: StoredChange, _ glance: Glance) -> Found {
        var sent = next
        sent.state = .uploading
        let summary = QueueSummary(
            pending: max(0, Int(glance.queued) - 2), inFlight: 1, oldestMilliseconds: next.madeAt,
            schedule: glance.schedule)
        let claim = Claim(
            changes: [sent.queued], settled: next.sequence - 1, deviceID: glance.deviceID, summary: summary)
        return Found(done: done, next: next, glance: glance, claim: claim)
    }

    /// Records that the change was done, and claims the next; what was found must still be so.
    func perform(_ db: Database, _ found: Found, version told: Int64?) throws -> Claim {
        let (done, next, glance) = (found.done, found.next, found.glance)
        let isRisen = told.map { $0 > glance.version && glance.version == done.baseVersion ?? 0 } ?? false
        if let told, isRisen { try raise(db, done.record, to: told) }
        if let told, told > glance.highest { try Meta.set(db, .highest, told) }
        try run(db, "DELETE FROM sync_change WHERE position = ?") { $0.add(done.position) }
        try run(db, "UPDATE sync_clock SET queued = queued - 1 WHERE one = 1") { _ in }
        // PROTOCOL.md, `baseVersion`; as ``Marking`` has it.
        var baseVersion: Int64?
        if next.operation != .create, next.sequence > glance.epochSequence {
            let held = isRisen && next.record == done.record ? told ?? 0 : glance.nextVersion
            if held > 0 { baseVersion = held }
        }
        if next.isRaw { try ChangeRows.rewrite(db, next) }
        try run(db, "UPDATE sync_change SET state = 1, baseVersion = ? WHERE position = ?") {
            $0.add(baseVersion)
            $0.add(next.position)
        }
        var claim = found.claim
        claim.changes[0].change.baseVersion = baseVersion
        return claim
    }

    /// The change that was done, and the one behind it, if they are the first of the queue and of the plain kind.
    private func heads(
        _ rows: RawStatement, _ changeID: String, _ limits: ClaimLimits
    ) throws -> (done: Done, next: StoredChange)? {
        do {
            guard try rows.step(), rows.text(2) == changeID, rows.integer(10) == StoredChange.State.uploading.rawValue,
                let position = rows.integer(0), rows.integer(5) != Operation.delete.number
            else { return nil }
            let done = Done(
                key: changeID, position: position, record: RecordKey(rows.text(3) ?? "", rows.text(4) ?? ""),
                baseVersion: rows.integer(11))
            guard try rows.step() else { return nil }
            let next = try StoredChange(rows, table.schema)
            guard next.state == .pending, next.unit == nil, table.schema[next.record.entity] != nil,
                !next.hasEmptyDifference(table.deltas), !(limits.sendsValues && next.hasRules)
            else { return nil }
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
    private static let question = asking("")

    /// The same, and whether something is held, was written since the clock was brought up, or another holds the lease.
    private static let questionAhead = asking(
        """
        OR clock.sequence < \(CaptureSQL.last)
        OR ?5 <> (SELECT generation FROM sync_lease WHERE one = 1) AND ?5 > 0
        """)

    private static func asking(_ more: String) -> String {
        """
        SELECT clock.queued, coalesce(\(meta(.highest)), -1), coalesce(\(meta(.epochSequence)), 0),
          \(meta(.device)), \(meta(.schedule)), coalesce(held.version, 0),
          (SELECT version FROM sync_record WHERE entity = ?3 AND id = ?4),
          held.base IS NOT NULL OR coalesce(\(meta(.passRuns)), 0) = 1
          OR EXISTS (SELECT 1 FROM sync_held) OR EXISTS (SELECT 1 FROM sync_draft)
          OR (SELECT count(*) FROM sync_change WHERE state <> 0) <> 1
          OR EXISTS (SELECT 1 FROM sync_change INDEXED BY sync_change_successor WHERE sequence <> position)
          OR EXISTS (
            SELECT 1 FROM sync_meta, json_each(sync_meta.value, '$.asked') AS root
            WHERE sync_meta.key = '\(Meta.Key.scopes.rawValue)' AND root.value = 0)
          \(more)
        FROM sync_clock AS clock LEFT JOIN sync_record AS held ON held.entity = ?1 AND held.id = ?2
        WHERE clock.one = 1
        """
    }

    private static func meta(_ key: Meta.Key) -> String {
        "(SELECT value FROM sync_meta WHERE key = '\(key.rawValue)')"
    }

    private func glance(
        _ db: Database, _ done: RecordKey, _ next: RecordKey, ahead generation: Int64? = nil
    ) throws -> Glance? {
        let row = try RawStatement(db, generation == nil ? Self.question : Self.questionAhead)
        row.begin()
        for record in [done, next] {
            row.add(record.entity)
            row.add(record.id)
        }
        if let generation { row.add(generation) }
        defer { row.begin() }
        guard try row.step(), row.integer(7) == 0 else { return nil }
        return Glance(
            queued: row.integer(0) ?? 0, highest: row.integer(1) ?? -1, epochSequence: row.integer(2) ?? 0,
            deviceID: row.text(3) ?? "", schedule: try ScheduleCodec.read(row.text(4)), version: row.integer(5) ?? 0,
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
