internal import SyncCore

/// Reads records for REST: by key, never by offset.
struct RecordReader {
    let store: ServerStore
    let account: AccountContext
    let rules: [String: EntityRules]

    private var statements: Statements { store.statements }

    /// The record, dead or alive, if readers ever saw it.
    func record(_ key: RecordKey) throws -> FlatRecord? {
        try statements.first(
            """
            SELECT id, version, dead, activity, fields FROM record
            WHERE account = ? AND entity = ? AND id = ? AND version > 0
            """, [account.row, key.entity, key.id]
        ) { self.flat($0, key.entity) }
    }

    private func flat(_ row: StatementRow, _ entity: String) -> FlatRecord {
        FlatRecord(
            key: RecordKey(entity, row[0]), version: row[1], isDead: (row[2] as Int64) != 0,
            activity: rules[entity]?.tracksActivity == true ? row[3] : nil, fields: row[4])
    }

    /// Records of an entity after an id, in the order of their ids, with a version above `since`. Dead ones only for
    /// who says what it has. `body` says whether it wants the next.
    func list(
        _ entity: String, since: Int64, after: String, limit: Int, _ body: (FlatRecord) throws -> Bool
    ) throws {
        try statements.each(
            """
            SELECT id, version, dead, activity, fields FROM record
            WHERE account = ? AND entity = ? AND id > ? AND version > ? AND (dead = 0 OR ? > 0) ORDER BY id LIMIT ?
            """, [account.row, entity, after, max(0, since), since, limit]
        ) { row in try body(flat(row, entity)) }
    }

    /// The same of what stands under a record, however deep.
    func list(
        _ entity: String, under parent: RecordKey, since: Int64, after: String, limit: Int,
        _ body: (FlatRecord) throws -> Bool
    ) throws {
        try statements.each(
            """
            WITH RECURSIVE under(n) AS (
                SELECT link.child FROM record JOIN link ON link.parent = record.n
                WHERE account = ? AND entity = ? AND id = ?
                UNION SELECT link.child FROM under JOIN link ON link.parent = under.n
            )
            SELECT id, version, dead, activity, fields FROM under JOIN record USING (n)
            WHERE entity = ? AND id > ? AND version > ? AND (dead = 0 OR ? > 0) ORDER BY id LIMIT ?
            """, [account.row, parent.entity, parent.id, entity, after, max(0, since), since, limit]
        ) { row in try body(flat(row, entity)) }
    }

    /// Whether a record stands directly under another.
    func stands(_ child: RecordKey, under parent: RecordKey) throws -> Bool {
        try statements.first(
            """
            SELECT 1 FROM link JOIN record AS above ON above.n = link.parent JOIN record AS below ON below.n = link.child
            WHERE below.account = ? AND below.entity = ? AND below.id = ? AND above.entity = ? AND above.id = ?
            """, [account.row, child.entity, child.id, parent.entity, parent.id]
        ) { _ in true } ?? false
    }
}
