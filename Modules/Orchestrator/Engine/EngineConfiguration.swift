public import Foundation

/// What an engine may be told; every value has a default fit for an app.
public struct EngineConfiguration: Sendable {
    /// The most records wanted in one answer.
    public var pageLimit: Int
    /// A slice of a page is one transaction of at most so many records.
    public var sliceRecords: Int
    /// A slice of a page is one transaction of about so many bytes at most.
    public var sliceBytes: Int
    /// How long this process may sync alone before another may take over a lease that was not renewed, in seconds; 59 minutes at most.
    public var leaseSeconds: Double
    /// This process's number, by which others see that a lease's holder is no more.
    public var process: Int32
    /// When cycles start by themselves.
    public var intervals: Scheduler.Intervals
    /// When a server that fails is left alone, and for how long.
    public var breaker: CircuitBreaker
    /// Whether somebody waits for what ``SyncEngine/run()`` does, as in a program that is left running to sync: its cycles
    /// go before our own back-off of changes and before an open breaker then, at the pace of the pauses between cycles.
    public var isWatched: Bool
    /// The first pause between two cycles of ``SyncEngine/sync(for:)`` after a failure; it doubles.
    public var retryPause: Duration
    /// The longest of these pauses.
    public var longestRetryPause: Duration
    /// What a whole fleet notices at once (a server that is back) is spread over so long.
    public var fleetSpread: Duration
    /// How often contents are compared with the server's by their checksum; `nil` is never.
    public var comparison: Duration?
    /// How many cycles are kept to be looked at (``SyncEngine/recentCycles(limit:)``).
    public var keptCycles: Int
    /// The window of the first pause before a broken stream of hints is opened again; it doubles, with full jitter.
    public var hintPause: Duration
    /// The longest of these windows.
    public var longestHintPause: Duration
    /// What must hold before requests of a lane go; one that is not named takes any network.
    public var conditions: [SyncGate.Lane: SyncGate.Conditions]
    /// How long a platform is believed that says there is no network, before it is tried all the same.
    public var longestDoubt: Duration
    /// How long a platform that was given is waited for to say how the device is connected, where a lane's conditions go by that.
    public var longestPathWait: Duration
    /// How often time in the background is taken.
    public var background: BackgroundBudget
    /// ``SyncEngine/runOnce(deadline:)`` gives a request up so long before the deadline (a fifth of a short one), so that
    /// its end is noted in time.
    public var deadlineReserve: Duration

    public init(
        pageLimit: Int = 1_000, sliceRecords: Int = 500, sliceBytes: Int = 1 << 20, leaseSeconds: Double = 30,
        process: Int32 = ProcessInfo.processInfo.processIdentifier,  // live
        intervals: Scheduler.Intervals = Scheduler.Intervals(), breaker: CircuitBreaker = CircuitBreaker(),
        isWatched: Bool = false,
        retryPause: Duration = .milliseconds(200), longestRetryPause: Duration = .seconds(1),
        fleetSpread: Duration = .seconds(10), comparison: Duration? = .seconds(86_400), keptCycles: Int = 100,
        hintPause: Duration = .seconds(1), longestHintPause: Duration = .seconds(60),
        conditions: [SyncGate.Lane: SyncGate.Conditions] = [:], longestDoubt: Duration = .seconds(300),
        longestPathWait: Duration = .seconds(1), background: BackgroundBudget = BackgroundBudget(),
        deadlineReserve: Duration = .seconds(1)
    ) {
        self.pageLimit = pageLimit
        self.sliceRecords = sliceRecords
        self.sliceBytes = sliceBytes
        self.leaseSeconds = leaseSeconds
        self.process = process
        self.intervals = intervals
        self.breaker = breaker
        self.isWatched = isWatched
        self.retryPause = retryPause
        self.longestRetryPause = longestRetryPause
        self.fleetSpread = fleetSpread
        self.comparison = comparison
        self.keptCycles = keptCycles
        self.hintPause = hintPause
        self.longestHintPause = longestHintPause
        self.conditions = conditions
        self.longestDoubt = longestDoubt
        self.longestPathWait = longestPathWait
        self.background = background
        self.deadlineReserve = deadlineReserve
    }
}

/// A mistake in the use of the engine.
public enum EngineError: Error, Sendable, Hashable, CustomStringConvertible {
    /// `run()` was called while it ran.
    case alreadyRunning
    /// A handler is for an entity that the store's schema does not declare.
    case unknownEntity(handler: String)
    /// Two handlers are for one entity.
    case secondHandler(entity: String)

    public var description: String {
        switch self {
        case .alreadyRunning: "The engine is running already; stop it before it is started again."
        case .unknownEntity(let name):
            "A handler is for “\(name)”, which is not declared; add its EntitySchema to the store's Schema."
        case .secondHandler(let name):
            "Two handlers are for “\(name)”; make one of them, or declare an entity of its own for the other."
        }
    }
}
