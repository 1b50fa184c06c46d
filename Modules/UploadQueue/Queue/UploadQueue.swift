public import SyncCore

/// An executor of its own.
private actor Home {}

/// The queue of local changes on their way to the server: in order, at most once, never stuck, never silent.
///
/// Owns what is in flight, the schedule and the streams; what is in the queue is the change log's. Two faces over one
/// machine: ``take(urgency:)`` and ``settle(_:results:stamp:backoffSeconds:urgency:)`` for a cycle that carries both
/// ways, and ``run(sender:gate:)`` for one request a change. One driver at a time: while `run` is at work, `take` gives
/// nothing, and of two takes the newer counts (an answer to the older claim is ignored).
///
/// All that decides is in `UploadQueueMachine`; calls take turns, so that no event meets a plan half performed.
public actor UploadQueue {
    let log: any ChangeLog & ChangeRepair
    let clock: any Clock<Duration>
    let wallClock: any WallClock
    let randomness: any Randomness
    let watch: StopWatch
    let policy: UploadPolicy
    var machine: UploadQueueMachine
    var isPaused = false
    var isRunning = false
    /// The user asked for haste; the next look takes it.
    var isHurried = false
    /// Wakes `run` while there is one. One token is enough: who finds it looks at everything.
    var waking: AsyncStream<Void>.Continuation?
    private var isBusy = false
    private var waiters: [CheckedContinuation<Void, Never>] = []
    private var drain: UploadProgress?
    let streams = UploadStreams()
    /// Whose executor this runs on.
    nonisolated let home: any Actor

    public nonisolated var unownedExecutor: UnownedSerialExecutor { home.unownedExecutor }

    /// A queue over a change log.
    /// - Parameters:
    ///   - home: the actor on whose executor the queue runs. The log itself, where it is an actor: then no step from queue to
    ///     log changes the thread, which counts where each request carries one change. `nil` is one of its own.
    ///   - deltas: how a change that met a conflict is merged.
    ///   - wallClock: for what is shown and outlives a restart.
    ///   - clock: for every delay within this process.
    public init(
        log: any ChangeLog & ChangeRepair, home: (any Actor)? = nil, deltas: any DeltaCalculation = LastWriterDeltas(),
        policy: UploadPolicy = UploadPolicy(),
        wallClock: any WallClock = SystemWallClock(),  // live
        clock: any Clock<Duration> = ContinuousClock(),  // live
        randomness: any Randomness = SystemRandomness()  // live
    ) {
        self.log = log
        self.home = home ?? Home()
        self.policy = policy
        self.wallClock = wallClock
        self.clock = clock
        self.randomness = randomness
        watch = StopWatch(clock)
        machine = UploadQueueMachine(policy: policy, deltas: deltas)
    }

    // MARK: The face for a cycle that carries both ways

    /// Claims what may go now, or says why nothing goes. What was claimed is durably marked before this returns.
    /// - Throws: ``StoreFailure``; then nothing was claimed.
    public func take(urgency: Urgency) async throws(StoreFailure) -> Take {
        guard !isRunning, !policy.goesBySender else { return .nothing(try await log.summary()) }
        return try await claim(urgency)
    }

    /// Records the verdicts of the batch that was taken, and claims the next in the same transaction.
    ///
    /// A change without a verdict stays unanswered: it is sent again with the same key.
    /// - Parameters:
    ///   - sent: how many of the claim's changes went, from the first on (``ExchangeAnswer/sentCount``); `nil` for all. The others are
    ///     as they were before the claim.
    ///   - stamp: the highest stamp of the answer; the device's clock moves past it.
    ///   - backoffSeconds: a pause that the server asked for after this answer.
    /// - Throws: ``StoreFailure``; then nothing was recorded, and the changes are sent again with the same keys.
    public func settle(
        _ claim: Claim, results: [ChangeResult], sent: Int? = nil, stamp: Stamp?, backoffSeconds: Double?,
        urgency: Urgency
    ) async throws(StoreFailure) -> Take {
        try await settle(
            claim, results: results, sent: sent, stamp: stamp, backoffSeconds: backoffSeconds, urgency: urgency,
            claimsNext: true)
    }

    /// The request with this batch failed as a whole; one that was cancelled judges nobody and claims nothing.
    /// - Throws: ``StoreFailure``; then nothing was recorded, and the changes are sent again with the same keys.
    public func settle(
        _ claim: Claim, failure: ExchangeFailure, urgency: Urgency
    ) async throws(StoreFailure) -> Take {
        try await settle(claim, failure: failure, urgency: urgency, claimsNext: true)
    }

    /// The probe that section 4's *suspect* rule wants came back: an empty sync, or a read, that worked or did not.
    ///
    /// Without a suspect it does nothing, so a driver may tell of each empty sync.
    public func probed(succeeded: Bool) async throws(StoreFailure) {
        await enter()
        defer { leave() }
        try await load()
        let now = moment()
        var next = machine
        let plan = next.probed(succeeded: succeeded, at: now)
        guard !plan.isEmpty else {
            machine = next
            return
        }
        _ = try await perform(plan, next, at: now)
    }

    /// The server asked for a pause (`Retry-After`, `Backoff`) with an answer to a request without changes: it is kept,
    /// durably, and nothing goes before it is over, by nobody's wish.
    public func asked(pauseSeconds: Double) async throws(StoreFailure) {
        await enter()
        defer { leave() }
        // Another queue over this log, or another process, may have kept something since: that stays.
        let schedule = try await log.summary().schedule
        let now = moment()
        var next = machine
        next.loaded(schedule, at: now)
        let plan = next.asked(pauseSeconds: pauseSeconds, at: now)
        if !plan.isEmpty { _ = try await perform(plan, next, at: now) }
    }

    /// There are new credentials: the queue goes on.
    public func credentialsChanged() async throws(StoreFailure) {
        await enter()
        defer { leave() }
        try await load()
        let now = moment()
        var next = machine
        let plan = next.credentialsChanged(at: now)
        if !plan.isEmpty { _ = try await perform(plan, next, at: now) }
        wake()
    }

    /// Claims nothing more until ``resume()``; what is in flight is settled as it comes. Nothing counts as sent by this.
    public func pause() { isPaused = true }

    /// Goes on after ``pause()``.
    public func resume() {
        guard isPaused else { return }
        isPaused = false
        streams.events.send(.resumed("the app said so"))
        wake()
    }

    /// Makes ``run(sender:gate:)`` look again at once: a gate has opened, or the user asks.
    /// - Parameter urgency: the user's wish goes past our own back-off, never past the server's word.
    public func wake(_ urgency: Urgency = .routine) {
        if urgency == .user { isHurried = true }
        waking?.yield()
    }

    // MARK: Performing

    func claim(_ urgency: Urgency) async throws(StoreFailure) -> Take {
        await enter()
        defer { leave() }
        try await load()
        let now = moment()
        var next = machine
        let plan = next.take(urgency, isPaused: isPaused, at: now)
        return try await perform(plan, next, at: now)
    }

    func settle(
        _ claim: Claim, results: [ChangeResult], sent: Int? = nil, stamp: Stamp?, backoffSeconds: Double?,
        urgency: Urgency, claimsNext: Bool
    ) async throws(StoreFailure) -> Take {
        await enter()
        defer { leave() }
        let now = moment()
        var next = machine
        // Before anything is recorded: what never left is not looked at as sent by what comes of the others.
        if let rest = next.leftOut(of: claim, sent: sent) { try await log.putBack(rest) }
        let plan = next.verdicts(
            claim, results, sent: sent, stamp: stamp, backoffSeconds: backoffSeconds, urgency: urgency,
            isPaused: isPaused || !claimsNext, at: now)
        return try await perform(plan, next, at: now)
    }

    func settle(
        _ claim: Claim, failure: ExchangeFailure, urgency: Urgency, claimsNext: Bool
    ) async throws(StoreFailure) -> Take {
        await enter()
        defer { leave() }
        let now = moment()
        var next = machine
        let plan = next.failed(
            claim, failure, urgency: urgency, isPaused: isPaused || !claimsNext, at: now)
        return try await perform(plan, next, at: now)
    }

    /// Records and claims in one transaction, takes the machine over, and tells.
    func perform(
        _ plan: UploadQueueMachine.Plan, _ planned: UploadQueueMachine, at now: Moment
    ) async throws(StoreFailure) -> Take {
        let claim: Claim
        do {
            if let underWay = plan.behind {
                claim = try await log.settle(plan.settlement, behind: underWay, limits: plan.limits)
            } else if plan.isEmpty, plan.limits == nil {
                // Nothing to write: a look is enough.
                claim = Claim(changes: [], settled: 0, deviceID: "", summary: try await log.summary())
            } else {
                claim = try await log.settle(plan.settlement, claim: plan.limits)
            }
        } catch {
            machine.notRecorded(planned)
            throw error
        }
        machine = planned
        let (take, events) = machine.recorded(plan, claim, at: now)
        for event in await asRecorded(plan) { streams.events.send(event) }
        await tellBlocked(by: plan.setAside)
        for event in events { streams.events.send(event) }
        tell(claim.summary, left: plan.left)
        return take
    }

    /// The plan's events as the log took them: what misses a record whose own create is in the log was not set aside, but
    /// waits for that create, under a new key.
    private func asRecorded(_ plan: UploadQueueMachine.Plan) async -> [UploadEvent] {
        guard !plan.missing.isEmpty else { return plan.events }
        do throws(StoreFailure) {
            let failed = Set(try await log.failures().map(\.queued.change.id))
            let queued = try await log.queued()
            return plan.events.map { event in
                guard case .setAside(let id, _) = event, let record = plan.missing[id], !failed.contains(id),
                    let waiting = queued.first(where: { $0.change.record == record && $0.blockedBy != nil }),
                    let by = waiting.blockedBy
                else { return event }
                return .blocked(waiting.change.id, by: by)
            }
        } catch {
            streams.events.send(.storeFailed(error))
            return plan.events
        }
    }

    /// What needs a change that was set aside now waits for it, and that is told, too.
    private func tellBlocked(by setAside: [String]) async {
        for id in setAside {
            do throws(StoreFailure) {
                for dependant in try await log.dependants(of: id) where !setAside.contains(dependant) {
                    streams.events.send(.blocked(dependant, by: id))
                }
            } catch {
                streams.events.send(.storeFailed(error))
            }
        }
    }

    /// Reads the schedule that an earlier run left.
    func load() async throws(StoreFailure) {
        guard !machine.isLoaded else { return }
        let summary = try await log.summary()
        machine.loaded(summary.schedule, at: moment())
        tell(summary, left: 0)
    }

    /// Counts and progress, from what the log says.
    func tell(_ summary: QueueSummary, left: Int) {
        streams.count(UploadCounts(summary, nowMilliseconds: wallClock.nowMilliseconds))
        let remaining = summary.pending + summary.inFlight
        guard var progress = drain ?? (left + remaining > 0 ? UploadProgress() : nil) else { return }
        let hasEnded = progress.advance(left: left, remaining: remaining)
        streams.progress.send(progress)
        drain = hasEnded ? nil : progress
        if hasEnded { streams.progress.finish() }
    }

    func moment() -> Moment {
        Moment(wall: wallClock.nowMilliseconds, elapsed: watch.milliseconds(), chance: randomness.unit())
    }

    // MARK: Turns

    /// Waits for this call's turn, first come, first served: between a plan and its record nothing else decides.
    func enter() async {
        guard isBusy else {
            isBusy = true
            return
        }
        await withCheckedContinuation { waiters.append($0) }
    }

    func leave() {
        if waiters.isEmpty { isBusy = false } else { waiters.removeFirst().resume() }
    }
}
