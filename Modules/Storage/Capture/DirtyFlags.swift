import GRDB
import SyncCore

/// What dirty flags mean: marked rows become entries of the change log, and are in step again when those are done.
///
/// 1. ``collect(_:_:now:)`` runs in the transaction of each claim, page and question, before anything else there: a row
///    that is marked is compared with what was there before its first edit, and becomes a create, an update of what
///    differs or a delete. A page never finds an edit that is not in the log (I6).
/// 2. ``clear(_:_:now:)`` runs at the end of it: where none of a row's changes is left in the log, and its counter is the
///    one that was collected, the flag goes; a later edit keeps it.
enum DirtyFlags {
    static func isUsed(_ schema: Schema) -> Bool { schema.entities.contains { $0.capture == .dirtyFlag } }

    /// Whether there is anything to collect.
    static func isDirty(_ db: Database, _ schema: Schema) throws -> Bool {
        for entity in schema.entities where entity.capture == .dirtyFlag {
            let rows = "SELECT 1 FROM \(RowWriter.quoted(entity.table)) WHERE is_dirty = 1 LIMIT 1"
            let gone = "SELECT 1 FROM sync_dirty WHERE gone = 1 AND entity = ? LIMIT 1"
            if try Row.fetchOne(db.cachedStatement(sql: rows)) != nil { return true }
            if try Row.fetchOne(db.cachedStatement(sql: gone), arguments: [entity.name]) != nil { return true }
        }
        return false
    }

    // MARK: Collecting

    /// Makes entries of the change log of all marked rows, in the order of their last edits; parents before children.
    /// - Returns: how many.
    @discardableResult
    static func collect(_ db: Database, _ schema: Schema, now: Int64) throws -> Int {
        let before = try ChangeRows.queued(db)
        // Deletes first and children before parents, so that each entry stands behind what it needs.
        for entity in schema.entities.reversed() where entity.capture == .dirtyFlag {
            for id in try gone(db, entity) where try !RowWriter(entity).exists(db, id) {
                try collectDelete(db, entity, id, schema, now: now)
            }
        }
        for entity in schema.entities where entity.capture == .dirtyFlag {
            let marked = """
                SELECT \(RowWriter.quoted(entity.keyColumn)), edits FROM \(RowWriter.quoted(entity.table)) \
                WHERE is_dirty = 1 ORDER BY edits
                """
            let rows = try Row.fetchAll(db.cachedStatement(sql: marked)).map { ($0[0] as String, $0[1] as Int64) }
            for (id, edits) in rows { try collectRow(db, entity, id, edits, schema, now: now) }
            // What a replacing insert noted, and the row stands there as it did.
            for id in try gone(db, entity) {
                try db.cachedStatement(sql: "UPDATE sync_dirty SET gone = 0, done = 1 WHERE entity = ? AND id = ?")
                    .execute(arguments: [entity.name, id])
            }
        }
        return try ChangeRows.queued(db) - before
    }

    private static func gone(_ db: Database, _ entity: EntitySchema) throws -> [String] {
        let statement = try db.cachedStatement(
            sql: "SELECT id FROM sync_dirty WHERE gone = 1 AND entity = ? ORDER BY id")
        return try String.fetchAll(statement, arguments: [entity.name])
    }

    private static func collectDelete(
        _ db: Database, _ entity: EntitySchema, _ id: String, _ schema: Schema, now: Int64
    ) throws {
        if let seen = try seen(db, entity, id) {
            try FoundChanges.add(db, .delete(RecordKey(entity.name, id), seen), schema, now: now)
        }
        try db.cachedStatement(
            sql: "UPDATE sync_dirty SET gone = 0, seen = NULL, edits = NULL, done = 1 WHERE entity = ? AND id = ?"
        ).execute(arguments: [entity.name, id])
    }

