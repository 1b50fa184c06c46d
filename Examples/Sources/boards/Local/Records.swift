import GRDB
import SyncCore

/// The rows of the declared tables as records: read and written with plain GRDB, inside the caller's transaction.
///
/// Triggers of the store capture each write. A row whose parent is not here does not count as a record: a deleted list
/// takes its cards out of sight at once, with one change, and they are back as soon as it is.
struct Records: Sendable {
    let schema: Schema

    /// The fields of a record that is here; `nil` where there is none, or its parent is gone.
    func fetch(_ db: Database, _ key: RecordKey) throws -> [String: FieldValue]? {
        guard let fields = try row(db, key), try isUnderParents(db, key.entity, fields) else { return nil }
        return fields
    }

    /// All records of these entities, or of all.
    func fetchAll(_ db: Database, only entity: EntitySchema? = nil) throws -> [LocalRecord] {
        var present: [String: Set<String>] = [:]
        var records: [LocalRecord] = []
        for declared in schema.entities {
            var ids: Set<String> = []
            let columns = Columns(declared)
            let rows = try Row.fetchCursor(db.cachedStatement(sql: columns.selectAll))
            while let row = try rows.next() {
                let record = LocalRecord(RecordKey(declared.name, row[0]), columns.fields(of: row))
                guard isPresent(declared, record.fields, in: present) else { continue }
                ids.insert(record.key.id)
                if entity == nil || entity?.name == declared.name { records.append(record) }
            }
            present[declared.name] = ids
            if declared.name == entity?.name { break }
        }
        return records
    }

    /// Whether there is a row of this name at all, seen or not.
    func exists(_ db: Database, _ key: RecordKey) throws -> Bool { try row(db, key) != nil }

    func insert(_ db: Database, _ record: LocalRecord) throws {
        let entity = try declared(record.key.entity)
        var arguments: [DatabaseValue] = [record.key.id.databaseValue]
        try refuseNUL(record.key, record.fields, entity)
        for field in entity.fields { arguments.append(Columns.column(record.fields[field.name] ?? .null, field)) }
        try db.cachedStatement(sql: Columns(entity).insert).execute(arguments: StatementArguments(arguments))
    }

    /// Sets these fields and leaves the others.
    func update(_ db: Database, _ key: RecordKey, _ fields: [String: FieldValue]) throws {
        let entity = try declared(key.entity)
        let told = entity.fields.filter { fields[$0.name] != nil }
        try refuseNUL(key, fields, entity)
        guard !told.isEmpty else { return }
        let assignments = told.map { "\(Columns.quoted($0.column)) = ?" }.joined(separator: ", ")
        let sql =
            "UPDATE \(Columns.quoted(entity.table)) SET \(assignments) WHERE \(Columns.quoted(entity.keyColumn)) = ?"
        var arguments = told.map { Columns.column(fields[$0.name] ?? .null, $0) }
        arguments.append(key.id.databaseValue)
        try db.cachedStatement(sql: sql).execute(arguments: StatementArguments(arguments))
    }

    func delete(_ db: Database, _ key: RecordKey) throws {
        let entity = try declared(key.entity)
        let sql = "DELETE FROM \(Columns.quoted(entity.table)) WHERE \(Columns.quoted(entity.keyColumn)) = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [key.id])
    }

    /// The first parent that these fields name and that is not here; `nil` if all are.
    func missingParent(_ db: Database, _ entity: EntitySchema, _ fields: [String: FieldValue]) throws -> RecordKey? {
        for field in entity.parents {
            guard let reference = field.reference, case .string(let id)? = fields[field.name] else { continue }
            let parent = RecordKey(reference.entity, id)
            if try fetch(db, parent) == nil { return parent }
        }
        return nil
    }

    /// A text would be cut there, without a word.
    private func refuseNUL(_ key: RecordKey, _ fields: [String: FieldValue], _ entity: EntitySchema) throws {
        for field in entity.fields where field.kind != .json {
            guard case .string(let text)? = fields[field.name], text.utf8.contains(0) else { continue }
            throw Problem(
                "“\(field.name)” of \(key) holds the character U+0000, which no text can have here; nothing was changed."
            )
        }
    }

    private func row(_ db: Database, _ key: RecordKey) throws -> [String: FieldValue]? {
        let columns = Columns(try declared(key.entity))
        guard let row = try Row.fetchOne(db.cachedStatement(sql: columns.selectOne), arguments: [key.id]) else {
            return nil
        }
        return columns.fields(of: row)
    }

    private func isUnderParents(_ db: Database, _ entity: String, _ fields: [String: FieldValue]) throws -> Bool {
        try missingParent(db, declared(entity), fields) == nil
    }

    private func isPresent(
        _ entity: EntitySchema, _ fields: [String: FieldValue], in present: [String: Set<String>]
    ) -> Bool {
        entity.parents.allSatisfy { field in
            guard let reference = field.reference, case .string(let id)? = fields[field.name] else { return true }
            return present[reference.entity]?.contains(id) ?? false
        }
    }

    private func declared(_ name: String) throws(Problem) -> EntitySchema {
        guard let entity = schema[name] else { throw unknownEntity(name, schema) }
        return entity
    }
}

/// The complaint about an entity that is not declared.
func unknownEntity(_ name: String, _ schema: Schema) -> Problem {
    Problem("There is no entity “\(name)”; there are \(schema.entities.map(\.name).joined(separator: ", ")).")
}
