import GRDB
public import SyncCore

/// How the last cycles went, in `sync_cycle`: a ring, in the engine's own words.
extension Store {
    /// Takes the lease as ``lease(holder:seconds:)`` does, and reads what a cycle begins with, in one transaction.
    /// - Returns: `nil` where another holder's lease has not run out.
    public func beginCycle(holder: String, seconds: Double) throws(StoreFailure) -> CycleOpening? {
        try noticeOthers()
        let now = now
        let present = leaseGeneration
        let opening = try performEngine("beginning a cycle") { db -> (generation: Int64, CycleOpening)? in
            guard let generation = try Lease.take(db, holder: holder, until: now + Int64(seconds * 1_000), now: now)
            else {
                return nil
            }
            if generation != present { try ChangeTable.recover(db) }
            return (generation, CycleOpening(position: try SyncPosition(db), queue: try context.changes.summary(db)))
        }
        guard let (generation, opening) = opening else { return nil }
        leaseGeneration = generation
        return opening
    }

    /// Gives the lease back, and notes how the cycle went, in one transaction.
    /// - Parameters:
    ///   - summary: what is kept of the cycle, as JSON; `nil` keeps nothing of it.
    ///   - keeping: how many cycles are kept; the oldest go.
    public func release(
        holder: String, noting summary: String?, at milliseconds: Int64, keeping: Int
    ) throws(StoreFailure) {
        try perform("ending a cycle") { db in
            try Lease.release(db, holder: holder)
            guard let summary else { return }
            try db.cachedStatement(sql: "INSERT INTO sync_cycle (at, summary) VALUES (?, ?)")
                .execute(arguments: [milliseconds, summary])
            try db.cachedStatement(sql: "DELETE FROM sync_cycle WHERE number <= ?")
                .execute(arguments: [db.lastInsertedRowID - Int64(keeping)])
        }
        leaseGeneration = nil
    }

    /// The last cycles, newest first.
    public func cycles(limit: Int) throws(StoreFailure) -> [StoredCycle] {
        try look("reading the last cycles") { db in
            let sql = "SELECT number, at, summary FROM sync_cycle ORDER BY number DESC LIMIT ?"
            return try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [limit]).map {
                StoredCycle(number: $0[0], atMilliseconds: $0[1], summary: $0[2])
            }
        }
    }
}

/// Where this device stood when a cycle took the lease.
public struct CycleOpening: Sendable, Hashable {
    public var position: SyncPosition
    public var queue: QueueSummary
}

/// One cycle as it was noted.
public struct StoredCycle: Sendable, Hashable {
    /// Grows by one with each cycle that is kept.
    public var number: Int64
    /// When it began.
    public var atMilliseconds: Int64
    /// JSON.
    public var summary: String
}
