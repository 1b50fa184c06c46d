import GRDB
import SyncCore

/// A row of a broken file: nothing says that its values are of the types that a sound one has (PRC-14).
enum SavedRow {
    /// By column.
    typealias Columns = [(String, DatabaseValue)]

    static func columns(of row: Row) -> Columns { Array(zip(row.columnNames, row.databaseValues)) }

    static func text(_ row: Row, _ name: String) -> String? { text(columns(of: row), name) }

    static func number(_ row: Row, _ name: String) -> Int64? { number(columns(of: row), name) }

    static func text(_ row: Columns, _ name: String) -> String? {
        guard let value = row.first(where: { $0.0 == name })?.1, case .string(let text) = value.storage else {
            return nil
        }
        return text
    }

    static func number(_ row: Columns, _ name: String) -> Int64? {
        guard let value = row.first(where: { $0.0 == name })?.1, case .int64(let number) = value.storage else {
            return nil
        }
        return number
    }

    /// Whether a place, or how many there were, can be one: the next ones are counted from it.
    static func isPlace(_ number: Int64?) -> Bool { number.map { (0..<1 << 53).contains($0) } ?? false }

    /// Whether a stamp can be one: the next is one more.
    static func isStamp(_ number: Int64?) -> Bool { number.map { (0..<1 << 62).contains($0) } ?? false }

    /// Whether whoever reads the row in the new table finds what it expects: a value of another type would end the program, each time.
    static func isSound(_ row: Columns, in table: String, _ db: Database) throws -> Bool {
        let types = Dictionary(
            try db.columns(in: table).map { ($0.name, $0.type.uppercased()) }, uniquingKeysWith: { first, _ in first })
        let isTyped = row.allSatisfy { name, value in
            switch (types[name], value.storage) {
            case (_, .null), ("TEXT", .string), ("INTEGER", .int64): true
            case ("TEXT", _), ("INTEGER", _): false
            default: true
            }
        }
        guard isTyped, table == "sync_change" else { return isTyped }
        guard isPlace(number(row, "position")), isPlace(number(row, "sequence")), isStamp(number(row, "stamp")) else {
            return false
        }
        guard let operation = number(row, "operation"), (0...2).contains(operation),
            let state = number(row, "state"), (0...5).contains(state), let fields = text(row, "fields")
        else { return false }
        do {
            guard case .object = try FieldValue(json: fields, maximumDepth: 80) else { return false }
            return true
        } catch {
            // kept: the row is left in the old file.
            return false
        }
    }
}
