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
    /// Its place among the entities: parents come first.
    let rank: Int
    /// Whether others may need rows of it.
    let isReferred: Bool
    private let db: Database
    private var upserts: [Form: RawStatement] = [:]
    /// Of the first 64 fields, those that a record has named since this value was made.
    private var named: UInt64 = 0
    /// Whether records were given fields that they did not name: then nothing is said of what they named.
    var hasFilled = false
    /// Rows that are known to be there, by target entity; grows by slices and is dropped with this value.
    private var known: [String: Set<String>] = [:]

    init(
        _ db: Database, _ entity: EntitySchema, _ schema: Schema,
        foreignKeys: [String: ApplyContext.ForeignKey], hasForeignKeys: Bool = false
    ) {
        self.db = db
        self.entity = entity
        writer = RowWriter(entity)
        whole = Shape(
            mask: entity.fields.indices.reduce(0) { $0 | 1 << UInt64($1 & 63) }, count: entity.fields.count + 1)
        rank = schema.entities.firstIndex { $0.name == entity.name } ?? 0
        // A foreign key of the app's that the schema does not tell of counts, too.
        isReferred = schema.isReferred(to: entity.name) || hasForeignKeys
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

    /// Which of the declared fields a record has.
    struct Shape: Hashable {
        /// Of the first 64 fields, a bit each.
        var mask: UInt64 = 0
        /// How many values its row has, the id's included.
        var count = 1
    }

    /// That of a record that has them all.
    let whole: Shape

    /// A statement for so many rows of one shape.
    private struct Form: Hashable {
        var mask: UInt64
        var rows: Int
    }

    /// Tables of more columns than a shape tells apart are written row by row.
    var isNarrow: Bool { entity.fields.count <= 64 }

    /// So many rows go by one statement, where their ids come in order; else ``RowBatch/scattered``.
    var mostRows: Int { max(1, min(16, 512 / (entity.fields.count + 1))) }

    /// Adds the row as it is bound: the id, then the values of the declared fields that the record has, in declared order.
    /// - Throws: ``ValueMismatch`` for a value of another type than declared; `values` is then as it was.
    func bind(_ record: ServerRecord, into values: inout [FieldValue]) throws -> Shape {
        let start = values.count
        var shape = Shape()
        values.append(.string(record.key.id))
        do {
            for (index, field) in entity.fields.enumerated() {
                guard let value = record.fields[field.name] else { continue }
                values.append(try RowCodec.stored(value, of: field, in: entity.name))
                shape.mask |= 1 << UInt64(index & 63)
            }
        } catch {
            values.removeSubrange(start...)
            throw error
        }
        shape.count = values.count - start
        if isNarrow { named |= shape.mask }
        return shape
    }

    /// The fields that a record has named since this value was made; none of a table of more columns than a shape tells apart.
    var namedFields: [String] {
        guard !hasFilled else { return [] }
        return entity.fields.indices.filter { named & (1 << UInt64($0 & 63)) != 0 }.map { entity.fields[$0].name }
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

    /// Inserts or updates one row; columns of fields that the record has not stay as they are.
    func upsert(_ record: ServerRecord, _ values: [FieldValue], _ shape: Shape) throws {
        // The mask tells rows of up to 64 fields apart; wider tables look at their statement anew.
        if isNarrow { return try upsert(values[...], shape, rows: 1) }
        try run(prepare(entity.fields.map { record.fields[$0.name] != nil }, rows: 1), values[...])
    }

    /// Inserts or updates rows of one shape, all by one statement: all of them or none.
    func upsert(_ values: ArraySlice<FieldValue>, _ shape: Shape, rows: Int) throws {
        let form = Form(mask: shape.mask, rows: rows)
        if let known = upserts[form] { return try run(known, values) }
        let present = entity.fields.indices.map { shape.mask & (1 << UInt64($0 & 63)) != 0 }
        let statement = try prepare(present, rows: rows)
        upserts[form] = statement
        try run(statement, values)
    }

    private func run(_ statement: RawStatement, _ values: ArraySlice<FieldValue>) throws {
        statement.begin()
        for value in values { statement.add(value) }
        do {
            try statement.run()
        } catch {
            // SQLite repeats the error of a statement that failed once, when it is reset.
            statement.begin()
            throw error
        }
    }

    private func prepare(_ present: [Bool], rows: Int) throws -> RawStatement {
        let columns = zip(entity.fields, present).filter(\.1).map { RowWriter.quoted($0.0.column) }
        let key = RowWriter.quoted(entity.keyColumn)
        let names = ([key] + columns).joined(separator: ", ")
        let marks = "(\(Array(repeating: "?", count: columns.count + 1).joined(separator: ", ")))"
        let sets = columns.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
        return try RawStatement(
            db,
            """
            INSERT INTO \(RowWriter.quoted(entity.table)) (\(names)) \
            VALUES \(Array(repeating: marks, count: rows).joined(separator: ", ")) \
            ON CONFLICT (\(key)) DO \(columns.isEmpty ? "NOTHING" : "UPDATE SET \(sets)")
            """)
    }
}
