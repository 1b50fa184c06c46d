import GRDB
import SyncCore

/// Counts and marks of the queue, none of which costs more for a longer one.
enum QueueFigures {
    /// Every change up to this sequence is decided and recorded, or was taken back unsent.
    ///
    /// Below the lowest that is not: pending, on its way, blocked, or set aside without ever getting a verdict.
    static func settled(_ db: Database) throws -> Int64 {
        let open = """
            (state <> 4 OR EXISTS (SELECT 1 FROM sync_failure WHERE sync_failure.key = sync_change.key AND uncertain >= 1))
            """
        let inPlace = """
            SELECT sequence FROM sync_change WHERE position > 0 AND sequence = position AND \(open) ORDER BY position LIMIT 1
            """
        let successor = """
            SELECT sequence FROM sync_change INDEXED BY sync_change_successor
            WHERE sequence <> position AND \(open) ORDER BY sequence LIMIT 1
            """
        let lowest = try [inPlace, successor].compactMap { try Int64.fetchOne(db.cachedStatement(sql: $0)) }.min()
        return try lowest.map { $0 - 1 } ?? ChangeRows.sequence(db)
    }

    static func deviceID(_ db: Database) throws -> String {
        let sql = "SELECT value FROM sync_meta WHERE key = 'device'"
        return try String.fetchOne(db.cachedStatement(sql: sql)) ?? ""
    }

    /// Changes up to this sequence were made in an earlier epoch.
    static func epochSequence(_ db: Database) throws -> Int64 {
        let sql = "SELECT value FROM sync_meta WHERE key = 'epochSequence'"
        return try Int64.fetchOne(db.cachedStatement(sql: sql)) ?? 0
    }

    static func summary(_ db: Database) throws -> QueueSummary {
        var summary = QueueSummary(schedule: try ScheduleCodec.read(db))
        let counts = try Row.fetchCursor(
            db.cachedStatement(sql: "SELECT state, count(*) FROM sync_change WHERE state <> 0 GROUP BY state"))
        var aside = 0
        while let row = try counts.next() {
            let count: Int = row[1]
            aside += count
            switch StoredChange.State(rawValue: row[0]) {
            case .uploading, .uncertain: summary.inFlight += count
            case .blocked, .blockedAfterSending: summary.blocked += count
            case .failed: summary.failed += count
            case .pending, nil: break
            }
        }
        summary.pending = max(0, try ChangeRows.queued(db) - aside)
        let oldest = "SELECT madeAt FROM sync_change WHERE position > 0 AND state < 3 ORDER BY position LIMIT 1"
        summary.oldestMilliseconds = try Int64.fetchOne(db.cachedStatement(sql: oldest))
        return summary
    }

    /// What waits for something, by one look at an index.
    struct Waiting: Equatable {
        let count: Int
        /// Of their places: others, where as many wait.
        let places: Int64

        init(_ db: Database) throws {
            let sql = """
                SELECT count(*), coalesce(sum(position), 0) FROM sync_change WHERE state <> 0 AND state IN (3, 5)
                """
            let row = try Row.fetchOne(db.cachedStatement(sql: sql))
            (count, places) = (row?[0] ?? 0, row?[1] ?? 0)
        }

        /// Whether some of these may wait no more where these others do.
        func isFreed(by others: Waiting) -> Bool {
            others.count < count || (others.count == count && others.places != places)
        }
    }

    /// Whether anything is set aside or blocked, so that what goes next must be looked at for needs.
    static func hasAside(_ db: Database) throws -> Bool {
        let sql = "SELECT 1 FROM sync_change WHERE state <> 0 AND state >= 3 LIMIT 1"
        return try Row.fetchOne(db.cachedStatement(sql: sql)) != nil
    }
}
