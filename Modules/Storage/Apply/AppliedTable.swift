import GRDB
import SyncCore

/// One entity's table while slices are applied: statements that are prepared once, and what a row refers to.
final class AppliedTable {
    /// A column whose value must be the key of a row that is there.
    struct Need {
        let field: FieldSchema
        /// The entity of that row, or its table where it is none of ours.
        let target: String
        let sql: String
    }

    let entity: EntitySchema
    let writer: RowWriter
    let needs: [Need]
    private let db: Database
    private var upserts: [UInt64: Statement] = [:]
    /// Rows that are known to be there, by target entity; grows by slices and is dropped with this value.
    private var known: [String: Set<String>] = [:]

    init(
        _ db: Database, _ entity: EntitySchema, _ schema: Schema,
        foreignKeys: [String: ApplyContext.ForeignKey]
    ) {
        self.db = db
        self.entity = entity
        writer = RowWriter(entity)
        needs = entity.fields.compactMap { field in
            if let reference = field.reference, reference.isParent, let parent = schema[reference.entity] {
                return Need(
                    field: field, target: parent.name, sql: Self.exists(parent.table, parent.keyColumn))
            }
            guard let key = foreignKeys[field.column.lowercased()] else { return nil }
            return Need(field: field, target: key.target, sql: Self.exists(key.table, key.column))
        }
    }

    private static func exists(_ table: String, _ column: String) -> String {
        "SELECT 1 FROM \(RowWriter.quoted(table)) WHERE \(RowWriter.quoted(column)) = ?"
    }

    /// The column values of the declared fields that the record has, in declared order; `nil` for those it has not.
    /// - Throws: ``ValueMismatch`` for a value of another type than declared.
    func columns(_ fields: [String: FieldValue]) throws -> [DatabaseValue?] {
        try entity.fields.map { field in
            guard let value = fields[field.name] else { return nil }
            return try RowCodec.column(value, of: field, in: entity.name)
        }
    }

    /// The first record that these fields refer to and that is not here.
    func missing(_ key: RecordKey, _ fields: [String: FieldValue]) throws -> RecordKey? {
        for need in needs {
            guard case .string(let id)? = fields[need.field.name] else { continue }
            let target = need.target
            if known[target]?.contains(id) == true || (target == key.entity && id == key.id) { continue }
            guard try Row.fetchOne(db.cachedStatement(sql: need.sql), arguments: [id]) != nil else {
                return RecordKey(target, id)
            }
            known[target, default: []].insert(id)
        }
        return nil
    }

    /// Whether the row has a value for the field.
    func hasValue(_ field: FieldSchema, _ id: String) throws -> Bool {
        let sql = """
            SELECT 1 FROM \(RowWriter.quoted(entity.table)) \
            WHERE \(RowWriter.quoted(entity.keyColumn)) = ? AND \(RowWriter.quoted(field.column)) IS NOT NULL
            """
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [id]) != nil
    }

    /// A row that was there is there no more, with whatever went with it.
    func forgetKnown() { known = [:] }

    /// Inserts or updates the row; columns of fields that are `nil` stay as they are.
    func upsert(_ id: String, _ values: [DatabaseValue?]) throws {
        guard values.count <= 64 else {
            return try run(try prepare(values.map { $0 != nil }), id, values)
        }
        var mask: UInt64 = 0
        for (index, value) in values.enumerated() where value != nil { mask |= 1 << UInt64(index) }
        if let statement = upserts[mask] { return try run(statement, id, values) }
        let statement = try prepare(values.map { $0 != nil })
        upserts[mask] = statement
        try run(statement, id, values)
    }

    private func run(_ statement: Statement, _ id: String, _ values: [DatabaseValue?]) throws {
        var arguments: [DatabaseValue] = [id.databaseValue]
        arguments.reserveCapacity(values.count + 1)
        for case let value? in values { arguments.append(value) }
        do {
            try statement.execute(arguments: StatementArguments(arguments))
        } catch {
            // SQLite repeats the error of a statement that failed once: it is prepared anew.
            upserts = [:]
            throw error
        }
    }

    private func prepare(_ present: [Bool]) throws -> Statement {
        let columns = zip(entity.fields, present).filter(\.1).map { RowWriter.quoted($0.0.column) }
        let key = RowWriter.quoted(entity.keyColumn)
        let names = ([key] + columns).joined(separator: ", ")
        let marks = Array(repeating: "?", count: columns.count + 1).joined(separator: ", ")
        let sets = columns.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
        return try db.cachedStatement(
            sql: """
                INSERT INTO \(RowWriter.quoted(entity.table)) (\(names)) VALUES (\(marks)) \
                ON CONFLICT (\(key)) DO \(columns.isEmpty ? "NOTHING" : "UPDATE SET \(sets)")
                """)
    }
}
