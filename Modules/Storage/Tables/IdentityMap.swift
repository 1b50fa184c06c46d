import GRDB
import SyncCore

/// The ids under which a server that makes its own holds this device's records (`sync_identity`): one each way.
enum IdentityMap {
    /// Keeps the id under which the server holds a record.
    ///
    /// An id that a record has which is no more is free again: a server may give it a second time.
    /// - Returns: the other record that has this id here; nothing is kept then, since all that the server says of it would come to
    ///   both. `nil` where it is kept.
    static func keep(_ db: Database, _ record: RecordKey, _ serverID: String, _ schema: Schema) throws -> RecordKey? {
        guard serverID != record.id else { return nil }
        if let other = try owner(db, record.entity, serverID), other != record {
            if try isOfUse(db, other, schema) { return other }
            try db.cachedStatement(sql: "DELETE FROM sync_identity WHERE entity = ? AND id = ?")
                .execute(arguments: [other.entity, other.id])
        }
        try db.cachedStatement(
            sql: """
                INSERT INTO sync_identity (entity, id, serverID) VALUES (?, ?, ?)
                ON CONFLICT (entity, id) DO UPDATE SET serverID = excluded.serverID
                """
        ).execute(arguments: [record.entity, record.id, serverID])
        return nil
    }

    /// The id under which the server holds a record, where it made one that is known.
    static func serverID(_ db: Database, of record: RecordKey) throws -> String? {
        let sql = "SELECT serverID FROM sync_identity WHERE entity = ? AND id = ?"
        return try String.fetchOne(db.cachedStatement(sql: sql), arguments: [record.entity, record.id])
    }

    /// A field's value by this device's id, where it refers to a record that the server calls otherwise.
    static func local(_ db: Database, _ value: FieldValue, _ field: FieldSchema) throws -> FieldValue {
        guard let target = field.reference?.entity, case .string(let id) = value else { return value }
        return try owner(db, target, id).map { .string($0.id) } ?? value
    }

    /// The same for all fields of a record.
    static func local(
        _ db: Database, _ fields: [String: FieldValue], _ entity: EntitySchema
    ) throws -> [String: FieldValue] {
        var fields = fields
        for field in entity.fields { fields[field.name] = try fields[field.name].map { try local(db, $0, field) } }
        return fields
    }

    /// What this device calls a record that was noted by either id: it may have got one of its own since.
    static func present(_ db: Database, _ record: RecordKey) throws -> RecordKey {
        try owner(db, record.entity, record.id) ?? record
    }

    /// What came before this program knew which of its fields are references waits as it was told: it names records by the server's ids.
    static func nameHeld(_ db: Database, _ schema: Schema) throws {
        for entity in schema.entities {
            for field in entity.fields {
                guard let target = field.reference?.entity else { continue }
                let path = "'$.fields.\(field.name)'"
                try db.cachedStatement(
                    sql: """
                        UPDATE sync_held SET record = json_set(record, \(path), (
                          SELECT id FROM sync_identity WHERE entity = ?2 AND serverID = record ->> \(path)))
                        WHERE entity = ?1 AND EXISTS (
                          SELECT 1 FROM sync_identity WHERE entity = ?2 AND serverID = record ->> \(path))
                        """
                ).execute(arguments: [entity.name, target])
            }
        }
    }

    private static func owner(_ db: Database, _ entity: String, _ serverID: String) throws -> RecordKey? {
        let sql = "SELECT id FROM sync_identity WHERE entity = ? AND serverID = ?"
        return try String.fetchOne(db.cachedStatement(sql: sql), arguments: [entity, serverID])
            .map { RecordKey(entity, $0) }
    }

    /// Whether there is anything of a record but its name: a row, changes, or what waits to be applied.
    private static func isOfUse(_ db: Database, _ record: RecordKey, _ schema: Schema) throws -> Bool {
        for table in ["sync_change", "sync_held"] {
            let sql = "SELECT 1 FROM \(table) WHERE entity = ? AND id = ? LIMIT 1"
            let arguments: StatementArguments = [record.entity, record.id]
            if try Row.fetchOne(db.cachedStatement(sql: sql), arguments: arguments) != nil { return true }
        }
        // Of an entity without a table here nobody can say.
        guard let entity = schema[record.entity] else { return true }
        return try RowWriter(entity).read(db, record.id) != nil
    }
}
