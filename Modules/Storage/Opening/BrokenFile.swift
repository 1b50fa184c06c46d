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

    /// By what a row of one of the engine's tables is known, and found.
    private static let keys = [
        "sync_meta": ["key"], "sync_clock": ["one"], "sync_failure": ["key"], "sync_identity": ["entity", "id"],
        "sync_draft": ["entity", "id"], "sync_conflict": ["number"], "sync_event": ["number"],
    ]

    /// All rows of one of the engine's tables that can be read; reading goes on after each place that cannot.
    func rows(of table: String) -> [Row] {
        if table == "sync_change" { return queueRows() }
        let key = Self.keys[table] ?? []
        // Forwards up to the broken page, then backwards from the end.
        let orders =
            key.isEmpty
            ? [""]
            : ["", " DESC"].map { way in
                "ORDER BY " + key.map { $0 + way }.joined(separator: ", ")
            }
        return rows(orders.map { "SELECT * FROM \(table) \($0)" }, by: key)
    }

    /// So many places of the queue, at the most, are looked at one by one: each takes some microseconds.
    private static let mostPlaces: Int64 = 250_000

    /// The queue: forwards up to a broken page, backwards from the end, and row by row what is between the two.
    private func queueRows() -> [Row] {
        var found: [Int64: Row] = [:]
        let (first, isWhole) = take("SELECT * FROM sync_change ORDER BY position", into: &found)
        if !isWhole {
            let (last, isRest) = take("SELECT * FROM sync_change ORDER BY position DESC", into: &found)
            let clock = rows(of: "sync_clock").first.flatMap { SavedRow.number($0, "sequence") }
            let (low, high) = (max(first ?? 0, 0), last ?? clock.map { $0 &+ 1 })
            if !isRest, let high, SavedRow.isPlace(high), low < high {
                for row in rows(at: max(low, high - Self.mostPlaces)..<high) { note(row, in: &found) }
            }
        }
        return found.sorted { $0.key < $1.key }.map(\.value)
    }

    private func rows(at places: Range<Int64>) -> [Row] {
        var found: [Row] = []
        // What was read counts, though the transaction cannot be ended behind a read that failed.
        _ = read { db in
            let statement = try db.cachedStatement(sql: "SELECT * FROM sync_change WHERE position = ?")
            for place in places {
                do {
                    if let row = try Row.fetchOne(statement, arguments: [place]) { found.append(row) }
                } catch {
                    // kept: it is on a broken page, or behind one.
                    continue
                }
            }
        }
        return found
    }

    @discardableResult
    private func note(_ row: Row, in found: inout [Int64: Row]) -> Int64? {
        guard let place = SavedRow.number(row, "position") else { return nil }
        found[place] = row
        return place
    }

    /// - Returns: the place that was read last, and whether there was an end.
    private func take(_ statement: String, into found: inout [Int64: Row]) -> (last: Int64?, isWhole: Bool) {
        var (last, rows): (Int64?, [Row]) = (nil, [])
        let isWhole = read { db in
            let cursor = try Row.fetchCursor(db, sql: statement)
            while let row = try cursor.next() { rows.append(row.copy()) }
            return true
        }
        for row in rows { last = note(row, in: &found) ?? last }
        return (last, isWhole == true)
    }

    /// What several statements find of the same rows, each as far as it comes; the others are not asked where one comes to its end.
    /// - Parameter names: the columns by which a row is known again; it is not where there are none.
    func rows(_ statements: [String], by names: [String], _ arguments: StatementArguments = []) -> [Row] {
        var found: [Row] = []
        var known: Set<[DatabaseValue]> = []
        for statement in statements {
            let isOver = read { db in
                let cursor = try Row.fetchCursor(db, sql: statement, arguments: arguments)
                while let row = try cursor.next() {
                    if !names.isEmpty, !known.insert(names.map { row[$0] }).inserted { continue }
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
