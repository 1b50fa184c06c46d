public import Logging
public import Storage
public import SyncCore
public import UploadQueue

/// One engine for all record types: brings every local change to the server and every change of others here.
///
/// Owns the cycle (one at a time), the schedule and the breaker; the queue, the store and the exchange do the rest. It
/// knows no entity. Nothing runs but inside a call of its own methods: ``run()`` is the long-lived one.
public actor SyncEngine {
    let store: Store
    let exchange: any Exchange
    let queue: UploadQueue
    let configuration: EngineConfiguration
    let wallClock: any WallClock
    let clock: any Clock<Duration>
    let ids: any IDSource
    let logger: Logger
    /// This engine's name in the lease.
    let holder: String

    var breaker: CircuitBreaker
    var status = SyncStatus()
    var isPaused = false
    /// Both clocks at the beginning of the last cycle, to notice a jump of the wall clock.
    var clockCheck: (wall: Int64, watch: StopWatch)?
    private var isRunning = false
    private var isCycling = false
    private var waiting: [CheckedContinuation<CycleReport?, Never>] = []
    private var statusStreams = Broadcast<SyncStatus>(keepsNewest: true, policy: .bufferingNewest(1))
    private var eventStreams = Broadcast<SyncEvent>(keepsNewest: false, policy: .bufferingNewest(256))
    private let triggers: AsyncStream<Scheduler.Trigger?>
    private let triggering: AsyncStream<Scheduler.Trigger?>.Continuation

    /// An engine over an open store and a way to the server.
    /// - Parameter deltas: how conflicts are merged.
    public init(
        store: Store, exchange: any Exchange,
        deltas: any DeltaCalculation = LastWriterDeltas(), configuration: EngineConfiguration = EngineConfiguration(),
        policy: UploadPolicy = UploadPolicy(),
        wallClock: any WallClock = SystemWallClock(),  // live
        clock: any Clock<Duration> = ContinuousClock(),  // live
        randomness: any Randomness = SystemRandomness(),  // live
        ids: any IDSource = UUIDv7Source(),  // live
        logger: Logger = Logger(label: "ferry.engine", factory: { _ in SwiftLogNoOpLogHandler() })
    ) {
        self.store = store
        self.exchange = exchange
        self.configuration = configuration
        self.wallClock = wallClock
        self.clock = clock
        self.ids = ids
        self.logger = logger
        breaker = configuration.breaker
        holder = "\(configuration.process)/\(ids.makeID())"
        queue = UploadQueue(
            log: store, deltas: deltas, policy: policy, wallClock: wallClock, clock: clock, randomness: randomness)
        (triggers, triggering) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(64))
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

    // MARK: One cycle

    /// Pushes and pulls once, now: past our own back-off and an open breaker, never past the server's word.
    ///
    /// While a cycle runs, all calls together make exactly one more, and share its report.
    @discardableResult
    public func syncNow() async -> CycleReport { await serialized(.user) }

    /// One cycle that ends before the deadline in a clean state: what is under way then is given up and sent again later.
    @discardableResult
    public func runOnce(deadline: Duration) async -> CycleReport {
        await withDeadline(deadline) { await self.serialized(.routine) }
    }

    /// Runs cycles until everything is in step, nothing more can be done, or the time is over.
    ///
    /// The user's wish: it ignores our own back-off and an open breaker, never the server's `Retry-After` or `Backoff`.
    /// - Parameter limit: how long it may take; a request that is under way at its end is given up.
    public func sync(for limit: Duration) async throws(StoreFailure) -> SyncSummary {
        var total = CycleReport()
        let elapsed = StopWatch(clock)
        var pauses = RetryPauses(configuration)
        while elapsed.read() < limit {
            let report = await withDeadline(limit - elapsed.read()) { await self.serialized(.user) }
            total.add(report)
            let left = try await store.summary()
            let pause = pauses.next(after: report, left, nowMilliseconds: wallClock.nowMilliseconds)
            guard let wait = pause?.fitting(limit - elapsed.read()), await slept(wait) else { break }
        }
        return SyncSummary(report: total, queue: try await store.summary(), held: try await store.position().held)
    }

    private func serialized(_ urgency: Urgency) async -> CycleReport {
        if isCycling {
            // Either somebody else's next cycle serves this call, or this call is the one to run it.
            if let report = await withCheckedContinuation({ waiting.append($0) }) { return report }
        }
        isCycling = true
        let served = waiting
        waiting = []
        let report = await oneCycle(served.isEmpty ? urgency : .user)
        for waiter in served { waiter.resume(returning: report) }
        if waiting.isEmpty {
            isCycling = false
        } else {
            waiting.removeFirst().resume(returning: nil)
        }
        return report
    }

    private func oneCycle(_ urgency: Urgency) async -> CycleReport {
        update { $0.activity = .syncing }
        let report = await cycle(urgency)
        update {
            $0.activity = isPaused ? .paused : .idle
            $0.lastEnd = report.end
            if report.end == .complete {
                $0.lastSyncedMilliseconds = max($0.lastSyncedMilliseconds ?? .min, wallClock.nowMilliseconds)
            }
        }
        send(.cycleEnded(report))
        return report
    }

    // MARK: The long run

    /// Syncs by itself until the task is cancelled or ``stop()`` is called: after local writes, on hints, and at
    /// least every period.
    /// - Throws: ``EngineError/alreadyRunning`` for a second call.
    public func run() async throws(EngineError) {
        guard !isRunning else { throw .alreadyRunning }
        isRunning = true
        defer { isRunning = false }
        await withTaskGroup(of: Void.self) { group in
            let (wakes, waking) = AsyncStream.makeStream(of: Wake.self, bufferingPolicy: .bufferingNewest(64))
            let (notices, triggers) = (store.notices(), triggers)
            group.addTask { for await _ in notices { waking.yield(.trigger(.localWrite)) } }
            group.addTask {
                for await trigger in triggers {
                    guard let trigger else { return waking.finish() }
                    waking.yield(.trigger(trigger))
                }
                waking.finish()
            }
            waking.yield(.timer(.min))
            await loop(wakes, waking, &group)
            group.cancelAll()
        }
    }

    /// Ends ``run()``; a request that is under way is given up, and its changes are sent again later.
    public func stop() { triggering.yield(nil) }

    /// Something happened outside that makes a cycle worth while.
    public func trigger(_ trigger: Scheduler.Trigger) {
        if trigger != .localWrite { breaker.invite(nowMilliseconds: wallClock.nowMilliseconds) }
        triggering.yield(trigger)
    }

    /// No cycle starts by itself until ``resume()``.
    public func pause() {
        isPaused = true
        update { $0.activity = .paused }
    }

    /// Goes on after ``pause()``, at once.
    public func resume() {
        isPaused = false
        update { $0.activity = .idle }
        triggering.yield(.reconnected)
    }

    private enum Wake: Sendable { case trigger(Scheduler.Trigger), timer(Int64) }

    private func loop(
        _ wakes: AsyncStream<Wake>, _ waking: AsyncStream<Wake>.Continuation, _ group: inout TaskGroup<Void>
    ) async {
        var scheduler = Scheduler(configuration.intervals)
        let watch = StopWatch(clock)
        var armed: Int64?
        for await wake in wakes {
            switch wake {
            case .trigger(let trigger): scheduler.trigger(trigger, at: watch.milliseconds())
            case .timer(let time): if time == armed { armed = nil }
            }
            if let start = scheduler.nextStart(), start <= watch.milliseconds(), !isPaused {
                scheduler.started(at: watch.milliseconds())
                let report = await serialized(.routine)
                scheduler.ended(retryAt: retryTime(after: report.end, now: watch.milliseconds()))
            }
            guard !Task.isCancelled else { return }
            guard let next = scheduler.nextStart(), armed.map({ next < $0 }) ?? true, !isPaused else { continue }
            armed = next
            let delay = Duration.milliseconds(max(0, next - watch.milliseconds()))
            group.addTask { if await self.slept(delay) { waking.yield(.timer(next)) } }
        }
    }

    private func retryTime(after end: CycleEnd, now: Int64) -> Int64? {
        let wait = RetryPauses.floor(of: end, own: configuration.longestRetryPause, wallClock.nowMilliseconds)
        return wait.map { now + $0.milliseconds }
    }

    // MARK: Helpers

    /// Sleeps; `false` if it was cancelled before the time was over.
    private func slept(_ duration: Duration) async -> Bool {
        do {
            try await clock.sleep(for: duration)
            return true
        } catch {
            // Only cancellation ends a sleep early.
            return false
        }
    }

    private func withDeadline(
        _ limit: Duration, _ body: @escaping @Sendable () async -> CycleReport
    ) async -> CycleReport {
        await withTaskGroup(of: CycleReport?.self) { group in
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

    func update(_ change: (inout SyncStatus) -> Void) {
        var next = status
        change(&next)
        guard next != status else { return }
        status = next
        statusStreams.send(next)
    }

    func send(_ event: SyncEvent) { eventStreams.send(event) }
}
