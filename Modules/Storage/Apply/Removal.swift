import GRDB
import SyncCore

/// Takes rows away that the server says are gone, with what is under them, and never what waits to be sent.
enum Removal {
    /// Whether a row under this one, at any depth, has a change that is not decided, or a refused create.
    static func hasUnsentBelow(_ db: Database, _ key: RecordKey, _ schema: Schema) throws -> Bool {
        var seen: Set<RecordKey> = [key]
        var rest = [key]
        while let next = rest.popLast() {
            for (child, field) in schema.children(of: next.entity) {
                if try hasUnsent(db, child, field, next.id) { return true }
                guard try mayHaveUnsentBelow(db, child, schema) else { continue }
                for id in try ids(db, child, field, next.id) {
                    let key = RecordKey(child.name, id)
                    if seen.insert(key).inserted { rest.append(key) }
                }
            }
        }
        return false
    }

    /// Whether a change of this record was sent and has no verdict, whether it waits for one or was set aside without. What was made
    /// under an earlier device id may have been: a restored copy does not know what the device before it sent (Decision 175).
    static func hasUndecided(_ db: Database, _ key: RecordKey) throws -> Bool {
        let sql = """
            SELECT 1 FROM sync_change c WHERE entity = ? AND id = ? AND (state IN (1, 2, 5)
              OR state IN (0, 3) AND device IS NOT NULL
              OR state = 4 AND EXISTS (SELECT 1 FROM sync_failure f WHERE f.key = c.key AND f.uncertain = 1)) LIMIT 1
            """
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [key.entity, key.id]) != nil
    }

    /// Whether a row under this one is kept on this device alone.
    static func hasLocal(_ db: Database, _ key: RecordKey, _ schema: Schema) throws -> Bool {
        guard try !Drafts.localRoots(db).isEmpty else { return false }
        return try family(db, key, schema).contains { try Drafts.kind(db, of: $0) == .local }
    }

    /// The record and every row under it, each behind all that it stands under.
    static func family(_ db: Database, _ key: RecordKey, _ schema: Schema) throws -> [RecordKey] {
        try FamilyOrder.parentsFirst(key) { parent in
            try schema.children(of: parent.entity).flatMap { child, field in
                try ids(db, child, field, parent.id).map { RecordKey(child.name, $0) }
            }
        }
    }

    /// Deletes the row and what is under it, children first, and forgets what was known of it.
    /// - Returns: the records whose rows went, in that order.
    static func remove(_ db: Database, _ key: RecordKey, _ schema: Schema) throws -> [RecordKey] {
        var gone: [RecordKey] = []
        for member in try family(db, key, schema).reversed() {
            guard let entity = schema[member.entity] else { continue }
            if try RowWriter(entity).delete(db, member.id) { gone.append(member) }
            // What is under it has tombstones of its own on their way; without its row its version says nothing.
            try StoredRecord.delete(db, member)
        }
        return gone
    }

    /// The rows directly under a record, by one of their fields.
    static func ids(
        _ db: Database, _ child: EntitySchema, _ field: FieldSchema, _ parent: String
    ) throws -> [String] {
        let sql = """
            SELECT \(RowWriter.quoted(child.keyColumn)) FROM \(RowWriter.quoted(child.table)) \
            WHERE \(RowWriter.quoted(field.column)) = ?
            """
        return try String.fetchAll(db.cachedStatement(sql: sql), arguments: [parent])
    }

    private static func hasUnsent(
        _ db: Database, _ child: EntitySchema, _ field: FieldSchema, _ parent: String
    ) throws -> Bool {
        let sql = """
            SELECT 1 FROM sync_change JOIN \(RowWriter.quoted(child.table)) AS child \
            ON child.\(RowWriter.quoted(child.keyColumn)) = sync_change.id \
            WHERE sync_change.entity = ?1 AND child.\(RowWriter.quoted(field.column)) = ?2
            UNION ALL SELECT 1 FROM sync_draft JOIN \(RowWriter.quoted(child.table)) AS child \
            ON child.\(RowWriter.quoted(child.keyColumn)) = sync_draft.id \
            WHERE sync_draft.entity = ?1 AND kind = 2 AND child.\(RowWriter.quoted(field.column)) = ?2 LIMIT 1
            """
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [child.name, parent]) != nil
    }

    /// Whether any entity under this one has an entry in the queue at all.
    private static func mayHaveUnsentBelow(_ db: Database, _ entity: EntitySchema, _ schema: Schema) throws -> Bool {
        var seen: Set<String> = [entity.name]
        var rest = [entity.name]
        while let next = rest.popLast() {
            for (child, _) in schema.children(of: next) {
                let sql = """
                    SELECT 1 FROM sync_change WHERE entity = ?1 \
                    UNION ALL SELECT 1 FROM sync_draft WHERE entity = ?1 AND kind = 2 LIMIT 1
                    """
                if try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [child.name]) != nil { return true }
                if seen.insert(child.name).inserted { rest.append(child.name) }
            }
        }
        return false
    }
}
