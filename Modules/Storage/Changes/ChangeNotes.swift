import GRDB
import SyncCore

/// What is never silent (I13): events, and the journal of values that met another.
enum ChangeNotes {
    /// A line in `sync_event`.
    static func event(
        _ db: Database, _ kind: String, of change: StoredChange, detail: String? = nil, now: Int64
    ) throws {
        let sql = "INSERT INTO sync_event (at, kind, entity, id, key, detail) VALUES (?, ?, ?, ?, ?, ?)"
        try db.cachedStatement(sql: sql).execute(arguments: [
            now, kind, change.record.entity, change.record.id, change.key, detail,
        ])
    }

    /// How a field's two values ended.
    struct Conflict {
        /// `nil` where the whole record is meant (a delete that lost).
        var field: String?
        var mine: FieldValue
        var theirs: FieldValue
        /// `mine`, `theirs` or `both`.
        var winner: String
        var rule: MergeRule
        /// `overwrote`, `lost`, `merged` or `conflict`; a replay writes `replayed`.
        var kind: String
    }

    /// An entry of the journal: one for a change and field, which a later verdict completes.
    static func conflict(_ db: Database, _ conflict: Conflict, of change: StoredChange, now: Int64) throws {
        let (mine, theirs) = (try conflict.mine.jsonText(), try conflict.theirs.jsonText())
        let complete = """
            UPDATE OR REPLACE sync_conflict SET mine = ?, theirs = ?, winner = ?, rule = ?, at = ?, kind = ?
            WHERE key = ? AND field IS ?
            """
        try db.cachedStatement(sql: complete).execute(arguments: [
            mine, theirs, conflict.winner, conflict.rule.rawValue, now, conflict.kind, change.key, conflict.field,
        ])
        guard db.changesCount == 0 else { return }
        let sql = """
            INSERT INTO sync_conflict (key, entity, id, field, mine, theirs, winner, rule, at, kind)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """
        try db.cachedStatement(sql: sql).execute(arguments: [
            change.key, change.record.entity, change.record.id, conflict.field, mine, theirs, conflict.winner,
            conflict.rule.rawValue, now, conflict.kind,
        ])
    }
}
