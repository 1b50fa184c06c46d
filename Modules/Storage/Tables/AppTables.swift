import GRDB
import SyncCore

/// The app's tables for a quick start, made from the declared fields; and the check that what is declared is there.
enum AppTables {
    /// Makes tables and columns that are missing; parents are foreign keys that take their children along.
    static func create(_ db: Database, _ schema: Schema) throws {
        for entity in schema.entities {
            _ = try flags(of: entity)
            if try db.tableExists(entity.table) {
                try addColumns(db, entity)
            } else {
                try createTable(db, entity, schema)
            }
        }
    }

    private static func createTable(_ db: Database, _ entity: EntitySchema, _ schema: Schema) throws {
        var lines = ["\(quoted(entity.keyColumn)) TEXT PRIMARY KEY NOT NULL"]
        for field in entity.fields {
            var line = "\(quoted(field.column)) \(type(field.kind))"
            if field.isRequired { line += " NOT NULL" }
            if let reference = field.reference, reference.isParent, let parent = schema[reference.entity] {
                line += " REFERENCES \(quoted(parent.table)) (\(quoted(parent.keyColumn))) ON DELETE CASCADE"
            }
            lines.append(line)
        }
        if entity.capture == .dirtyFlag { lines += DirtyTriggers.columns.map { "\($0.0) \($0.1)" } }
        try db.execute(sql: "CREATE TABLE \(quoted(entity.table)) (\(lines.joined(separator: ", ")))")
        for parent in entity.parents {
            try db.execute(
                sql: """
                    CREATE INDEX \(quoted("\(entity.table)_on_\(parent.column)")) \
                    ON \(quoted(entity.table)) (\(quoted(parent.column)))
                    """)
        }
    }

    private static func addColumns(_ db: Database, _ entity: EntitySchema) throws {
        let present = Set(try db.columns(in: entity.table).map { $0.name.lowercased() })
        for field in entity.fields where !present.contains(field.column.lowercased()) {
            // A new column cannot be required: the rows that are there have no value for it.
            try db.execute(
                sql: "ALTER TABLE \(quoted(entity.table)) ADD COLUMN \(quoted(field.column)) \(type(field.kind))")
        }
        guard entity.capture == .dirtyFlag else { return }
        for (column, declaration) in DirtyTriggers.columns where !present.contains(column) {
            try db.execute(sql: "ALTER TABLE \(quoted(entity.table)) ADD COLUMN \(column) \(declaration)")
        }
    }

    /// Checks that tables, key columns and columns are there, and that a row is found by its id alone.
    /// - Throws: ``StoreFailure`` (`invalid`) that says what to write instead.
    static func check(_ db: Database, _ schema: Schema) throws {
        for entity in schema.entities {
            guard try db.tableExists(entity.table) else {
                throw mistake("There is no table “\(entity.table)” for the entity “\(entity.name)”; create it first.")
            }
            let present = Set(try db.columns(in: entity.table).map { $0.name.lowercased() })
            let flags = try flags(of: entity)
            for column in [entity.keyColumn] + entity.fields.map(\.column) + flags
            where !present.contains(column.lowercased()) {
                throw mistake("The table “\(entity.table)” has no column “\(column)”; add it, or declare another one.")
            }
            guard try db.table(entity.table, hasUniqueKey: [entity.keyColumn]) else {
                throw mistake(
                    "The column “\(entity.keyColumn)” of “\(entity.table)” is not unique; make it the primary key.")
            }
            if try isNumberedBySQLite(db, entity) {
                throw mistake(
                    "SQLite numbers “\(entity.keyColumn)” of “\(entity.table)”, an INTEGER PRIMARY KEY, 1, 2, 3 on each "
                        + "device: two devices would make the same id for two records. Write “\(entity.keyColumn) TEXT "
                        + "PRIMARY KEY NOT NULL” and give each new row a UUID.")
            }
        }
    }

    /// The same; what the check finds missing the app may make first.
    static func check(
        _ db: Database, _ schema: Schema, making make: (@Sendable (Database) throws -> Void)?
    ) throws {
        do {
            try check(db, schema)
        } catch let mistake as StoreFailure where mistake.kind == .invalid {
            guard let make else { throw mistake }
            try make(db)
            try check(db, schema)
        }
    }

    /// Whether the ids are the table's rowids, of which SQLite makes one where a row is written without.
    private static func isNumberedBySQLite(_ db: Database, _ entity: EntitySchema) throws -> Bool {
        let key = try db.primaryKey(entity.table)
        return key.rowIDColumn?.lowercased() == entity.keyColumn.lowercased()
    }

    /// The columns that a dirty flag adds, none of which may be a declared field's.
    private static func flags(of entity: EntitySchema) throws -> [String] {
        guard entity.capture == .dirtyFlag else { return [] }
        let flags = DirtyTriggers.columns.map(\.0)
        for field in entity.fields where flags.contains(field.column.lowercased()) {
            throw mistake(
                "The column “\(field.column)” of “\(entity.table)” is a dirty flag's; give the field another one.")
        }
        return flags
    }

    private static func mistake(_ message: String) -> StoreFailure { StoreFailure(kind: .invalid, message: message) }

    private static func type(_ kind: FieldKind) -> String {
        switch kind {
        case .text, .date, .json: "TEXT"
        case .integer: "INTEGER"
        case .real: "REAL"
        case .boolean: "BOOLEAN"
        case .data: "BLOB"
        }
    }

    private static func quoted(_ name: String) -> String { "\"\(name)\"" }
}
