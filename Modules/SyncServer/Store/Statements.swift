internal import GRDB
internal import GRDBSQLite

/// The prepared statements, made at first use and kept; each run passes by the hook that tests stop the server at.
///
/// Confined to the database's queue, like everything in `Store`.
final class Statements {
    private let db: Database
    /// By the place of the literal, which is cheaper than its text, and the same at each run of one line.
    private var prepared: [Int: Statement] = [:]
    /// Called before each statement; what it throws ends the transaction.
    var hook: (() throws -> Void)?

    init(_ db: Database) {
        self.db = db
    }

    /// The statement with these arguments bound, ready to run.
    private func ready(_ sql: StaticString, _ arguments: [any SQLBindable]) throws -> Statement {
        try hook?()
        let statement = try statement(sql)
        let pointer = statement.sqliteStatement
        // What the last run ended with was told then; only a statement that is reset takes arguments.
        sqlite3_reset(pointer)
        var place: CInt = 1
        for argument in arguments {
            let code = argument.bind(to: pointer, at: place)
            guard code == SQLITE_OK else {
                throw DatabaseError(resultCode: ResultCode(rawValue: code), sql: statement.sql)
            }
            place += 1
        }
        return statement
    }

    private func statement(_ sql: StaticString) throws -> Statement {
        let place = Int(bitPattern: sql.utf8Start)
        if let known = prepared[place] { return known }
        let made = try db.makeStatement(sql: sql.description)
        // Arguments are bound by this class; without any GRDB would not run the statement.
        let count = Int(sqlite3_bind_parameter_count(made.sqliteStatement))
        made.setUncheckedArguments(StatementArguments([Int?](repeating: nil, count: count)))
        prepared[place] = made
        return made
    }

    func run(_ sql: StaticString, _ arguments: [any SQLBindable]) throws {
        try ready(sql, arguments).execute()
    }

    func rows(_ sql: StaticString, _ arguments: [any SQLBindable]) throws -> RowCursor {
        try Row.fetchCursor(ready(sql, arguments))
    }

    /// The first row, read by `read` while it is there; the statement is reset afterwards.
    func first<Value>(
        _ sql: StaticString, _ arguments: [any SQLBindable], _ read: (Row) throws -> Value
    ) throws -> Value? {
        let cursor = try rows(sql, arguments)
        guard let row = try cursor.next() else { return nil }
        let value = try read(row)
        while try cursor.next() != nil {}
        return value
    }

    /// Gives all statements back; the store is of no use afterwards.
    func finalize() { prepared = [:] }

    var lastRow: Int64 { db.lastInsertedRowID }
}
