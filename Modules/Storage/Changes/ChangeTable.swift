import GRDB
import SyncCore

/// The queue's memory over one database: settle and claim, look and repair (the seams ``ChangeLog`` and ``ChangeRepair``).
///
/// A value without state; every call works inside a transaction that the ``Store`` opened, and all of it stands or
/// falls with that. Time, ids and merge rules come in.
struct ChangeTable: Sendable {
    /// Keeps the id under which a server with ids of its own holds a record; returns the other record that has it already, where
    /// there is one.
    typealias Mapping = @Sendable (Database, RecordKey, String) throws -> RecordKey?
    /// Keeps a record that cannot stand in the app's table yet, with its reason.
    typealias Holding = @Sendable (Database, ServerRecord, HoldReason) throws -> Void

    /// Why a record of the server's cannot be applied now.
    enum HoldReason: Hashable, Sendable {
        /// Something under it has unsent changes.
        case unsentUnder
        /// A row that it refers to is not there.
        case missingParent
        /// The same, and nothing is known of that one.
        case strayed
        /// A constraint of the app's table, or a value of another type than declared.
        case broken(String)
    }

    let schema: Schema
    let deltas: any DeltaCalculation
    let map: Mapping
    let hold: Holding

    init(
        schema: Schema, deltas: any DeltaCalculation, map: @escaping Mapping,
        hold: @escaping Holding
    ) {
        self.schema = schema
        self.deltas = deltas
        self.map = map
        self.hold = hold
    }

    /// Records the outcomes, keeps schedule and stamp, and claims what goes next (``ChangeLog/settle(_:claim:)``).
    /// - Parameter underWay: the claim behind which the next one stands (``ChangeLog/settle(_:behind:limits:)``).
    /// - Returns: the claim, and the records whose rows changed here.
    func settle(
        _ db: Database, _ settlement: Settlement, claim limits: ClaimLimits?, behind underWay: Claim? = nil, now: Int64
    ) throws -> (claim: Claim, touched: [RecordKey]) {
        if underWay == nil, let claim = try SingleTurn(table: self).settle(db, settlement, claim: limits) {
            return (claim, [])
        }
        if let stamp = settlement.stamp { try Clock.observe(db, stamp) }
        if let schedule = settlement.schedule { try ScheduleCodec.write(db, schedule) }
        var settling = Settling(table: self, now: now)
        try settling.record(db, settlement.outcomes)
        try settling.finish(db)
        // Only now: a create that was done just now is known by a version above all that was held.
        try Meta.raise(db, .highest, to: settlement.outcomes.compactMap(\.kind.version).max())
        if let told = settlement.outcomes.compactMap(\.kind.version).min() { try Scopes.note(db, told: told) }
        try markWaiting(db)
        var changes: [QueuedChange] = []
        let behind = try limits == nil ? nil : underWay.flatMap { try Claiming.Behind(db, $0) }
        if let limits, underWay == nil || behind != nil {
            var claiming = Claiming(table: self, now: now, limits: limits, behind: behind)
            changes = try claiming.claim(db, &settling)
            try settling.finish(db)
        }
        let claim = Claim(
            changes: changes, settled: try QueueFigures.settled(db), deviceID: try QueueFigures.deviceID(db),
            summary: try summary(db))
        return (claim, settling.touched)
    }

    /// What was written since, and needs what is set aside or held back, waits for it visibly; also where nothing is claimed,
    /// since the server asked for a pause (seed 55).
    func markWaiting(_ db: Database) throws {
        let hasDrafts = try !Drafts.isEmpty(db)
        if hasDrafts { try Drafts.freeGone(db, schema) }
        if try hasDrafts || QueueFigures.hasAside(db) { try Needs(schema: schema).markNew(db) }
    }

    /// The queue's counts and its durable schedule.
    func summary(_ db: Database) throws -> QueueSummary {
        var summary = try QueueFigures.summary(db)
        let hasDrafts = try !Drafts.isEmpty(db)
        if hasDrafts || summary.failed + summary.blocked > 0 {
            // Written since the last settlement, which will mark it.
            let more = try Needs(schema: schema).newlyBlocked(db).filter { !$0.wasSent }.count
            let fewer = try hasDrafts ? Drafts.waitingForGone(db, schema) : 0
            summary.pending = max(0, summary.pending - more) + fewer
            summary.blocked += more - fewer
        }
        return summary
    }

    /// After a crash: what a sender that is no more had claimed is without a verdict.
    static func recover(_ db: Database) throws {
        try db.cachedStatement(sql: "UPDATE sync_change SET state = 2 WHERE state <> 0 AND state = 1").execute()
    }
}

extension Settlement.Outcome.Kind {
    /// The version that the server told.
    fileprivate var version: Int64? {
        switch self {
        case .applied(let version, _, _): version
        case .merged(let record), .conflict(let record, _): record.version
        case .setAside, .unanswered: nil
        }
    }
}
