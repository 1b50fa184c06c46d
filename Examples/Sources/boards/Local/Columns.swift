import Foundation
import GRDB
import SyncCore

/// A declared entity's columns: its statements, and values to and from them by the declared kinds.
struct Columns {
    private let entity: EntitySchema

    init(_ entity: EntitySchema) { self.entity = entity }

    var selectAll: String {
        let names = ([entity.keyColumn] + entity.fields.map(\.column)).map(Self.quoted).joined(separator: ", ")
        return "SELECT \(names) FROM \(Self.quoted(entity.table))"
    }

    var selectOne: String { "\(selectAll) WHERE \(Self.quoted(entity.keyColumn)) = ?" }

    var insert: String {
        let names = ([entity.keyColumn] + entity.fields.map(\.column)).map(Self.quoted).joined(separator: ", ")
        let places = Array(repeating: "?", count: entity.fields.count + 1).joined(separator: ", ")
        return "INSERT INTO \(Self.quoted(entity.table)) (\(names)) VALUES (\(places))"
    }

    /// The fields of a row that one of the selects above gave.
    func fields(of row: Row) -> [String: FieldValue] {
        var fields: [String: FieldValue] = [:]
        for (index, field) in entity.fields.enumerated() { fields[field.name] = Self.value(row[index + 1], field) }
        return fields
    }

    /// What a column holds, read by its declared kind; what is of another type is told as it is.
    static func value(_ column: DatabaseValue, _ field: FieldSchema) -> FieldValue {
        switch (column.storage, field.kind) {
        case (.null, _): .null
        case (.int64(let number), .boolean): .bool(number != 0)
        case (.int64(let number), .real): .double(Double(number))
        case (.int64(let number), _): .int(number)
        case (.double(let number), _): .double(number)
        case (.string(let text), .json): JSONText.value(text) ?? .string(text)
        case (.string(let text), _): .string(text)
        case (.blob(let bytes), _): .data([UInt8](bytes))
        }
    }

    /// What goes into the column for a value of the declared kind.
    static func column(_ value: FieldValue, _ field: FieldSchema) -> DatabaseValue {
        if case .null = value { return .null }
        if field.kind == .json { return JSONText.text(value).databaseValue }
        switch value {
        case .null: return .null
        case .bool(let flag): return (flag ? 1 : 0).databaseValue
        case .int(let number): return number.databaseValue
        case .double(let number): return number.databaseValue
        case .string(let text): return text.databaseValue
        case .data(let bytes): return bytes.withUnsafeBytes { Data($0) }.databaseValue
        case .array, .object: return JSONText.text(value).databaseValue
        }
    }

    static func quoted(_ name: String) -> String { "\"\(name)\"" }
}
