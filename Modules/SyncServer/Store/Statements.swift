internal import GRDB
internal import GRDBSQLite
internal import SyncCore

/// The prepared statements, made at first use and kept; each run passes by the hook that tests stop the server at.
///
/// They run straight on SQLite: nobody observes this connection, and what GRDB does around each run costs more than most
/// of them. Confined to the database's queue, like everything in `Store`.
final class Statements {
    private let connection: OpaquePointer?
    /// By the place of the literal, which is cheaper than its text, and the same at each run of one line.
    private var prepared: [Int: OpaquePointer] = [:]
    /// Called before each statement; what it throws ends the transaction.
    var hook: (() throws -> Void)?

    init(_ db: Database) {
        connection = db.sqliteConnection
    }

    /// The statement with these arguments bound, ready to run.
    private func ready(_ sql: StaticString, _ arguments: [any SQLBindable]) throws -> OpaquePointer {
        try hook?()
        let statement = try statement(sql)
        // What the last run ended with was told then; only a statement that is reset takes arguments.
        sqlite3_reset(statement)  // kept: it says again how the run ended
        var place: CInt = 1
        for argument in arguments {
            let code = argument.bind(to: statement, at: place)
            guard code == SQLITE_OK else { throw failure(code, sql) }
            place += 1
        }
        return statement
    }

    private func statement(_ sql: StaticString) throws -> OpaquePointer {
        let place = Int(bitPattern: sql.utf8Start)
        if let known = prepared[place] { return known }
        var made: OpaquePointer?
        let code = sqlite3_prepare_v3(
            connection, UnsafeRawPointer(sql.utf8Start).assumingMemoryBound(to: CChar.self),
            CInt(sql.utf8CodeUnitCount), CUnsignedInt(SQLITE_PREPARE_PERSISTENT), &made, nil)
        guard code == SQLITE_OK, let made else { throw failure(code, sql) }
        prepared[place] = made
        return made
    }

    private func failure(_ code: CInt, _ sql: StaticString?) -> DatabaseError {
        DatabaseError(
            resultCode: ResultCode(rawValue: code), message: sqlite3_errmsg(connection).map { String(cString: $0) },
            sql: sql?.description)
    }

    func run(_ sql: StaticString, _ arguments: [any SQLBindable]) throws {
        try run(ready(sql, arguments), sql)
    }

    /// The same for the statements that run for each change: `bind` adds the arguments one by one.
    func run(_ sql: StaticString, _ bind: (inout Arguments) throws -> Void) throws {
        try run(ready(sql, bind), sql)
    }

    private func ready(_ sql: StaticString, _ bind: (inout Arguments) throws -> Void) throws -> OpaquePointer {
        try hook?()
        let statement = try statement(sql)
        sqlite3_reset(statement)  // kept: it says again how the run ended
        var arguments = Arguments(statement)
        try bind(&arguments)
        guard arguments.code == SQLITE_OK else { throw failure(arguments.code, sql) }
        return statement
    }

    private func run(_ statement: OpaquePointer, _ sql: StaticString) throws {
        var code = sqlite3_step(statement)
        while code == SQLITE_ROW { code = sqlite3_step(statement) }
        guard code == SQLITE_DONE else {
            let failure = failure(code, sql)
            sqlite3_reset(statement)  // kept: it says again how the run ended
            throw failure
        }
        sqlite3_reset(statement)  // kept: it says again how the run ended
    }

    /// Row after row, as long as `body` wants the next; the statement is reset afterwards, for an unfinished read would keep
    /// the log from being written back.
    func each(
        _ sql: StaticString, _ arguments: [any SQLBindable], _ body: (StatementRow) throws -> Bool
    ) throws {
        try each(ready(sql, arguments), sql, body)
    }

    private func each(
        _ statement: OpaquePointer, _ sql: StaticString, _ body: (StatementRow) throws -> Bool
    ) throws {
        defer { sqlite3_reset(statement) }  // kept: it says again how the run ended
        while true {
            let code = sqlite3_step(statement)
            if code == SQLITE_DONE { return }
            guard code == SQLITE_ROW else { throw failure(code, sql) }
            guard try body(StatementRow(statement)) else { return }
        }
    }

