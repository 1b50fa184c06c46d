public import SyncCore
import UploadQueue

/// The gate, wired: one value in the engine, asked by cycles, and by queues of the app's own through ``gate(for:)``.
extension SyncEngine {
    /// The gate for requests of this lane, for an ``UploadQueue`` that runs by itself, a ``DownloadQueue``, or an app's own
    /// transfers. What comes of those requests is told to the breaker by ``noting(_:)``.
    public nonisolated func gate(for lane: SyncGate.Lane = .records) -> any Gate {
        EngineGate(engine: self, lane: lane)
    }

    /// Sends through another sender and tells the breaker what came of it.
    public nonisolated func noting(_ sender: any ChangeSender) -> any ChangeSender {
        NotingSender(engine: self, base: sender)
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
        guard let path else { return gate.lostPath() }
        if gate.noticed(path, at: moment) { trigger(.reconnected) }
        await gateChanged()
    }

    /// Whether the device is charging; `nil` where nobody knows.
    public func noticed(isCharging: Bool?) async {
        gate.noticed(isCharging: isCharging)
        await gateChanged()
    }

    /// Who waits for the gate asks it again.
    private func gateChanged() async {
        if isHeldByGate, gate.answer(.records, .routine, at: moment) == .open { trigger(.retry) }
        await queue.wake()
    }

    /// Follows the platform's word until the task is cancelled.
    func follow(_ connectivity: any Connectivity) async {
        for await path in connectivity.paths() { await noticed(path) }
        gate.lostPath()
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

/// The engine's gate as the queues see it.
private struct EngineGate: Gate {
    let engine: SyncEngine
    let lane: SyncGate.Lane

    func mayGo(_ urgency: Urgency) async -> GateAnswer { await engine.answer(lane, urgency) }
}

/// A sender whose failures and successes the breaker hears of.
private struct NotingSender: ChangeSender {
    let engine: SyncEngine
    let base: any ChangeSender

    func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
        do throws(ExchangeFailure) {
            let results = try await base.send(changes, deviceID: deviceID)
            await engine.noteSuccess()
            return results
        } catch {
            await engine.note(error)
            throw error
        }
    }

    func probe() async throws(ExchangeFailure) {
        do throws(ExchangeFailure) {
            try await base.probe()
            await engine.noteSuccess()
        } catch {
            await engine.note(error)
            throw error
        }
    }
}