    private static func collectRow(
        _ db: Database, _ entity: EntitySchema, _ id: String, _ edits: Int64, _ schema: Schema, now: Int64
    ) throws {
        let record = RecordKey(entity.name, id)
        guard let row = try RowWriter(entity).read(db, id) else { return }
        if try Drafts.kind(db, of: record) == .local {
            // Sent as it is then, when it is released.
            try noteCollected(db, entity, id, edits)
            return
        }
        let seen = try seen(db, entity, id)
        let found: FoundChange = seen.map { .update(record, from: $0, to: row) } ?? .create(record, row)
        try FoundChanges.add(db, found, schema, now: now)
        try noteCollected(db, entity, id, edits)
    }

    /// What the row is now stands in the log, up to this edit.
    static func noteCollected(_ db: Database, _ entity: EntitySchema, _ id: String, _ edits: Int64) throws {
        try setFlag(db, entity, id, 2)
        try db.cachedStatement(
            sql: """
                INSERT INTO sync_dirty (entity, id, edits, done) VALUES (?, ?, ?, 1)
                ON CONFLICT (entity, id) DO UPDATE SET seen = NULL, gone = 0, edits = excluded.edits, done = 1
                """
        ).execute(arguments: [entity.name, id, edits])
    }

    /// The row before its first edit; `nil` where there was none.
    private static func seen(_ db: Database, _ entity: EntitySchema, _ id: String) throws -> [String: FieldValue]? {
        let statement = try db.cachedStatement(sql: "SELECT seen FROM sync_dirty WHERE entity = ? AND id = ?")
        guard let json = try String.fetchOne(statement, arguments: [entity.name, id]) else { return nil }
        return try DeltaCodec.deltas(json, of: entity).compactMapValues(\.old)
    }

    // MARK: Clearing

    /// Takes flags away where all that was collected is done.
    static func clear(_ db: Database, _ schema: Schema, now: Int64) throws {
        for entity in schema.entities where entity.capture == .dirtyFlag {
            let statement = try db.cachedStatement(
                sql: "SELECT id, edits FROM sync_dirty WHERE done = 1 AND entity = ? ORDER BY id")
            let marks = try Row.fetchAll(statement, arguments: [entity.name]).map { ($0[0] as String, $0[1] as Int64?) }
            for (id, edits) in marks { try clear(db, entity, id, edits, now: now) }
        }
    }

    private static func clear(
        _ db: Database, _ entity: EntitySchema, _ id: String, _ edits: Int64?, now: Int64
    ) throws {
        let arguments: StatementArguments = [entity.name, id]
        let waits = "SELECT 1 FROM sync_change WHERE entity = ? AND id = ? LIMIT 1"
        let table = RowWriter.quoted(entity.table)
        let key = RowWriter.quoted(entity.keyColumn)
        if try Row.fetchOne(db.cachedStatement(sql: waits), arguments: arguments) == nil {
            let row = try Row.fetchOne(
                db.cachedStatement(sql: "SELECT is_dirty, edits FROM \(table) WHERE \(key) = ?"), arguments: [id])
            let isEdited =
                row.map { ($0[0] as Int64) == 1 || ($0[0] as Int64) == 2 && ($0[1] as Int64) != edits } ?? false
            if !isEdited {
                if row?[0] == 2 as Int64 { try setFlag(db, entity, id, 0, syncedAt: now) }
                return try db.cachedStatement(sql: "DELETE FROM sync_dirty WHERE entity = ? AND id = ?")
                    .execute(arguments: arguments)
            }
        }
        try db.cachedStatement(sql: "UPDATE sync_dirty SET done = 0 WHERE entity = ? AND id = ?")
            .execute(arguments: arguments)
    }

    private static func setFlag(
        _ db: Database, _ entity: EntitySchema, _ id: String, _ flag: Int64, syncedAt: Int64? = nil
    ) throws {
        let sql = """
            UPDATE \(RowWriter.quoted(entity.table)) SET is_dirty = ?, last_synced_at = coalesce(?, last_synced_at) \
            WHERE \(RowWriter.quoted(entity.keyColumn)) = ?
            """
        try db.cachedStatement(sql: sql).execute(arguments: [flag, syncedAt, id])
    }
}
