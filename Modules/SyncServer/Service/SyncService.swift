internal import GRDB
public import SyncCore

/// A server's whole mind without HTTP: PROTOCOL.md's rules over one SQLite file.
///
/// Every call is synchronous and takes its turn: one request is decided, committed and answered after another, on the
/// thread that calls. A shell that must not block calls it from a serial executor of its own. Nothing here starts a
/// thread, reads a clock or draws a number but by what the initializer was given, so a simulator runs it as it is.
///
/// An answer is given only when everything that it says is committed. An error of the disk is a 503, after which
/// nothing of the request has happened.
public final class SyncService: Sendable {
    /// The configuration that it was started with.
    public let configuration: ServerConfiguration
    /// Where the database is.
    public let path: String
    let rules: [String: EntityRules]
    let clock: any WallClock
    let randomness: any Randomness
    let state: Guarded<State?>
    let listeners = Guarded(Listeners())
    /// What the last requests were made of, until ``tidy()``.
    let spent = Guarded<Spent?>(nil)
    private let log: LogKeeper

    /// What is there while the service is open.
    struct State {
        let lock: FileLock
        /// The file itself, by whatever name it was opened.
        let file: String
        let place: FilePlace?
        let versionFile: VersionFile
        let queue: DatabaseQueue
        let store: ServerStore
        var epoch: String
        /// What `FILE.version` holds.
        var handedOut: Int64
        var pruning = PruningCourse()
    }

    /// Opens the database, makes or migrates its tables, and decides whether history goes on or a new epoch begins.
    ///
    /// - Parameters:
    ///   - path: The database; `PATH.lock` and `PATH.version` are kept beside it.
    ///   - clock: The time of day; stamps are clamped by it.
    ///   - randomness: Data set and epoch names, and ids if the server makes them.
    /// - Throws: ``ServiceFailure``.
    public init(
        path: String, configuration: ServerConfiguration,
        clock: any WallClock = SystemWallClock(),  // live
        randomness: any Randomness = SystemRandomness()  // live
    ) throws(ServiceFailure) {
        self.path = path
        self.configuration = configuration
        self.clock = clock
        self.randomness = randomness
        rules = try EntityRules.all(configuration.entities)
        log = LogKeeper(path: path)
        state = Guarded(try Opening(path: path, configuration: configuration, randomness: randomness, log: log).open())
    }

    /// The present version of an account; 0 for one that never came.
    public func currentVersion(account: String) throws(ServiceFailure) -> Int64 {
        try inStore { state, _ in try state.store.existing(account)?.head ?? 0 }
    }

    /// Whether the database answers; for a health check.
    public func checkHealth() throws(ServiceFailure) {
        try inStore { state, _ in _ = try state.store.meta("epoch") }
    }

    /// The present epoch.
    public var epoch: String {
        get throws(ServiceFailure) { try inStore { state, _ in state.epoch } }
    }

    /// Whether the write-ahead log is so long that ``bringLogIn()`` is worth while; asks no disk.
    public var isLogLong: Bool { log.isLong }

    /// Brings a long write-ahead log into the file, on a connection of its own; a short one it leaves alone.
    ///
    /// For a shell that has a thread to spare: it waits for the disk, and other calls go on meanwhile. Without it the commit
    /// that fills the log does so, and its answer waits. May be called on any thread; a second call at the same time does nothing.
    public func bringLogIn() { log.bringIn() }

    /// Ends it: what was answered is in the file. Another call then throws, or is answered with 503.
    public func close() throws(ServiceFailure) {
        let path = path
        let log = log
        let failure = state.with { state -> ServiceFailure? in
            guard let open = state else { return nil }
            state = nil
            do {
                try log.close()
                // SQLite closes no connection that statements hang on.
                open.queue.writeWithoutTransaction { _ in open.store.statements.finalize() }
                try open.queue.close()
                return nil
            } catch {
                return .storage(path: path, reason: ServiceFailure.words(error))
            }
        }
        // Ending a stream removes it from the listeners, which must not be locked then.
        for stream in listeners.with({ $0.takeAll() }) { stream.finish() }
        if let failure { throw failure }
    }

    /// Runs `body` with the store in its turn.
    func inStore<Result>(_ body: (inout State, Database) throws -> Result) throws(ServiceFailure) -> Result {
        do {
            return try state.with { state in
                guard var open = state else { throw ServiceFailure.closed }
                defer { state = open }
                guard FilePlace(open.file) == open.place else {
                    throw ServiceFailure.storage(
                        path: path, reason: "was moved, removed or replaced while the server had it open")
                }
                return try open.queue.writeWithoutTransaction { db in try body(&open, db) }
            }
        } catch let failure as ServiceFailure {
            throw failure
        } catch {
            throw .storage(path: path, reason: ServiceFailure.words(error))
        }
    }

    /// Stops before each statement, for tests: what `hook` throws ends the transaction as a crash there would.
    package func onStatement(_ hook: (@Sendable () throws -> Void)?) throws(ServiceFailure) {
        try inStore { state, _ in state.store.statements.hook = hook }
    }

    /// A name of this deployment's own making.
    func makeName(_ prefix: String) -> String { Opening.makeName(prefix, randomness) }
}
