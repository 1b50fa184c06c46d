import Foundation
import GRDB
import SyncCore
internal import GRDBSQLite

/// The rows of one statement, read straight from SQLite.
///
/// A device is looked at hundreds of times in a seed; through GRDB's rows that cost more than what the device itself did.
struct PlainRows {
    private let handle: OpaquePointer

    init(_ db: Database, _ sql: String) throws { handle = try db.cachedStatement(sql: sql).sqliteStatement }

    /// - Parameter text: what stands for the statement's one `?`.
    init(_ db: Database, _ sql: String, _ text: String) throws {
        let statement = try db.cachedStatement(sql: sql)
        try statement.setArguments([text])
        handle = statement.sqliteStatement
    }

    /// Calls `body` with each row in turn; the row is over when it returns.
    func forEach(_ body: (PlainRows) throws -> Void) throws {
        defer { _ = sqlite3_reset(handle) }  // kept: it says again how the run ended
        while true {
            switch sqlite3_step(handle) {
            case SQLITE_ROW: try body(self)
            case SQLITE_DONE: return
            case let code: throw DatabaseError(resultCode: ResultCode(rawValue: code))
            }
        }
    }

    func integer(_ column: CInt) -> Int64 { sqlite3_column_int64(handle, column) }

    /// Empty for NULL.
    func text(_ column: CInt) -> String {
        guard let start = sqlite3_column_text(handle, column) else { return "" }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    func isNull(_ column: CInt) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    /// The column's value as an app would read it.
    func field(_ column: CInt, kind: FieldKind, _ parsed: inout [String: FieldValue]) throws -> FieldValue {
        switch (sqlite3_column_type(handle, column), kind) {
        case (SQLITE_NULL, _): return .null
        case (SQLITE_INTEGER, .boolean): return .bool(integer(column) != 0)
        case (SQLITE_INTEGER, .real): return .double(Double(integer(column)))
        case (SQLITE_INTEGER, _): return .int(integer(column))
        case (SQLITE_FLOAT, _): return .double(sqlite3_column_double(handle, column))
        case (SQLITE_TEXT, .json):
            let json = text(column)
            if let known = parsed[json] { return known }
            let value = try FieldValue(json: json)
            parsed[json] = value
            return value
        case (SQLITE_TEXT, _): return .string(text(column))
        default:
            guard let start = sqlite3_column_blob(handle, column) else { return .data([]) }
            return .data(
                [UInt8](UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column)))))
        }
    }
}
