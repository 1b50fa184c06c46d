import GRDB
import SyncCore

/// Writes and reads the app's rows for the engine; capture is silent within ``applying(_:_:)``.
///
/// All names come from the declared schema, which was checked; nothing that came over the wire reaches SQL as text.
struct RowWriter {
    let entity: EntitySchema
    /// Stands in the SQL of what is written. Whether a foreign key is checked at once is decided when a statement is compiled:
    /// the engine's, which leave it to the commit, are nobody else's.
    private let mark: String

    /// - Parameter isUser: what is written counts as the user's own: it is captured, and foreign keys are checked at once.
    init(_ entity: EntitySchema, asUser isUser: Bool = false) {
        self.entity = entity
        mark = isUser ? "" : " -- engine"
    }

    /// Runs `body` with the mark that keeps capture silent, and with foreign keys checked at the commit only.
    ///
    /// The mark lives in the same transaction, so a crash or a rollback takes it back; calls may be nested.
    static func applying<T>(_ db: Database, _ body: () throws -> T) throws -> T {
        let before = try Int64.fetchOne(db.cachedStatement(sql: "SELECT applying FROM sync_clock WHERE one = 1")) ?? 0
        guard before == 0 else { return try body() }
        try deferForeignKeys(db)
        try db.cachedStatement(sql: "UPDATE sync_clock SET applying = 1 WHERE one = 1").execute()
        do {
            let result = try body()
            try db.cachedStatement(sql: "UPDATE sync_clock SET applying = 0 WHERE one = 1").execute()
            return result
        } catch {
            // The caller rolls back, which clears the mark; one that caught this and went on must not write unnoticed.
            try db.cachedStatement(sql: "UPDATE sync_clock SET applying = 0 WHERE one = 1").execute()
            throw error
        }
    }

    /// SQLite takes this back by itself at the transaction's end.
    ///
    /// It does it when the statement is compiled; run, the statement makes all others of the connection expire, the app's
    /// among them, which are then compiled anew. So it is run only where compiling it was not enough.
    private static func deferForeignKeys(_ db: Database) throws {
        let pragma = try db.makeStatement(sql: "PRAGMA defer_foreign_keys = ON")
        if try Bool.fetchOne(db, sql: "PRAGMA defer_foreign_keys") != true { try pragma.execute() }
    }

    /// Whether the app's own table has the column `NOT NULL` though the field is declared without that: its value stays.
    func refusesNull(_ db: Database, _ field: FieldSchema) throws -> Bool {
        try db.columns(in: entity.table).contains { $0.name == field.column && $0.isNotNull }
    }

    /// The fields that a row may be without.
    func dispensable(_ db: Database) throws -> [FieldSchema] {
        try entity.fields.filter { try !$0.isRequired && !refusesNull(db, $0) }
    }

    /// What a row has in columns that must have a value, of those fields for which none is known any more: it stays.
    func indispensable(
        _ db: Database, of row: [String: FieldValue]?, without fields: [String: FieldValue]
    ) throws -> [String: FieldValue] {
        try row?.filter { name, value in
            guard !value.isNull, fields[name]?.isNull != false, let field = entity.field(name) else { return false }
            return try field.isRequired || refusesNull(db, field)
        } ?? [:]
    }

    /// The row's declared fields, or `nil` where there is none.
    func read(_ db: Database, _ id: String) throws -> [String: FieldValue]? {
        let columns = entity.fields.map { Self.quoted($0.column) }.joined(separator: ", ")
        let list = columns.isEmpty ? "1" : columns
        let sql = "SELECT \(list) FROM \(Self.quoted(entity.table)) WHERE \(Self.quoted(entity.keyColumn)) = ?"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [id]) else { return nil }
        var fields: [String: FieldValue] = [:]
        for (index, field) in entity.fields.enumerated() {
            fields[field.name] = try RowCodec.value(row[index] as DatabaseValue, of: field, in: entity.name)
        }
        return fields
    }

    /// Whether there is a row.
    func exists(_ db: Database, _ id: String) throws -> Bool {
        let sql = "SELECT 1 FROM \(Self.quoted(entity.table)) WHERE \(Self.quoted(entity.keyColumn)) = ?"
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [id]) != nil
    }

    /// Puts the values into the row, which is made where there is none; columns that are not named stay as they are.
    /// - Throws: ``ValueMismatch``, or GRDB's `DatabaseError` for a constraint of the app's table.
    func upsert(_ db: Database, _ id: String, _ values: [String: FieldValue]) throws {
        let named = entity.fields.filter { values[$0.name] != nil }
        let key = Self.quoted(entity.keyColumn)
        let columns = ([key] + named.map { Self.quoted($0.column) }).joined(separator: ", ")
        let marks = Array(repeating: "?", count: named.count + 1).joined(separator: ", ")
        let sets = named.map { "\(Self.quoted($0.column)) = excluded.\(Self.quoted($0.column))" }.joined(
            separator: ", ")
        let action = named.isEmpty ? "NOTHING" : "UPDATE SET \(sets)"
        try execute(
            db,
            "INSERT INTO \(Self.quoted(entity.table)) (\(columns)) VALUES (\(marks)) ON CONFLICT (\(key)) DO \(action)",
            [id.databaseValue] + arguments(values, named))
    }

    /// Puts the values into the row where there is one; columns that are not named stay as they are.
    /// - Returns: whether there was a row.
    @discardableResult
    func update(_ db: Database, _ id: String, _ values: [String: FieldValue]) throws -> Bool {
        let named = entity.fields.filter { values[$0.name] != nil }
        guard !named.isEmpty else { return try exists(db, id) }
        let sets = named.map { "\(Self.quoted($0.column)) = ?" }.joined(separator: ", ")
        try execute(
            db, "UPDATE \(Self.quoted(entity.table)) SET \(sets) WHERE \(Self.quoted(entity.keyColumn)) = ?",
            try arguments(values, named) + [id.databaseValue])
        return db.changesCount > 0
    }

    /// Takes the row away.
    /// - Returns: whether there was one.
    @discardableResult
    func delete(_ db: Database, _ id: String) throws -> Bool {
        try execute(
            db, "DELETE FROM \(Self.quoted(entity.table)) WHERE \(Self.quoted(entity.keyColumn)) = ?",
            [id.databaseValue])
        return db.changesCount > 0
    }

    /// A name of the schema in SQL; the schema has no quotes in names.
    static func quoted(_ name: String) -> String { "\"\(name)\"" }

    private func arguments(_ values: [String: FieldValue], _ named: [FieldSchema]) throws -> [DatabaseValue] {
        try named.map { try RowCodec.column(values[$0.name] ?? .null, of: $0, in: entity.name) }
    }

    private func execute(_ db: Database, _ sql: String, _ arguments: [DatabaseValue]) throws {
        try db.cachedStatement(sql: sql + mark).execute(arguments: StatementArguments(arguments))
    }
}
