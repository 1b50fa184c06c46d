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
    private var upserts: [UInt64: RawStatement] = [:]
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

    /// A row as it is bound: the id, then the values of the declared fields that the record has, in declared order.
    struct BoundRow {
        var arguments: [DatabaseValue]
        /// Which of the first 64 declared fields are there, a bit each.
        var mask: UInt64
        /// Whether a declared field is not.
        var lacksFields: Bool
    }

    /// - Throws: ``ValueMismatch`` for a value of another type than declared.
    func bind(_ record: ServerRecord) throws -> BoundRow {
        var row = BoundRow(arguments: [], mask: 0, lacksFields: false)
        row.arguments.reserveCapacity(entity.fields.count + 1)
        row.arguments.append(record.key.id.databaseValue)
        for (index, field) in entity.fields.enumerated() {
            guard let value = record.fields[field.name] else {
                row.lacksFields = true
                continue
            }
            row.arguments.append(try RowCodec.column(value, of: field, in: entity.name))
            row.mask |= 1 << UInt64(index & 63)
        }
        return row
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

    /// Inserts or updates the row; columns of fields that the record has not stay as they are.
    func upsert(_ record: ServerRecord, _ row: BoundRow) throws {
        // The mask tells rows of up to 64 fields apart; wider tables look at their statement anew.
        let isNarrow = entity.fields.count <= 64
        let statement: RawStatement
        if isNarrow, let known = upserts[row.mask] {
            statement = known
        } else {
            statement = try prepare(entity.fields.map { record.fields[$0.name] != nil })
            if isNarrow { upserts[row.mask] = statement }
        }
        statement.begin()
        for value in row.arguments { statement.add(value) }
        do {
            try statement.run()
        } catch {
            // SQLite repeats the error of a statement that failed once, when it is reset.
            statement.begin()
            throw error
        }
    }

    private func prepare(_ present: [Bool]) throws -> RawStatement {
        let columns = zip(entity.fields, present).filter(\.1).map { RowWriter.quoted($0.0.column) }
        let key = RowWriter.quoted(entity.keyColumn)
        let names = ([key] + columns).joined(separator: ", ")
        let marks = Array(repeating: "?", count: columns.count + 1).joined(separator: ", ")
        let sets = columns.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
        return try RawStatement(
            db,
            """
            INSERT INTO \(RowWriter.quoted(entity.table)) (\(names)) VALUES (\(marks)) \
            ON CONFLICT (\(key)) DO \(columns.isEmpty ? "NOTHING" : "UPDATE SET \(sets)")
            """)
    }
}
