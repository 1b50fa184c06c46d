import Foundation
import GRDB
import SyncCore

/// Opens a file, or a database of the app's, and makes it ready: engine tables, identity, app tables, triggers.
enum Opening {
    /// The lowest SQLite that has all that the triggers use (`->`).
    static let lowestSQLite = [3, 38, 0]

    private static func open(
        path: String, _ configuration: StoreConfiguration, _ patience: Patience, _ breaker: StatementBreaker,
        _ log: LogLength
    ) throws(StoreFailure) -> any DatabaseWriter {
        var settings = Configuration()
        settings.label = "Storage"
        settings.busyMode = patience.mode
        // iOS ends a process that is suspended while it holds a lock: GRDB then breaks off (PRC-12).
        settings.observesSuspensionNotifications = true
        let onStatement = configuration.statementHook.map { hook in
            { @Sendable sql in if breaker.isWatching, !hook(sql) { breaker.breakOff() } }
        }
        settings.prepareDatabase { db in
            guard !db.configuration.readonly else { return }
            log.watch(db)
            ConnectionTrace(closing: log.closing(), onStatement: onStatement).begin(on: db)
        }
        do {
            if path == ":memory:" { return try DatabaseQueue(configuration: settings) }
            let pool = try DatabasePool(path: path, configuration: settings)
            breaker.set(pool)
            try pool.writeWithoutTransaction { db in
                // Not when the connection is prepared: GRDB says NORMAL after that.
                if configuration.synchronous == .full { try db.execute(sql: "PRAGMA synchronous = FULL") }
                // 8 MiB: records come in the order of their versions, which is none in the order of their ids.
                try db.execute(sql: "PRAGMA cache_size = -8192")
            }
            return pool
        } catch {
            throw StoreFailure(error, while: "opening \(path)")
        }
    }

    /// A database that is open and ready.
    struct Opened {
        var database: any DatabaseWriter
        var context: ApplyContext
        /// Breaks off what a test's hook refuses.
        var breaker: StatementBreaker?
        /// The file, where this module opened it.
        var file: String?
        /// The length of its write-ahead log.
        var log = LogLength()
        /// Where a corrupt file was moved to.
        var movedAside: String?
        /// Another file was here before, and nothing of it is left.
        var isBegunAnew = false
        /// Why commits may be missing in the file.
        var missingCommits: String?
        /// The last signing out of the file.
        var signOut: String?
    }

    /// Opens a file and makes it ready; one that is corrupt is moved aside, and a new one begun with what can be saved.
    static func open(
        path: String, _ schema: Schema, account: String?, _ configuration: StoreConfiguration
    ) throws(StoreFailure) -> Opened {
        // Until the file is ready; two processes may make one at once.
        let began = ContinuousClock.now  // live: a lock is waited for
        // The rest of the time is SQLite's.
        let lock = OpeningLock(forFileAt: path, seconds: path == ":memory:" ? 0 : configuration.busyTimeout * 0.8)
        defer { lock.letGo() }
        let patience = Patience(seconds: configuration.busyTimeout)
        patience.bind(spent: began.duration(to: .now))  // live: as above
        defer { patience.unbind() }
        // Once for all attempts: the first one may make a log.
        let found = path == ":memory:" ? .asLeft : LogMark(database: path).look()
        do {
            return try saving(path: path, schema, account: account, configuration, patience, found)
        } catch let failure where failure.kind == .busy && configuration.busyTimeout > 0 && !patience.isOver {
            // Two processes that make one file at once get in each other's way for a moment, which no waiting covers.
            return try saving(path: path, schema, account: account, configuration, patience, found)
        } catch let failure where failure.kind == .corrupt && path != ":memory:" {
            try Recovery.moveAside(path, now: configuration.clock.nowMilliseconds)
            return try saving(path: path, schema, account: account, configuration, patience, .asLeft)
        }
    }

