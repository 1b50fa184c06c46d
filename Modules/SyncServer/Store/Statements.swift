internal import GRDB

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

    private func statement(_ sql: StaticString) throws -> Statement {
        let place = Int(bitPattern: sql.utf8Start)
        if let known = prepared[place] { return known }
        let made = try db.makeStatement(sql: sql.description)
        prepared[place] = made
        return made
    }

    func run(_ sql: StaticString, _ arguments: [(any DatabaseValueConvertible)?]) throws {
        try hook?()
        let statement = try statement(sql)
        statement.setUncheckedArguments(StatementArguments(arguments))
        try statement.execute()
    }

    func rows(_ sql: StaticString, _ arguments: [(any DatabaseValueConvertible)?]) throws -> RowCursor {
        try hook?()
        let statement = try statement(sql)
        statement.setUncheckedArguments(StatementArguments(arguments))
        return try Row.fetchCursor(statement)
    }

    /// The first row, read by `read` while it is there; the statement is reset afterwards.
    func first<Value>(
        _ sql: StaticString, _ arguments: [(any DatabaseValueConvertible)?], _ read: (Row) throws -> Value
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
