import Logging
import Storage
public import SyncCore
import UploadQueue

/// The gate, wired: one value in the engine, asked by cycles, and by queues of the app's own through ``gate(for:)``.
extension SyncEngine {
    /// The gate for requests of this lane, for an `UploadQueue` that runs by itself, a `DownloadQueue`, or an app's own
    /// transfers. What comes of those requests is told to the breaker by ``noting(_:)``.
    public nonisolated func gate(for lane: SyncGate.Lane = .records) -> any Gate {
        EngineGate(engine: self, lane: lane)
    }

    /// Sends through another sender and tells the gate what came of it: the breaker, and the server's pauses.
    public nonisolated func noting(_ sender: any ChangeSender) -> any ChangeSender {
        NotingSender(engine: self, base: sender)
    }

    /// The same for what fetches for a `DownloadQueue`.
    public nonisolated func noting(_ fetcher: any RecordFetcher) -> any RecordFetcher {
        NotingFetcher(engine: self, base: fetcher)
    }

    /// What must hold before requests of a lane go.
    public func setConditions(_ conditions: SyncGate.Conditions, for lane: SyncGate.Lane) async {
        gate.set(conditions, for: lane)
        await gateChanged()
    }

    /// The user wants this lane to go whatever its conditions: for so long, or not any more with `nil`.
    public func overrideConditions(of lane: SyncGate.Lane, for limit: Duration?) async {
        gate.override(lane, forMilliseconds: limit?.milliseconds, at: moment)
        await gateChanged()
    }

    /// The platform, or the app, says how the device is connected; `nil` where nobody knows any more.
    public func noticed(_ path: NetworkPath?) async {
        if let path {
            if gate.noticed(path, at: moment) { trigger(.reconnected) }
        } else {
            gate.lostPath()
        }
        await gateChanged()
    }

    /// Whether the device is charging; `nil` where nobody knows.
    public func noticed(isCharging: Bool?) async {
        gate.noticed(isCharging: isCharging)
        await gateChanged()
    }

    /// Who waits for the gate asks it again: a cycle that met it closed, and a queue that runs by itself.
    func gateChanged() async {
        if isHeldByGate, gate.answer(.records, .routine, at: moment) == .open { trigger(.retry) }
        await queue.wake()
    }

    var moment: SyncGate.Moment {
        SyncGate.Moment(wall: wallClock.nowMilliseconds, elapsed: watch.milliseconds())
    }

    func answer(_ lane: SyncGate.Lane, _ urgency: Urgency) -> GateAnswer {
        // A paused engine lets nobody through by himself.
        if isPaused, urgency == .routine { return .closed(untilMilliseconds: nil, cause: "paused") }
        return gate.answer(lane, urgency, at: moment)
    }
}

extension SyncEngine {
    /// The answer, also before any cycle has looked at what the server asked for in an earlier run.
    func knownAnswer(_ lane: SyncGate.Lane, _ urgency: Urgency) async -> GateAnswer {
        await learnPath(for: lane)
        await learnWord()
        return answer(lane, urgency)
    }

    private func learnWord() async {
        if !isWordKnown {
            do throws(StoreFailure) {
                let schedule = try await store.summary().schedule
                if !isWordKnown { _ = learnedWord(schedule) }
            } catch {
                // Whoever asked meets the same trouble when it claims, and tells; the next one asks again.
                logger.error("the server's pause was not read", metadata: ["failure": "\(error.redacted)"])
            }
        }
    }

    /// What the queue keeps of the server's word; how long it still stands.
    func learnedWord(_ schedule: QueueSchedule) -> Int64? {
        isWordKnown = true
        return gate.learned(schedule, at: moment)
    }

    /// How long the server's word still binds every request, in milliseconds; `nil` if it does not.
    func serverPause() async -> Int64? {
        await learnWord()
        return gate.serverWord.left(elapsed: watch.milliseconds())
    }

    /// A request leaves that is not a cycle's.
    /// - Returns: the mark of the breaker's probe, if it is that.
    fileprivate func noteLeaving() -> CircuitBreaker.State? { gate.leaves(at: moment) }

    /// Makes a request that is not a cycle's, where its caller runs, and tells the gate of it.
    /// - Parameter keepsPause: nobody else keeps durably what the server asked for with it.
    fileprivate nonisolated func noted<T: Sendable>(
        keepsPause: Bool = false, _ request: () async throws(ExchangeFailure) -> T
    ) async throws(ExchangeFailure) -> T {
        let mark = await noteLeaving()
        do throws(ExchangeFailure) {
            let result = try await request()
            await noteSuccess()
            return result
        } catch {
            await note(error, probe: mark)
            if keepsPause { await keepPause(of: error) }
            throw error
        }
    }

    /// What the server asked for binds the next run of the program, too.
    func keepPause(of failure: ExchangeFailure) async {
        let pause = max(failure.retryAfterSeconds ?? 0, failure.backoffSeconds ?? 0)
        guard pause > 0 else { return }
        do throws(StoreFailure) { try await queue.asked(pauseSeconds: pause) } catch {
            // It binds this run all the same.
            logger.error("the server's pause was not kept", metadata: ["failure": "\(error.redacted)"])
        }
    }
}

/// The engine's gate as the queues see it.
private struct EngineGate: Gate {
    let engine: SyncEngine
    let lane: SyncGate.Lane

    func mayGo(_ urgency: Urgency) async -> GateAnswer { await engine.knownAnswer(lane, urgency) }
}

/// A sender whose failures and successes the gate hears of.
private struct NotingSender: ChangeSender {
    let engine: SyncEngine
    let base: any ChangeSender
    var sendsValues: Bool { base.sendsValues }

    func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
        try await engine.noted { () async throws(ExchangeFailure) in try await base.send(changes, deviceID: deviceID) }
    }

    func probe() async throws(ExchangeFailure) {
        try await engine.noted { () async throws(ExchangeFailure) in try await base.probe() }
    }
}

/// A fetcher whose failures and successes the gate hears of.
private struct NotingFetcher: RecordFetcher {
    let engine: SyncEngine
    let base: any RecordFetcher

    func fetch(_ request: DownloadRequest) async throws(ExchangeFailure) {
        try await engine.noted(keepsPause: true) { () async throws(ExchangeFailure) in try await base.fetch(request) }
    }
}
