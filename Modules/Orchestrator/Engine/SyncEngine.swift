public import CoreMetrics
public import Logging
public import Storage
public import SyncCore
public import UploadQueue

/// One engine for all record types: brings every local change to the server and every change of others here.
///
/// Owns the cycle (one at a time), the schedule and the gate; the queue, the store and the exchange do the rest. It
/// knows no entity. Nothing runs but inside a call of its own methods: ``run()`` is the long-lived one.
public actor SyncEngine {
    let store: Store
    let exchange: any Exchange
    let hints: (any HintSource)?
    let connectivity: (any Connectivity)?
    let background: (any BackgroundTime)?
    let handlers: [any Syncable]
    let queue: UploadQueue
    let configuration: EngineConfiguration
    let wallClock: any WallClock
    let clock: any Clock<Duration>
    let randomness: any Randomness
    let ids: any IDSource
    let logger: Logger
    var metrics: EngineMetrics
    /// This engine's name in the lease.
    let holder: String
    /// Monotonic time since the engine was made; every delay within this process goes by it.
    let watch: StopWatch
    /// Ends calls in time; `nil` with a clock that is not the system's.
    let deadlines: DeadlineTimer?

    var gate: SyncGate
    /// The gate knows what the queue keeps of the server's word.
    var isWordKnown = false
    /// The gate was closed when a cycle wanted to begin.
    var isHeldByGate = false
    /// Handlers were told, or offered in this cycle, what is kept for them up to this place.
    var toldUpTo: Int64 = 0
    /// Whether the platform's word on the link is followed.
    var pathFollowing = PathFollowing.none
    /// What handlers built for changes that are no more was dropped once since the engine was made.
    var arePayloadsPruned = false
    var scheduler: Scheduler
    var backoff: CycleBackoff
    var status = SyncStatus()
    var isPaused = false
    /// Both clocks at the beginning of the last cycle, to notice a jump of the wall clock.
    var clockCheck: (wall: Int64, watch: StopWatch)?
    /// The wall clock jumped, and no answer has told the server's time since.
    var hasClockJumped = false
    /// The last push ended without an answer, and its cycle without a pull: the next ones ask first, and push then.
    var isPullOwed = false
    /// The same was read of the last run of the program.
    var isOwedKnown = false
    /// When contents were last compared with the server's, milliseconds since 1970; `nil` before it was read.
    var comparedMilliseconds: Int64?
    var isComparisonWanted = false
    /// Everything asked for is here up to this version, as the last cycle left it.
    var reached: Int64 = 0
    /// The roots asked for, as the last cycle found them; `nil` for all.
    var askedScopes: Set<String>?
    /// The newest version that the server hinted at since the last cycle began.
    var hinted: Int64 = 0
    /// When the stream of hints opened that is open now, by the monotonic clock.
    var hintsOpened: Int64?
    var haveHintsBeenLost = false
    var isRunning = false
    /// Closed for good: a run that begins later ends at once.
    var isClosed = false
    /// Somebody runs a cycle, or is just about to.
    var isCycling = false
    /// So many records the cycle's first request asks for; its page was marked when the cycle began.
    var markedPage: Int?
    /// The cycle's only page came to its end, which the store is told with the lease.
    var isPageToEnd = false
    /// Whether anything was written while the cycle's request was under way is not looked at yet; giving the lease back does.
    var isLookLeft = false
    /// So many records may go at the end of the next full pass, by the app's word (``confirmRemoval()``).
    var confirmedLoss = 0
    /// The full pass that waits for the app's word is to be repeated before it goes by that word.
    var isPassToRepeat = false
    /// The store can tell by the file alone whether anything was written since the cycle began.
    var isFileKnown = false
    /// Those who wait for a cycle that begins after they asked.
    var line: [Turn] = []
    /// What the breaker was when the cycle at work began: its mark, where that cycle is the probe.
    var cycleProbe: CircuitBreaker.State?
    /// Wakes the loop of ``run()`` to look at the schedule.
    let wakeUp = Signal()
    /// Tells who waits for its distance from the last cycle that the user wants one.
    let hurry = Signal()
    /// Ends ``run()``.
    let stopping = Signal()
    private var statusStreams = Broadcast<SyncStatus>(keepsNewest: true, policy: .bufferingNewest(1))
    private var eventStreams = Broadcast<SyncEvent>(keepsNewest: false, policy: .bufferingNewest(256))

    /// An engine over an open store and a way to the server.
    /// - Parameters:
    ///   - hints: where the server says that something is new; ``run()`` listens there, and works without.
    ///   - connectivity: how the device is connected; a hint only, and ``run()`` works without.
    ///   - background: time in the background; ``run()`` asks for it and takes it.
    ///   - handlers: for entities that do not live in a table of this database; declared ones need none.
    ///   - deltas: how conflicts are merged.
    public init(
        store: Store, exchange: any Exchange, hints: (any HintSource)? = nil,
        connectivity: (any Connectivity)? = nil, background: (any BackgroundTime)? = nil, handlers: [any Syncable] = [],
        deltas: any DeltaCalculation = LastWriterDeltas(), configuration: EngineConfiguration = EngineConfiguration(),
        policy: UploadPolicy = UploadPolicy(),
        wallClock: any WallClock = SystemWallClock(),  // live
        clock: any Clock<Duration> = ContinuousClock(),  // live
        randomness: any Randomness = SystemRandomness(),  // live
        ids: any IDSource = UUIDv7Source(),  // live
        logger: Logger = Logger(label: "ferry.engine", factory: { _ in SwiftLogNoOpLogHandler() }),
        metrics: any MetricsFactory = MetricsSystem.factory  // live
    ) {
        self.store = store
        self.exchange = exchange
        self.hints = hints
        self.connectivity = connectivity
        self.background = background
        self.handlers = handlers
        self.configuration = configuration
        self.wallClock = wallClock
        self.clock = clock
        self.randomness = randomness
        self.ids = ids
        self.logger = logger
        self.metrics = EngineMetrics(metrics)
        watch = StopWatch(clock)
        deadlines = clock is ContinuousClock ? DeadlineTimer() : nil
        gate = SyncGate(
            breaker: configuration.breaker, conditions: configuration.conditions,
            longestDoubtMilliseconds: configuration.longestDoubt.milliseconds)
        scheduler = Scheduler(configuration.intervals)
        backoff = CycleBackoff(
            first: 2 * configuration.intervals.minimumInterval, longest: configuration.intervals.period)
        store.keepUntold(of: Set(handlers.lazy.filter { !($0 is EntitySchema) }.map(\.schema.name)))
        holder = "\(configuration.process)/\(ids.makeID())"
        queue = UploadQueue(
            log: store, deltas: deltas, policy: policy, wallClock: wallClock, clock: clock, randomness: randomness)
    }

    /// The queue, for looking at what is in it, retrying, discarding and cancelling.
    public nonisolated var uploads: UploadQueue { queue }

    /// Snapshots of how sync stands; begins with the present one and keeps only the newest.
    public func statuses() -> AsyncStream<SyncStatus> {
        if statusStreams.newest == nil { statusStreams.send(status) }
        return statusStreams.stream()
    }

    /// What happens from now on; keeps the newest 256 for a slow listener.
    public func events() -> AsyncStream<SyncEvent> { eventStreams.stream() }

    // MARK: Syncing once

    /// Pushes and pulls once, now: past our own back-off and an open breaker, never past the server's word.
    ///
    /// While a cycle runs, all calls together make exactly one more, and share its report. A call whose task is
    /// cancelled returns soon, whoever is at work.
    @discardableResult
    public func syncNow() async -> CycleReport { await serialized(.user) }

    /// One cycle that ends before the deadline in a clean state: what is under way then is given up and sent again later.
    ///
    /// It begins no sooner than the least distance after the last start, and is `cancelled` where its time is over before that.
    /// A handler of the app's that goes on though its task is cancelled is waited for: nothing of a cycle outlives the call.
    @discardableResult
    public func runOnce(deadline: Duration) async -> CycleReport {
        let limit = deadline - min(configuration.deadlineReserve, deadline / 5)
        return await withDeadline(limit) { await self.serialized(.routine, cause: .background) }
    }

    /// Runs cycles until everything is in step, nothing more can be done, or the time is over.
    ///
    /// The user's wish: it ignores our own back-off and an open breaker, never the server's `Retry-After` or `Backoff`.
    /// - Parameter limit: how long it may take; a request that is under way at its end is given up.
    public nonisolated func sync(for limit: Duration) async throws(StoreFailure) -> SyncSummary {
        // From the caller's thread to the store's at once: an actor's method begins on the actor's own executor.
        try await withTaskExecutorPreference(store.taskExecutor) { () async -> Result<SyncSummary, StoreFailure> in
            do throws(StoreFailure) { return .success(try await cycles(for: limit)) } catch { return .failure(error) }
        }.get()
    }

    private func cycles(for limit: Duration) async throws(StoreFailure) -> SyncSummary {
        var total = CycleReport()
        let elapsed = StopWatch(clock)
        var pauses = RetryPauses(configuration)
        var left: CycleClosing?
        while elapsed.read() < limit {
            let report = await withDeadline(limit - elapsed.read()) { await self.serialized(.user, isAtHome: true) }
            total.add(report)
            let now = try await closing(of: report)
            left = now
            let pause = pauses.next(after: report, now.queue, nowMilliseconds: wallClock.nowMilliseconds)
            guard let wait = pause?.fitting(limit - elapsed.read()), await slept(wait) else { break }
            left = nil
        }
        let end: CycleClosing
        if let left { end = left } else { end = try await closing(of: nil) }
        return SyncSummary(report: total, queue: end.queue, held: end.held)
    }

    /// How the queue stands: as the cycle left it, where it says so.
    func closing(of report: CycleReport?) async throws(StoreFailure) -> CycleClosing {
        if let closing = report?.closing { return closing }
        return CycleClosing(queue: try await store.summary(), held: try await store.position().held)
    }

    // MARK: From outside

    /// Something happened outside that makes a cycle worth while; taken up by ``run()``, now or when it begins.
    public func trigger(_ trigger: Scheduler.Trigger) {
        let now = watch.milliseconds()
        if ![.localWrite, .period, .retry].contains(trigger) { gate.invite(at: moment) }
        var spread: Int64 = 0
        if trigger == .serverBack {
            spread = Int64(Double(configuration.fleetSpread.milliseconds) * randomness.unit())
        }
        scheduler.trigger(trigger, at: now, spread: spread)
        wakeUp.set()
        if trigger == .user { hurry.set() }
    }

    /// Ends ``run()``; a request of its own that is under way is given up, and its changes are sent again later.
    ///
    /// A cycle that ``syncNow()`` or another call began goes on. Without a run it does nothing.
    public func stop() { if isRunning { stopping.set() } }

    /// No cycle starts by itself until ``resume()``.
    public func pause() {
        isPaused = true
        update { if $0.activity != .syncing { $0.activity = .paused } }
    }

    /// Goes on after ``pause()``, at once.
    public func resume() {
        isPaused = false
        update { if $0.activity != .syncing { $0.activity = .idle } }
        trigger(.reconnected)
    }

    /// Compares contents with the server's in the next cycle that has nothing else to do; a difference is an event and a
    /// full pass. By itself the engine does so once in ``EngineConfiguration/comparison``.
    public func compareContents() {
        isComparisonWanted = true
        trigger(.hint)
    }

    // MARK: Helpers

    /// Sleeps; `false` if it was cancelled before the time was over.
    nonisolated func slept(_ duration: Duration) async -> Bool {
        do {
            try await clock.sleep(for: duration)
            return true
        } catch {
            // kept: only cancellation ends a sleep early.
            return false
        }
    }

    private func withDeadline(
        _ limit: Duration, _ body: @escaping @Sendable () async -> CycleReport
    ) async -> CycleReport {
        if let deadlines { return await ended(by: deadlines, limit, body) }
        return await withTaskGroup(of: CycleReport?.self) { group in
            group.addTask { await body() }
            group.addTask {
                _ = await self.slept(limit)
                return nil
            }
            var report: CycleReport?
            for await finished in group {
                group.cancelAll()
                if let finished { report = finished }
            }
            return report ?? CycleReport()
        }
    }

    /// In a task of its own, which the timer can end without ending the caller's.
    private func ended(
        by deadlines: DeadlineTimer, _ limit: Duration, _ body: @escaping @Sendable () async -> CycleReport
    ) async -> CycleReport {
        await withTaskGroup(of: CycleReport.self) { group in
            if #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) {
                group.addImmediateTask { await deadlines.limit(limit, body) }
            } else {
                group.addTask { await deadlines.limit(limit, body) }
            }
            return await group.next() ?? CycleReport()
        }
    }

    func update(_ change: (inout SyncStatus) -> Void) {
        var next = status
        change(&next)
        guard next != status else { return }
        status = next
        statusStreams.send(next)
    }

    /// Who listens comes to an end, and so does who listens from then on.
    func finishStreams() {
        statusStreams.finish()
        eventStreams.finish()
    }

    func send(_ event: SyncEvent) {
        metrics.happened(event)
        eventStreams.send(event)
    }
}