    /// Opens the file; if it stands in the place of a corrupt one whose queue is not saved yet, that is done first.
    ///
    /// A new file that lacks the app's own tables does not open: then the app makes them, and the next opening saves.
    private static func saving(
        path: String, _ schema: Schema, account: String?, _ configuration: StoreConfiguration, _ patience: Patience,
        _ found: LogMark.Found
    ) throws(StoreFailure) -> Opened {
        let note = AsideNote(database: path)
        let old = path == ":memory:" ? [] : note.targets.filter { FileManager.default.fileExists(atPath: $0) }
        // Whose the new file is, the old one says.
        let bound = old.isEmpty ? account : nil
        var opened = try attempt(path: path, schema, account: bound, configuration, patience, found)
        guard let last = old.last else { return opened }
        let now = configuration.clock.nowMilliseconds
        do {
            let context = opened.context
            try opened.database.write { db in
                for each in old { _ = try Recovery.salvage(db, from: each, context, now: now) }
                try bind(db, account)
            }
            // After a kill between the two the file itself says that all of it is there.
            try note.remove()
        } catch {
            let doing = "saving the queue of a corrupt database"
            do { try opened.database.close() } catch let second {
                throw StoreFailure(second, while: "\(doing): \(error); closing")
            }
            throw StoreFailure(error, while: doing)
        }
        opened.movedAside = last
        return opened
    }

    private static func attempt(
        path: String, _ schema: Schema, account: String?, _ configuration: StoreConfiguration, _ patience: Patience,
        _ found: LogMark.Found
    ) throws(StoreFailure) -> Opened {
        let mark = path == ":memory:" ? nil : LogMark(database: path)
        let (breaker, log) = (StatementBreaker(), LogLength(mark, found))
        let end = FileEnd(path)
        let database = try open(path: path, configuration, patience, breaker, log)
        do {
            try end.check(Reading(database, breaker, configuration))
            try check(Reading(database, breaker, configuration), path, found)
            var opened = try prepare(database, schema, account: account, configuration, breaker, found)
            log.noteTold()
            opened.breaker = breaker
            opened.file = path == ":memory:" ? nil : path
            opened.log = log
            return opened
        } catch {
            let isDamaged =
                error.kind == .unexpected && EngineTables.areDamaged(Reading(database, breaker, configuration))
            do { try database.close() } catch let second {
                throw StoreFailure(second, while: "\(error.message); closing")
            }
            guard isDamaged else { throw error }
            throw StoreFailure(kind: .corrupt, message: "The database is corrupt: \(error.message)", code: error.code)
        }
    }

    /// Below this size the whole file is looked through when it opens; above it, only after an operation found it corrupt.
    private static let checkedBytes = 4 << 20

    /// Indices are compared with their tables, too: what stands in one alone, or misses there, is no error to who reads by it
    /// ([Decision 470](../../../Docs/Decisions/0470-an-index-is-part-of-the-file.md)).
    /// - Parameter log: pages of another one may stand between those of the file.
    static func check(_ read: Reading, _ path: String, _ log: LogMark.Found = .asLeft) throws(StoreFailure) {
        let isSuspect = log == .other || CorruptionMark(database: path).isSet
        guard isSuspect || FileEnd.size(path) < checkedBytes, path != ":memory:" else { return }
        let found: String?
        do {
            found = try read { try String.fetchOne($0, sql: "PRAGMA main.integrity_check(1)") }
        } catch {
            throw StoreFailure(error, while: "checking the database")
        }
        guard found == "ok" else {
            // A disk that refuses a read says nothing of what is on it (PRC-13).
            if let code = found.flatMap(unread) {
                throw StoreFailure(DatabaseError(resultCode: code, message: found), while: "checking the database")
            }
            throw StoreFailure(kind: .corrupt, message: "The database is corrupt: \(found ?? "unreadable")")
        }
        CorruptionMark(database: path).remove()
    }

    /// The code with which the check could not read a page: SQLite tells that as a finding, like any other, and not as its error.
    /// - Returns: `nil` where it read what it found.
    static func unread(_ finding: String) -> ResultCode? {
        if finding.contains("failed to get page") { return .SQLITE_IOERR }
        guard let words = finding.range(of: "error code") else { return nil }
        let digits = finding[words.upperBound...].drop { !$0.isNumber }.prefix { $0.isNumber }
        guard let number = CInt(digits) else { return nil }
        let code = ResultCode(rawValue: number)
        let isFound = code.primaryResultCode == .SQLITE_CORRUPT || code.primaryResultCode == .SQLITE_NOTADB
        return isFound ? nil : code
    }

