import GRDB
import SyncCore

/// Sets aside what is unsent of a record that left all scopes (PROTOCOL.md, `gone`).
enum Gone {
    static func setAside(_ db: Database, _ key: RecordKey, _ schema: Schema, _ now: Int64) throws {
        var reason = JSONWriter()
        reason.beginObject()
        reason.key("code")
        reason.string("gone")
        reason.key("message")
        reason.string("The record left what this account may see; its unsent changes are kept here.")
        reason.endObject()
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO sync_failure (key, reason, failedAt, uncertain)
                SELECT key, ?, ?, state IN (1, 2) FROM sync_change WHERE entity = ? AND id = ? AND state < 4
                """
        ).execute(arguments: [String(decoding: reason.bytes, as: UTF8.self), now, key.entity, key.id])
        try db.cachedStatement(
            sql: "UPDATE sync_change SET state = 4, blockedBy = NULL WHERE entity = ? AND id = ? AND state < 4"
        ).execute(arguments: [key.entity, key.id])
    }
}