    /// Begins a read that the caller goes through with ``next(of:)``, and ends.
    func open(_ sql: StaticString, _ bind: (inout Arguments) throws -> Void) throws -> OpenRead {
        OpenRead(statement: try ready(sql, bind), sql: sql)
    }

    /// The next row, which is there until this is called again; `nil` at the end.
    func next(of read: OpenRead) throws -> StatementRow? {
        let code = sqlite3_step(read.statement)
        if code == SQLITE_ROW { return read.row }
        defer { sqlite3_reset(read.statement) }  // kept: it says again how the run ended
        guard code == SQLITE_DONE else { throw failure(code, read.sql) }
        return nil
    }

    func end(_ read: OpenRead) { sqlite3_reset(read.statement) }  // kept: it says again how the run ended

    /// The first row, read by `read` while it is there; the statement is reset afterwards.
    func first<Value>(
        _ sql: StaticString, _ arguments: [any SQLBindable], _ read: (StatementRow) throws -> Value
    ) throws -> Value? {
        var value: Value?
        try each(sql, arguments) { row in
            value = try read(row)
            return false
        }
        return value
    }

    /// Gives all statements back; the store is of no use afterwards.
    func finalize() {
        for (_, statement) in prepared {  // any order
            sqlite3_finalize(statement)  // kept: it says again how the run ended
        }
        prepared = [:]
    }

    deinit { finalize() }

    var lastRow: Int64 { sqlite3_last_insert_rowid(connection) }
}

/// Takes a statement's arguments, in their order, without an array of them.
struct Arguments {
    private let statement: OpaquePointer
    private var place: CInt = 1
    /// The first failure.
    fileprivate private(set) var code = SQLITE_OK

    fileprivate init(_ statement: OpaquePointer) { self.statement = statement }

    /// What a writer holds, as a text; copied at once.
    mutating func add(_ writer: borrowing JSONWriter) {
        let code = writer.withBytes { TextBytes.bind($0, to: statement, at: place) }
        if self.code == SQLITE_OK { self.code = code }
        place += 1
    }

    @inline(__always)
    mutating func add(_ value: some SQLBindable) {
        let code = value.bind(to: statement, at: place)
        if self.code == SQLITE_OK { self.code = code }
        place += 1
    }
}

/// A read that is under way.
struct OpenRead {
    fileprivate let statement: OpaquePointer
    fileprivate let sql: StaticString

    /// The present row, where there is one.
    var row: StatementRow { StatementRow(statement) }
}

/// The columns of the present row, by their places from 0.
struct StatementRow {
    private let statement: OpaquePointer

    fileprivate init(_ statement: OpaquePointer) { self.statement = statement }

    subscript(place: CInt) -> Int64 { sqlite3_column_int64(statement, place) }
    subscript(place: CInt) -> Int { Int(sqlite3_column_int64(statement, place)) }
    subscript(place: CInt) -> Double { sqlite3_column_double(statement, place) }
    subscript(place: CInt) -> String { text(place) ?? "" }
    subscript(place: CInt) -> Int64? { isNull(place) ? nil : sqlite3_column_int64(statement, place) }
    subscript(place: CInt) -> String? { text(place) }

    /// A copy of a text's bytes, or of a blob's.
    func bytes(_ place: CInt) -> JSONBytes {
        // The text before its length: SQLite brings it into UTF-8 first.
        let start = sqlite3_column_text(statement, place)
        return JSONBytes(
            UnsafeBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(statement, place))))
    }

    /// A text's bytes, lent for a call.
    func withBytes<Result>(_ place: CInt, _ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        // The text before its length: SQLite brings it into UTF-8 first.
        let start = sqlite3_column_text(statement, place)
        return try body(
            UnsafeRawBufferPointer(
                start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(statement, place))))
    }

    /// How a text stands to another in the order of their bytes: below 0, 0 or above.
    func order(of place: CInt, to other: String) -> Int {
        withBytes(place) { here in
            var other = other
            return other.withUTF8 { here.order(to: UnsafeRawBufferPointer($0)) }
        }
    }

    private func isNull(_ place: CInt) -> Bool { sqlite3_column_type(statement, place) == SQLITE_NULL }

    private func text(_ place: CInt) -> String? {
        guard let start = sqlite3_column_text(statement, place) else { return nil }
        let count = Int(sqlite3_column_bytes(statement, place))
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }
}
