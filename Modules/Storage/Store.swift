public import GRDB
internal import GRDBSQLite
public import SyncCore

/// The local database: the app's tables, the queue of changes, and where this device stands; the only actor that owns it.
///
/// The app reads and writes its own tables through ``database`` with plain GRDB or SQL; triggers record what it writes.
/// What the engine does goes through the methods here, each one transaction. GRDB is called synchronously on the
/// actor's own serial executor, so that a busy file blocks no cooperative thread.
public actor Store: ThreadSharing {
    /// The app's own access: reads and writes with plain GRDB, captured by triggers.
    public nonisolated let database: any DatabaseWriter
    /// The declared entities.
    public nonisolated let schema: Schema
    /// Where a file that was found corrupt was moved to, when this store opened; its queue was saved as far as it could
    /// be read, and everything else comes with the next download.
    public nonisolated let movedAside: String?
    /// Whether this store found a new file, or one of no bytes, where another one was before, with all that was in it: what the
    /// server has comes with the next download, what was unsent does not.
    public nonisolated let isBegunAnew: Bool
    /// Why commits are missing, or may be, in words, where this opening found the file without its write-ahead log, with another one,
    /// or as an older copy of itself (PRC-15): it goes on as another device.
    public nonisolated let missingCommits: String?
    /// Where the file stood when it was opened; `nil` in memory.
    private nonisolated let home: String?
    nonisolated let configuration: StoreConfiguration
    nonisolated let context: ApplyContext
    nonisolated let reading: Reading
    nonisolated let queueSpeakers = Speakers()
    nonisolated let appliedSpeakers = Speakers()
    nonisolated let stateSpeakers = Speakers()
    nonisolated let noticeSpeakers = NoticeSpeakers()
    private nonisolated let executor: any SerialExecutor
    private let observer: QueueObserver
    private let breaker: StatementBreaker?
    /// The generation of the lease that this store took last.
    var leaseGeneration: Int64?
    /// For how long it was taken, in milliseconds.
    var leaseLength: Int64 = 0
    /// `nil` for a database that the app opened: it may need a key.
    let checkpointer: Checkpointer?
    /// What is remembered of the queue.
    let unsentRecords = UnsentRecords()
    /// How many records one transaction of a slice takes.
    var slicePace: SlicePace
    /// The page that is asked for.
    var pageDeaths = PageDeaths()
    /// The highest sequence of this device that is noted as sent (``DeviceNote``); `nil` where there is no file to note it beside.
    var noted: Int64?
    /// What was looked at of the queue's next turn, while a request is under way.
    var ahead: TurnAhead?
    /// The wishes for downloads that this store's process is fetching.
    var fetchedDownloads: Set<String> = []
    /// What was seen of others at the last look.
    var others: OthersMark?
    /// Whose handlers want to hear what becomes of their records.
    nonisolated let listeners = Listeners()
    /// How things stood when the last cycle began.
    var stood: Standing?
    /// How things stood when the last cycle ended; `nil` where it had changed anything.
    var rested: Standing?
    /// The state of the file after the last transaction of the engine's.
    var left: FileVersion?
    /// Whose data it was opened for.
    let account: String?
    /// The last signing out that this store knows of.
    var signOut: String?

    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        executor.asUnownedSerialExecutor()
    }

    /// The store's own thread, where it has one; an executor that a configuration brings has its own rules.
    public nonisolated var taskExecutor: (any TaskExecutor)? { (executor as? FileExecutor)?.tasks }

    /// Opens the file, which is made where there is none.
    ///
    /// - Parameters:
    ///   - path: the file; `-wal` and `-shm` files stand beside it.
    ///   - account: whose data it holds; the first one that is named owns the file for good.
    /// - Throws: ``StoreFailure``: `refused` for another account's file or a newer program's, `corrupt` where the file
    ///   is no database, `busy`, `full`, `io` and `readOnly` as SQLite says, `invalid` where table and schema differ.
    public init(
        path: String, schema: Schema, account: String? = nil,
        configuration: StoreConfiguration = .init()
    ) throws(StoreFailure) {
        let opened = try Opening.open(path: path, schema, account: account, configuration)
        self.init(opened, schema, account, configuration)
    }

    /// Opens a file for a look at it: nothing is written, and no lock of one who writes is waited for.
    ///
    /// Whatever would write then fails as `readOnly`. What is asked of the store's own is answered as by the other initializer.
    /// - Parameter configuration: without snapshot builders nobody looks whether what they make is brought up to the last write.
    /// - Returns: `nil` where an opening would have something to write (no file yet, another schema, what a killed process left):
    ///   then ``init(path:schema:account:configuration:)`` opens it, or says why not.
    /// - Throws: ``StoreFailure``, `busy` where another process lets nobody read.
    public init?(
        forReading path: String, schema: Schema, account: String? = nil, configuration: StoreConfiguration = .init()
    ) throws(StoreFailure) {
        guard let opened = try Opening.forReading(path: path, schema, account: account, configuration) else {
            return nil
        }
        self.init(opened, schema, account, configuration)
    }

    /// Joins a database that the app has opened already; it must be in WAL mode to be shared with other processes.
    /// - Throws: as the other initializer.
    public init(
        database: any DatabaseWriter, schema: Schema, account: String? = nil,
        configuration: StoreConfiguration = .init()
    ) throws(StoreFailure) {
        self.init(
            try Opening.prepare(database, schema, account: account, configuration), schema, account, configuration)
    }

    private init(
        _ opened: Opening.Opened, _ schema: Schema, _ account: String?, _ configuration: StoreConfiguration
    ) {
        (self.account, signOut) = (account, opened.signOut)
        context = opened.context
        database = opened.database
        movedAside = opened.movedAside
        isBegunAnew = opened.isBegunAnew
        missingCommits = opened.missingCommits
        home = Identity.home(of: opened.database.path)
        breaker = opened.breaker
        reading = Reading(opened.database, opened.breaker, configuration)
        checkpointer = opened.file.map {
            Checkpointer(path: $0, log: opened.log, isLive: configuration.isOnThreadOfItsOwn)
        }
        noted = home == nil ? nil : 0
        slicePace = SlicePace(most: configuration.longestSlice)
        self.schema = schema
        self.configuration = configuration
        executor = configuration.executor ?? FileExecutor()  // live
        let (queue, state) = (queueSpeakers, stateSpeakers)
        observer = QueueObserver(tables: ["sync_change", "sync_dirty"]) {
            queue.speak()
            state.speak()
        }
        database.add(transactionObserver: observer)
    }

    /// Writes the app's tables with what SQL cannot say: an atomic unit, and the name of what the user did.
    ///
    /// - Parameters:
    ///   - unit: the changes stand together on the server, too: all or none; at most 100 of them and 1 MiB.
    ///   - intent: the app's name for what the user did.
    /// - Throws: ``StoreFailure``; an error of `body` comes as one, with its words. Nothing of it is left behind.
    public func write<T: Sendable>(
        unit: Bool = false, intent: String? = nil, _ body: @Sendable (Database) throws -> T
    ) throws(StoreFailure) -> T {
        try perform("writing") { db in try Self.marked(db, unit: unit, intent: intent) { _ in try body(db) } }
    }

    /// Runs `body` while what is captured belongs to an atomic unit, or has the name of what the user did.
    /// - Parameter body: is given the unit's key.
    static func marked<T>(
        _ db: Database, unit: Bool, intent: String?, _ body: (_ unit: String?) throws -> T
    ) throws -> T {
        let name = unit ? try Clock.freshKey(db) : nil
        try Clock.mark(db, unit: name, intent: intent)
        let result = try body(name)
        if let name { try Clock.checkUnit(db, name) }
        if unit || intent != nil { try Clock.mark(db, unit: nil, intent: nil) }
        return result
    }

    /// For tests: reads what is committed now, as the engine does.
    package nonisolated func read<T>(_ body: (Database) throws -> T) throws -> T { try reading(body) }

    /// For tests: the time that triggers read from now on, milliseconds since 1970; `nil` is the system's.
    public func setTriggerClock(_ milliseconds: Int64?) throws(StoreFailure) {
        do {
            try database.write { db in try Clock.setWall(db, milliseconds) }
        } catch {
            throw StoreFailure(error, while: "setting the clock")
        }
    }

    /// Ends the streams and closes the file; every later call fails.
    public func close() throws(StoreFailure) {
        queueSpeakers.finish()
        appliedSpeakers.finish()
        stateSpeakers.finish()
        noticeSpeakers.finish()
        if pageDeaths.isOver {
            do { try perform("closing") { _ in } } catch {}  // kept: a mark too many costs a smaller page, no more
        }
        do {
            try checkpointer?.close()
            // The file is whole then, also for who copies it without its `-wal`; another process at work may prevent it, and is
            // waited for a moment only: who looks at the file for long keeps nobody from being done.
            try database.writeWithoutTransaction { db in
                let wait = Int32(min(configuration.busyTimeout, 0.25) * 1_000)
                _ = sqlite3_busy_timeout(db.sqliteConnection, wait)  // kept: what fails leaves the longer wait
                do { _ = try db.checkpoint(.truncate) } catch let error as DatabaseError
                    where error.resultCode == .SQLITE_BUSY
                {
                    return
                }
            }
            // Nobody opens the file between the end of its log and the note of that.
            let lock = checkpointer.map { _ in OpeningLock(forFileAt: database.path, seconds: 0.5) }
            defer { lock?.letGo() }
            // Who only reads cannot take the log away: whoever writes is to be the last.
            (database as? DatabasePool)?.invalidateReadOnlyConnections()
            try database.close()
        } catch {
            throw StoreFailure(error, while: "closing the database")
        }
    }

    // MARK: - Performing

    /// One write transaction of the engine's where the file is still as it was looked at: nothing need be asked again, and
    /// nothing that is written here makes a change.
    /// - Returns: `nil` where it is not; nothing was written then.
    func performKnown<T>(
        _ doing: String, _ file: FileVersion, _ body: (Database) throws -> T
    ) throws(StoreFailure) -> T? {
        do {
            let breaker = configuration.statementHook == nil ? nil : breaker
            let pages = pageDeaths
            let result = try database.writeWithoutTransaction { db in
                try Self.inKnownTransaction(db, file) { db in
                    if configuration.fixesTriggerClock {
                        try Clock.setWall(db, configuration.clock.nowMilliseconds)
                    }
                    breaker?.begin()
                    try pages.write(db)
                    let result = try body(db)
                    observer.note(false)
                    try breaker?.check()
                    return result
                }
            }
            if result != nil { pageDeaths.noteWritten() }
            return result
        } catch {
            unsentRecords.forget()
            throw failure(error, doing)
        }
    }

    /// One write transaction.
    func perform<T>(_ doing: String, _ body: (Database) throws -> T) throws(StoreFailure) -> T {
        try perform(doing, asLeft: nil) { db, _ in try body(db) }
    }

    /// One write transaction. Where the file is still as a transaction of the engine's left it, it does not look for what triggers have
    /// put into the queue, and leaves the mark of a page that is over.
    /// - Parameter file: that state; `body` hears whether it is the present one, and then makes no change.
    /// - Parameter outlivesSignOut: whether it is done also where the account was signed out since.
    func perform<T>(
        _ doing: String, asLeft file: FileVersion?, outlivesSignOut: Bool = false,
        _ body: (Database, _ isAsLeft: Bool) throws -> T
    ) throws(StoreFailure) -> T {
        do {
            let breaker = configuration.statementHook == nil ? nil : breaker
            let pages = pageDeaths
            let signOut = signOut
            let (result, isAsLeft, left) = try database.writeWithoutTransaction { db in
                let (result, isAsLeft) = try Self.inTransaction(db, "BEGIN IMMEDIATE TRANSACTION") { db in
                    // A test's time; live, the triggers read the system's by themselves.
                    if configuration.fixesTriggerClock {
                        try Clock.setWall(db, configuration.clock.nowMilliseconds)
                    }
                    breaker?.begin()
                    let isAsLeft = file != nil && FileVersion(db) == file
                    if !isAsLeft {
                        if !outlivesSignOut { try Self.checkSignedIn(db, signOut) }
                        try pages.write(db)
                    }
                    let sequence = isAsLeft ? nil : try ChangeRows.foldIfNeeded(db)
                    let result = try body(db, isAsLeft)
                    observer.note(try sequence.map { try ChangeRows.sequence(db) != $0 } ?? false)
                    try breaker?.check()
                    return (result, isAsLeft)
                }
                return (result, isAsLeft, FileVersion(db))
            }
            self.left = left
            if !isAsLeft { pageDeaths.noteWritten() }
            return result
        } catch {
            unsentRecords.forget()
            throw failure(error, doing)
        }
    }

    /// GRDB compiles the beginning and the end of each transaction anew; here they stay compiled.
    static func inTransaction<T>(_ db: Database, _ begin: String, _ body: (Database) throws -> T) throws -> T {
        try db.cachedStatement(sql: begin).execute()
        do {
            let result = try body(db)
            try db.cachedStatement(sql: "COMMIT TRANSACTION").execute()
            return result
        } catch {
            // SQLite has undone it already where the file is at fault.
            if db.isInsideTransaction { try db.rollback() }
            throw error
        }
    }

    private static func inKnownTransaction<T>(
        _ db: Database, _ file: FileVersion, _ body: (Database) throws -> T
    ) throws -> T? {
        do {
            return try inTransaction(db, "BEGIN IMMEDIATE TRANSACTION") { db in
                guard FileVersion(db) == file else { throw IsOther() }
                return try body(db)
            }
        } catch is IsOther {
            return nil
        }
    }

    /// The file is not as it was looked at.
    private struct IsOther: Error {}

    /// One write transaction of the engine's: what dirty flags mark is in the change log before it, and flags of what it
    /// ended are taken away after it.
    func performEngine<T>(_ doing: String, _ body: (Database) throws -> T) throws(StoreFailure) -> T {
        try performEngine(doing, asLeft: nil) { db, _ in try body(db) }
    }

    /// The same, as ``perform(_:asLeft:_:)`` has it; dirty flags leave nothing as it was.
    func performEngine<T>(
        _ doing: String, asLeft file: FileVersion?, _ body: (Database, _ isAsLeft: Bool) throws -> T
    ) throws(StoreFailure) -> T {
        guard DirtyFlags.isUsed(schema) else { return try perform(doing, asLeft: file, body) }
        let (schema, now) = (schema, now)
        return try perform(doing) { db in
            try DirtyFlags.collect(db, schema, now: now)
            let result = try body(db, false)
            try DirtyFlags.clear(db, schema, now: now)
            return result
        }
    }

    /// Before a question about the queue: what dirty flags mark belongs to it.
    func collectIfDirty() throws(StoreFailure) {
        guard DirtyFlags.isUsed(schema) else { return }
        let schema = schema
        guard try look("looking for dirty rows", { db in try DirtyFlags.isDirty(db, schema) }) else { return }
        try performEngine("collecting dirty rows") { _ in }
    }

    /// One read transaction.
    func look<T>(_ doing: String, _ body: (Database) throws -> T) throws(StoreFailure) -> T {
        do { return try reading(body) } catch { throw failure(error, doing) }
    }

    /// Whether the file under the path is the one that is open here, and no operation found it corrupt: two questions to the file
    /// system. A file in memory is always in place.
    public nonisolated var standing: FileStanding {
        guard let home else { return .inPlace }
        if Identity.home(of: database.path) != home { return .replaced }
        return CorruptionMark(database: database.path).isSet ? .foundCorrupt : .inPlace
    }

    /// Another process may have signed the account out since the file was opened here: what is written then would be the next user's
    /// (SEC-11).
    private static func checkSignedIn(_ db: Database, _ known: String?) throws {
        guard try Meta.text(db, .signOut) != known else { return }
        throw StoreFailure(
            kind: .refused, message: "The account was signed out of this database while it was open: open it anew.")
    }

    /// Before anything is sent or taken: what came of it would stand in a file that nobody opens again.
    func checkInPlace() throws(StoreFailure) {
        guard standing == .replaced else { return }
        throw StoreFailure(
            kind: .refused,
            message: "The database \(database.path) was moved, removed or replaced while it was open: open it anew.")
    }

    /// The failure; one that says that the file is corrupt makes the next opening look it through.
    func failure(_ error: any Error, _ doing: String) -> StoreFailure {
        let failure = StoreFailure(error, while: doing)
        if failure.kind == .corrupt { CorruptionMark(database: database.path).set() }
        return failure
    }

    var now: Int64 { configuration.clock.nowMilliseconds }
}
