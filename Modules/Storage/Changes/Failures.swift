import GRDB
import SyncCore

/// The rows of `sync_failure`: why a change stands aside.
enum Failures {
    /// Whether, and how, a change that was set aside may still have happened on the server, and whether the row shows it.
    enum Doubt: Int64 {
        /// The server refused it, and the row still shows it: its entity wants that (``RefusalRule/keep``).
        case kept = -1
        /// The server refused it, or it was never sent.
        case none = 0
        /// It never got a verdict, and the row still shows it.
        case shown = 1

        /// Whether it never got a verdict, so that only its own key may be sent again.
        var isUncertain: Bool { self == .shown }
    }

    static func insert(
        _ db: Database, _ change: StoredChange, _ reason: SetAsideReason, doubt: Doubt, now: Int64
    ) throws {
        let sql = """
            INSERT INTO sync_failure (key, position, reason, failedAt, uncertain) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT (key) DO UPDATE SET position = excluded.position, reason = excluded.reason,
              failedAt = excluded.failedAt, uncertain = excluded.uncertain
            """
        try db.cachedStatement(sql: sql).execute(arguments: [
            change.key, change.position, try ReasonCodec.json(reason), now, doubt.rawValue,
        ])
    }

    /// The row of a refused change goes: what was kept in it is in the failure alone.
    static func hide(_ db: Database, key: String) throws {
        let sql = "UPDATE sync_failure SET uncertain = 0 WHERE key = ? AND uncertain = -1"
        try db.cachedStatement(sql: sql).execute(arguments: [key])
    }

    static func delete(_ db: Database, key: String) throws {
        try db.cachedStatement(sql: "DELETE FROM sync_failure WHERE key = ?").execute(arguments: [key])
    }

    /// The place of a failed change, and whether it ever got a verdict.
    static func find(_ db: Database, key: String) throws -> (position: Int64, doubt: Doubt)? {
        let sql = "SELECT position, uncertain FROM sync_failure WHERE key = ?"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [key]) else { return nil }
        return (row[0], Doubt(rawValue: row[1]) ?? .none)
    }

    /// Why a change stands aside.
    static func reason(_ db: Database, key: String) throws -> SetAsideReason? {
        let sql = "SELECT reason FROM sync_failure WHERE key = ?"
        return try String.fetchOne(db.cachedStatement(sql: sql), arguments: [key]).map(ReasonCodec.reason)
    }
}
