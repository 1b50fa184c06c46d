import Foundation
import GRDB
import SyncCore
internal import GRDBSQLite

/// A prepared statement whose values are bound straight from memory, for work on many rows.
///
/// GRDB makes several arrays of each row's arguments, which costs more than the statement itself. It still runs through
/// GRDB where it writes, so that the app's observations see what changed. The SQL carries a mark of its own, so that nobody
/// else uses the same statement from GRDB's cache with arguments of GRDB's.
final class RawStatement {
    private let statement: Statement
    private let handle: OpaquePointer
    private var place: CInt = 0
    /// What the first value that could not be bound failed with, such as one that is too big: it would be NULL.
    private var failure = SQLITE_OK

    /// SQLite's `SQLITE_TRANSIENT`, which is a C cast: the bytes are copied at once.
    private static let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    init(_ db: Database, _ sql: String) throws {
        statement = try db.cachedStatement(sql: sql + " -- raw")
        handle = statement.sqliteStatement
        // GRDB ends the program where a reset tells of the failure of the run before.
        _ = sqlite3_reset(handle)  // kept: it says again how the run before failed
        statement.setUncheckedArguments(StatementArguments())
    }

    /// Begins anew, with the first place.
    func begin() {
        // The result is that of the run before, which was reported.
        _ = sqlite3_reset(handle)  // kept: as above
        place = 0
        failure = SQLITE_OK
    }

    private func bound(_ code: CInt) {
        if code != SQLITE_OK, failure == SQLITE_OK { failure = code }
    }

    func add(_ text: String?) {
        guard let text else {
            place += 1
            bound(sqlite3_bind_null(handle, place))
            return
        }
        add(text)
    }

    func add(_ text: String) {
        place += 1
        var text = text
        let code = text.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { characters in
                // An empty text has no address, and would be NULL.
                guard let start = characters.baseAddress else { return sqlite3_bind_text(handle, place, "", 0, nil) }
                return sqlite3_bind_text64(
                    handle, place, start, UInt64(characters.count), Self.copied, UInt8(SQLITE_UTF8))
            }
        }
        bound(code)
    }

    func add(_ number: Int64) {
        place += 1
        bound(sqlite3_bind_int64(handle, place, number))
    }

    func add(_ number: Int64?) {
        if let number { add(number) } else { add(String?.none) }
    }

    /// A value in the form that a column holds (``RowCodec/stored(_:of:in:)``).
    func add(_ value: FieldValue) {
        switch value {
        case .string(let text): add(text)
        case .int(let number): add(number)
        case .double(let number):
            place += 1
            bound(sqlite3_bind_double(handle, place, number))
        case .data(let bytes):
            place += 1
            let code = bytes.withUnsafeBytes { bytes in
                guard let start = bytes.baseAddress, !bytes.isEmpty else {
                    return sqlite3_bind_zeroblob(handle, place, 0)
                }
                return sqlite3_bind_blob64(handle, place, start, UInt64(bytes.count), Self.copied)
            }
            bound(code)
        case .null, .bool, .array, .object: add(String?.none)
        }
    }

    /// Runs a statement that writes.
    /// - Throws: what SQLite says, also of a value that could not be bound.
    func run() throws {
        try checkValues()
        try statement.execute()
    }

    private func checkValues() throws {
        guard failure != SQLITE_OK else { return }
        throw DatabaseError(resultCode: ResultCode(rawValue: failure), sql: statement.sql)
    }

    /// Runs a statement that writes a table of the engine's that has no rowid: no observation can see such a table, so it need
    /// not go through GRDB. Within a transaction that something else was run in.
    func runUnseen() throws { while try step() {} }

    /// Whether a statement that reads has a row; it stands on that row until ``begin()``.
    /// - Throws: as ``run()``.
    func step() throws -> Bool {
        try checkValues()
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code:
            let message = sqlite3_errmsg(sqlite3_db_handle(handle)).map { String(cString: $0) }
            _ = sqlite3_reset(handle)  // kept: it says again what is thrown
            throw DatabaseError(resultCode: ResultCode(rawValue: code), message: message, sql: statement.sql)
        }
    }

    /// A text of the row; empty for NULL.
    func text(_ column: CInt) -> String {
        guard let start = sqlite3_column_text(handle, column) else { return "" }
        let bytes = UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column)))
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Whether a text of the row is this one, byte by byte.
    func isText(_ column: CInt, _ other: String) -> Bool {
        guard let start = sqlite3_column_text(handle, column) else { return false }
        let bytes = UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column)))
        var other = other
        return other.withUTF8 { other in
            guard other.count == bytes.count, let first = other.baseAddress else { return other.count == bytes.count }
            return memcmp(first, start, other.count) == 0
        }
    }

    /// How many bytes a text of the row has.
    func bytes(_ column: CInt) -> Int {
        _ = sqlite3_column_text(handle, column)
        return Int(sqlite3_column_bytes(handle, column))
    }

    /// An integer of the row; `nil` for NULL.
    func integer(_ column: CInt) -> Int64? {
        sqlite3_column_type(handle, column) == SQLITE_NULL ? nil : sqlite3_column_int64(handle, column)
    }

    /// A text of the row; `nil` for NULL.
    func text(_ column: CInt) -> String? {
        guard let start = sqlite3_column_text(handle, column) else { return nil }
        let bytes = UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column)))
        return String(decoding: bytes, as: UTF8.self)
    }
}
