public import GRDB
public import SyncCore

/// How a ``Store`` opens and runs; the defaults are for an app.
public struct StoreConfiguration: Sendable {
    /// What a commit promises when the power goes.
    public enum Synchronous: String, Sendable, Hashable {
        /// A crash of the app loses nothing; a power loss may lose the last commits, never the file's consistency.
        case normal = "NORMAL"
        /// No commit is lost; each costs a flush of the disk.
        case full = "FULL"
    }

    public var synchronous: Synchronous
    /// How long a write waits for another process's lock, in seconds; then ``StoreFailure`` with `busy`.
    public var busyTimeout: Double
    /// How deltas are composed and replayed; DeltaCalculator brings more than the default.
    public var deltas: any DeltaCalculation
    public var clock: any WallClock
    /// Measures how long a transaction of a slice takes.
    public var monotonicClock: any _Concurrency.Clock<Duration>
    /// A slice of a page ends its transaction after this time, and goes on in another one: so long the app's own writes wait
    /// for it, and for the commit. What this promises stands in `Docs/Storage.md`.
    public var longestSlice: Duration
    /// For tests: makes keys follow from this seed and the sequence; `nil` takes SQLite's random source.
    public var keySeed: Int64?
    /// For tests: triggers read ``clock`` as it was before each write through the store, not the system's time.
    public var fixesTriggerClock: Bool
    /// Where the actor runs: by default a serial executor of its own, so that a busy file blocks no cooperative thread.
    public var executor: (any SerialExecutor)?
    /// Whether the actor runs on a live thread, and not where a configuration wants all of its work.
    var isOnThreadOfItsOwn: Bool { executor.map { $0 is FileExecutor } ?? true }
    /// Makes the app's tables from the declared fields where they are missing; `false` where the app has its migrations.
    public var createsTables: Bool
    /// Makes the app's own tables, in the transaction that opens the file, where one or a column of it is missing: for an app without
    /// migrations whose tables are not to be those of ``createsTables``. What it throws ends the opening, and nothing was made.
    public var makesTables: (@Sendable (Database) throws -> Void)?
    /// The app's own migrations, run before its tables are looked at.
    public var migrations: AppMigrations?
    /// Derived data of the app's, rebuilt in the transaction that touches what it depends on.
    public var snapshots: [SnapshotBuilder]
    /// Tells a database that was restored from a backup: on Apple's platforms a file that no backup carries, elsewhere one
    /// that no copy is equal to. With `nil` volume and inode alone do.
    public var installToken: (any InstallToken)?
    /// What tells this start of the system from every other; `nil` where nobody knows.
    ///
    /// With ``Synchronous/normal`` the last commits may be missing after a power loss, so a file that was open in an earlier
    /// start of the system counts as an older copy of itself, and gets a new device id (PRC-22).
    public var systemStart: String?
    /// For tests of the module: stands for the version that SQLite says of itself.
    var foundSQLite: String?
    /// For tests: the engine reads over the connection that writes, and opens no other for it; a hook does not see what
    /// reads there.
    package var readsByWriter = false
    /// For tests: sees each SQL statement before it runs on the writing connection; `false` breaks it off.
    ///
    /// The text costs more than many a statement does, so it is made only for who asks for it.
    public typealias StatementHook = @Sendable (_ sql: () -> String) -> Bool
    public var statementHook: StatementHook?

    public init(
        synchronous: Synchronous = .normal, busyTimeout: Double = 5, deltas: any DeltaCalculation = LastWriterDeltas(),
        clock: any WallClock = SystemWallClock(),  // live
        monotonicClock: any _Concurrency.Clock<Duration> = ContinuousClock(),  // live
        longestSlice: Duration = .milliseconds(15),
        keySeed: Int64? = nil, fixesTriggerClock: Bool = false,
        executor: (any SerialExecutor)? = FileExecutor(),  // live
        createsTables: Bool = true, makesTables: (@Sendable (Database) throws -> Void)? = nil,
        migrations: AppMigrations? = nil, snapshots: [SnapshotBuilder] = [],
        installToken: (any InstallToken)? = PlatformInstallToken.live,  // live
        systemStart: String? = SystemStart.live,  // live
        statementHook: StatementHook? = nil
    ) {
        self.synchronous = synchronous
        self.busyTimeout = busyTimeout
        self.deltas = deltas
        self.clock = clock
        self.monotonicClock = monotonicClock
        self.longestSlice = longestSlice
        self.keySeed = keySeed
        self.fixesTriggerClock = fixesTriggerClock
        self.executor = executor
        self.createsTables = createsTables
        self.makesTables = makesTables
        self.migrations = migrations
        self.snapshots = snapshots
        self.installToken = installToken
        self.systemStart = systemStart
        self.statementHook = statementHook
    }
}
