internal import GRDB
internal import SyncCore

/// Forgets what is over (PROTOCOL.md: tombstones after 90 days at least, outcomes after a year at least), a bounded
/// part at a time, within the caller's transaction.
struct Pruning {
    /// How many rows of each kind one run takes at most.
    static let portion = 1_000

    let store: ServerStore
    let retention: ServerRetention
    let now: Int64

    private var statements: Statements { store.statements }

    /// Where the walk over the outcomes stands; it begins again at the end.
    struct Position: Sendable, Hashable {
        var device: Int64 = 0
        var sequence: Int64 = .min
    }

    /// Removes a portion. Returns the new `oldestVersion` of each account of which tombstones went.
    func run(_ position: inout Position) throws -> [Int64: Int64] {
        var oldest: [Int64: Int64] = [:]
        try removeTombstones(&oldest)
        try removeLeavings(&oldest)
        if !oldest.isEmpty { store.turnEra() }
        for (account, version) in oldest.sorted(by: { $0.key < $1.key }) {
            try statements.run("UPDATE account SET oldest = max(oldest, ?) WHERE n = ?", [version, account])
        }
        try removeOutcomes(&position)
        try statements.run(
            """
            DELETE FROM reply WHERE (device, key) IN (SELECT device, key FROM reply WHERE at <= ? LIMIT ?)
            """, [now - retention.outcomes, Self.portion])
        return oldest
    }

    /// What stands under a dead record goes before it, so that nothing is ever left without its parent.
    private func removeTombstones(_ oldest: inout [Int64: Int64]) throws {
        var rows: [(n: Int64, account: Int64, version: Int64)] = []
        try statements.each(
            """
            SELECT n, account, version FROM record WHERE dead = 1 AND at <= ?
            AND NOT EXISTS (SELECT 1 FROM link WHERE parent = record.n) ORDER BY at LIMIT ?
            """, [now - retention.tombstones, Self.portion]
        ) { row in
            rows.append((row[0], row[1], row[2]))
            return true
        }
        for row in rows {
            try statements.run("DELETE FROM record WHERE n = ?", [row.n])
            try statements.run("DELETE FROM link WHERE child = ?", [row.n])
            try statements.run("DELETE FROM leaving WHERE record = ?", [row.n])
            try statements.run("DELETE FROM leaving WHERE root = ?", [row.n])
            oldest[row.account] = max(oldest[row.account] ?? 0, row.version)
        }
    }

    private func removeLeavings(_ oldest: inout [Int64: Int64]) throws {
        var rows: [(root: Int64, record: Int64, version: Int64, account: Int64)] = []
        try statements.each(
            """
            SELECT leaving.root, leaving.record, leaving.version, record.account FROM leaving
            JOIN record ON record.n = leaving.record WHERE leaving.at <= ? ORDER BY leaving.at LIMIT ?
            """, [now - retention.tombstones, Self.portion]
        ) { row in
            rows.append((row[0], row[1], row[2], row[3]))
            return true
        }
        for row in rows {
            try statements.run("DELETE FROM leaving WHERE root = ? AND record = ?", [row.root, row.record])
            oldest[row.account] = max(oldest[row.account] ?? 0, row.version)
        }
    }

    private func removeOutcomes(_ position: inout Position) throws {
        var over: [Position] = []
        var seen = 0
        try statements.each(
            """
            SELECT device, sequence, at FROM outcome WHERE (device, sequence) > (?, ?)
            ORDER BY device, sequence LIMIT ?
            """, [position.device, position.sequence, Self.portion]
        ) { row in
            position = Position(device: row[0], sequence: row[1])
            seen += 1
            if (row[2] as Int64) <= now - retention.outcomes { over.append(position) }
            return true
        }
        for outcome in over {
            try statements.run(
                "DELETE FROM outcome WHERE device = ? AND sequence = ?", [outcome.device, outcome.sequence])
        }
        if seen < Self.portion { position = Position() }
        // Their numbers ascend with the time: the oldest are the first.
        try statements.run(
            """
            DELETE FROM outcome_run WHERE at <= ? AND n IN (SELECT n FROM outcome_run ORDER BY n LIMIT ?)
            """, [now - retention.outcomes, Self.portion])
    }
}

extension SyncService {
    /// Forgets a bounded part of what is over; requests that write do it by themselves.
    ///
    /// A shell may call it on a timer, for a server that is only read. Throws ``ServiceFailure``.
    public func prune() throws(ServiceFailure) {
        let now = clock.nowMilliseconds
        try inStore { state, db in
            var course = state.pruning
            let store = state.store
            store.ahead.forgetOld(now: now)
            try db.inTransaction(.immediate) {
                try self.prune(store, &course, now)
                return .commit
            }
            state.keep(course)
        }
    }

    /// Within a transaction of the caller, who keeps `course` only if that is committed.
    func pruneIfDue(_ store: ServerStore, _ course: inout PruningCourse, _ now: Int64) throws -> Bool {
        guard now - course.last >= configuration.retention.interval else { return false }
        try prune(store, &course, now)
        return true
    }

    private func prune(_ store: ServerStore, _ course: inout PruningCourse, _ now: Int64) throws {
        let pruning = Pruning(store: store, retention: configuration.retention, now: now)
        course.last = now
        course.oldest = try pruning.run(&course.position)
    }
}

extension SyncService.State {
    /// What was pruned is committed: the accounts that lost tombstones are read again.
    mutating func keep(_ course: PruningCourse) {
        guard course.last != pruning.last else { return }
        pruning = course
        if !course.oldest.isEmpty { store.forgetAll() }
    }
}

/// Where the pruning stands between requests.
struct PruningCourse: Sendable {
    var position = Pruning.Position()
    var last: Int64 = 0
    /// What the last run made the oldest version of accounts, by row.
    var oldest: [Int64: Int64] = [:]
}
