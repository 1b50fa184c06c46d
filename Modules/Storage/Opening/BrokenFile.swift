import GRDB
import SyncCore

/// A file that is no usable database any more, read as far as it goes (PRC-14).
final class BrokenFile {
    private let queue: DatabaseQueue?

    init(_ path: String) {
        var settings = Configuration()
        settings.readonly = true
        // Most of a small file is the text of triggers. With this a text that makes no sense hides its own table, and not all.
        settings.prepareDatabase { try $0.execute(sql: "PRAGMA writable_schema = ON") }
        do { queue = try DatabaseQueue(path: path, configuration: settings) } catch {
            // kept: nothing of it can be read: that is what the file was moved aside for.
            queue = nil
        }
    }

    deinit {
        do { try queue?.close() } catch {}  // kept: what was read is read
    }

    /// Whether tables are found by the columns that they have in a sound file.
    func knows(_ tables: [String], of sound: Database) throws -> Bool {
        try tables.allSatisfy { table in
            // With the table's name: a name in quotes that is no column's alone is a text to SQLite.
            let columns = try sound.columns(in: table).map { "\(table).\(RowWriter.quoted($0.name))" }
            return read { _ = try $0.makeStatement(sql: "SELECT \(columns.joined(separator: ", ")) FROM \(table)") }
                != nil
        }
    }

    /// All rows of a table that can be read; reading goes on after each place that cannot.
    func rows(of table: String) -> [Row] {
        // Forwards up to the broken page, then backwards from the end.
        let isQueue = table == "sync_change"
        let orders = isQueue ? ["ORDER BY position", "ORDER BY position DESC"] : [""]
        return rows(orders.map { "SELECT * FROM \(table) \($0)" }, by: isQueue ? "position" : nil)
    }

    /// What several statements find of the same rows, each as far as it comes; the others are not asked where one comes to its end.
    /// - Parameter name: the column by which a row is known again.
    func rows(_ statements: [String], by name: String?, _ arguments: StatementArguments = []) -> [Row] {
        var found: [Row] = []
        var known: Set<DatabaseValue> = []
        for statement in statements {
            let isOver = read { db in
                let cursor = try Row.fetchCursor(db, sql: statement, arguments: arguments)
                while let row = try cursor.next() {
                    if let name, !known.insert(row[name]).inserted { continue }
                    found.append(row.copy())
                }
                return true
            }
            if isOver == true { break }
        }
        return found
    }

    /// The fields of a row of the app's, those that have a column there by now; `nil` where it cannot be read.
    func fields(of record: RecordKey, _ entity: EntitySchema) -> [String: FieldValue]? {
        read { db in
            let present = Set(try db.columns(in: entity.table).map { $0.name.lowercased() })
            let fields = entity.fields.filter { present.contains($0.column.lowercased()) }
            let columns = ["1"] + fields.map { RowWriter.quoted($0.column) }
            let sql = """
                SELECT \(columns.joined(separator: ", ")) FROM \(RowWriter.quoted(entity.table)) \
                WHERE \(RowWriter.quoted(entity.keyColumn)) = ?
                """
            guard let row = try Row.fetchOne(db, sql: sql, arguments: [record.id]) else { return nil }
            var values: [String: FieldValue] = [:]
            for (index, field) in fields.enumerated() {
                values[field.name] = try RowCodec.value(row[index + 1] as DatabaseValue, of: field, in: entity.name)
            }
            return values
        } ?? nil
    }

    /// - Returns: `nil` where it cannot be read.
    func read<Value>(_ body: (Database) throws -> Value) -> Value? {
        do { return try queue?.read(body) } catch {
            // kept: the rest of the file tells as much as it can.
            return nil
        }
    }
}
