internal import GRDB

/// The prepared statements, made at first use and kept; each run passes by the hook that tests stop the server at.
///
/// Confined to the database's queue, like everything in `Store`.
final class Statements {
    private let db: Database
    private var prepared: [String: Statement] = [:]
    /// Called before each statement; what it throws ends the transaction.
    var hook: (() throws -> Void)?

    init(_ db: Database) {
        self.db = db
    }

    private func statement(_ sql: StaticString) throws -> Statement {
        let text = sql.description
        if let known = prepared[text] { return known }
        let made = try db.makeStatement(sql: text)
        prepared[text] = made
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

    var lastRow: Int64 { db.lastInsertedRowID }
    var changes: Int { db.changesCount }
}