    /// Makes the database ready in one transaction.
    static func prepare(
        _ database: any DatabaseWriter, _ schema: Schema, account: String?, _ configuration: StoreConfiguration,
        _ breaker: StatementBreaker? = nil, _ log: LogMark.Found = .asLeft
    ) throws(StoreFailure) -> Opened {
        let read = Reading(database, breaker, configuration)
        try checkVersion(read, configuration)
        if let migrations = configuration.migrations { try migrations.run(database) }
        let snapshots = try SnapshotPlan(configuration.snapshots, schema)
        let note = DeviceNote(database: database.path)
        do {
            let (context, checked, signOut) = try SystemStart.write(read, configuration) { db in
                try EngineTables.migrate(db)
                try ChangeRows.fold(db)
                try bind(db, account)
                try setUpClock(db, configuration)
                // PRC-04: whoever was sending is not at work any more, unless it holds the lease.
                if try !Lease.isTaken(db, now: configuration.clock.nowMilliseconds) { try ChangeTable.recover(db) }
                let checked = try Identity.check(
                    db, path: database.path, note: note, log, configuration.installToken,
                    start: configuration.systemStart, mayLose: configuration.synchronous == .normal,
                    now: configuration.clock.nowMilliseconds)
                if configuration.createsTables { try AppTables.create(db, schema) }
                try AppTables.check(db, schema, making: configuration.makesTables)
                try UnmappedColumns.check(db, schema, now: configuration.clock.nowMilliseconds)
                try TriggerSetup.install(db, schema, now: configuration.clock.nowMilliseconds)
                let context = try ApplyContext(
                    db, schema, deltas: configuration.deltas, snapshots: snapshots)
                try SchemaUpgrade.run(db, context, now: configuration.clock.nowMilliseconds)
                try context.setUpSnapshots(db, now: configuration.clock.nowMilliseconds)
                return (context, checked, try Meta.text(db, .signOut))
            }
            if Identity.home(of: database.path) != nil { note.note(openings: checked.openings) }
            try Remnants.finish(read)
            return Opened(
                database: database, context: context, isBegunAnew: checked.isBegunAnew,
                missingCommits: checked.missingCommits, signOut: signOut)
        } catch {
            throw StoreFailure(error, while: "opening the database")
        }
    }

    /// Before anything is written, the app's own migrations included.
    static func checkVersion(
        _ read: Reading, _ configuration: StoreConfiguration
    ) throws(StoreFailure) {
        let text: String
        do {
            text = try configuration.foundSQLite ?? read(sqliteVersion)
        } catch {
            throw StoreFailure(error, while: "looking for SQLite's version")
        }
        let found = text.split(separator: ".").compactMap { Int($0) }
        guard found.lexicographicallyPrecedes(lowestSQLite) else { return }
        let lowest = lowestSQLite.map(String.init).joined(separator: ".")
        throw StoreFailure(
            kind: .refused, message: "SQLite \(lowest) or newer is needed; this program runs with \(text).")
    }

    private static func sqliteVersion(_ db: Database) throws -> String {
        try String.fetchOne(db, sql: "SELECT sqlite_version()") ?? ""
    }

    /// One database belongs to one account (I10).
    private static func bind(_ db: Database, _ account: String?) throws {
        guard let account else { return }
        guard let owner = try Meta.text(db, .account) else { return try Meta.set(db, .account, account) }
        guard owner == account else {
            throw StoreFailure(
                kind: .refused,
                message: "The database belongs to another account; sign that account out, or open another file.")
        }
    }

    private static func setUpClock(_ db: Database, _ configuration: StoreConfiguration) throws {
        let wall = configuration.fixesTriggerClock ? configuration.clock.nowMilliseconds : nil
        // A mark of a writer that was killed cannot be here: it lives and dies with its transaction.
        try db.execute(
            sql: """
                UPDATE sync_clock SET wall = ?1, seed = ?2, "unit" = NULL, intent = NULL WHERE one = 1
                AND (wall IS NOT ?1 OR seed IS NOT ?2 OR "unit" IS NOT NULL OR intent IS NOT NULL)
                """, arguments: [wall, configuration.keySeed])
    }
}
