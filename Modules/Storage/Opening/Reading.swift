import GRDB
internal import GRDBSQLite

/// How the engine reads what is committed: each time one read transaction.
///
/// As a rule over a connection of the pool's, so that no read waits for a write of the app's, and none keeps one waiting. Or
/// over the one that writes, where opening another and compiling statements for it would cost more than all that is read.
struct Reading: Sendable {
    let database: any DatabaseWriter
    /// Looks away meanwhile: a test's hook sees what writes.
    let breaker: StatementBreaker?
    let isByWriter: Bool

    init(_ database: any DatabaseWriter, _ breaker: StatementBreaker?, _ configuration: StoreConfiguration) {
        self.database = database
        self.breaker = breaker
        isByWriter = configuration.readsByWriter
    }

    /// - Throws: what `body` throws, or the beginning of the transaction.
    func callAsFunction<T>(_ body: (Database) throws -> T) throws -> T {
        isByWriter ? try byWriter(body) : try database.read(body)
    }

    /// The same over the connection that writes, whatever is the rule: it has in memory what it wrote last, which another
    /// must read from the file. It waits for a write of the app's.
    func byWriter<T>(_ body: (Database) throws -> T) throws -> T {
        try database.writeWithoutTransaction { db in
            breaker?.looksAway(true)
            defer { breaker?.looksAway(false) }
            // Past GRDB, whose observers take the end of an empty transaction for a commit, and whose own reads of a
            // writing connection switch a setting that makes SQLite compile all its statements anew.
            try Self.execute(db, "BEGIN DEFERRED")
            do {
                let result = try body(db)
                try Self.execute(db, "COMMIT")
                return result
            } catch {
                // What was thrown first says what failed; a read has nothing to undo.
                if sqlite3_get_autocommit(db.sqliteConnection) == 0 {
                    sqlite3_exec(db.sqliteConnection, "ROLLBACK", nil, nil, nil)  // kept: a read has nothing to undo
                }
                throw error
            }
        }
    }

    private static func execute(_ db: Database, _ sql: String) throws {
        let code = sqlite3_exec(db.sqliteConnection, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code), sql: sql) }
    }
}
