import Logging
import Storage
import SyncCore

/// One cycle at a time: who may run the next, and whom it serves.
extension SyncEngine {
    /// A cycle that begins after this call: this call's own, or somebody else's that serves it.
    ///
    /// While one runs, all calls wait in a line; the first of them runs the next, for all that stand there when it begins.
    /// A call leaves the line when its task is cancelled, so nobody hangs on a cycle that is not his.
    /// - Parameters:
    ///   - cause: what is noted of why; by default what the schedule says, or the user's wish.
    ///   - isAtHome: the task runs on the store's thread already.
    func serialized(
        _ urgency: Urgency, cause: Scheduler.Trigger? = nil, isAtHome: Bool = false
    ) async -> CycleReport {
        if isCycling {
            let turn = Turn(urgency)
            line.append(turn)
            if urgency == .user { hurry.set() }
            switch await turn.wait() {
            case .served(let report): return report
            case .givenUp:
                line.removeAll { $0 === turn }
                return .givenUp
            case .lead: break
            }
        }
        isCycling = true
        if urgency == .routine { await keepDistance() }
        guard !Task.isCancelled else {
            passOn()
            return .givenUp
        }
        let isUsers = urgency == .user || isUserWaiting
        let served = line
        line = []
        let (urgency, cause) = (isUsers ? Urgency.user : .routine, cause ?? (isUsers ? .user : nil))
        // No step between engine, queue, store and request wakes another thread, where the store has one to share.
        let report =
            isAtHome
            ? await oneCycle(urgency, cause: cause)
            : await withTaskExecutorPreference(store.taskExecutor) { await oneCycle(urgency, cause: cause) }
        if report.end == .cancelled, Task.isCancelled {
            // It was this call's own end, and nobody else's: the others are next.
            line = served + line
        } else {
            for turn in served { turn.end(.served(report)) }
        }
        passOn(isPulled: report.isPulled)
        return report
    }

    /// Waits until this start is far enough from the last one; it serves all who stand in the line by then. The user's
    /// wish does not wait, nor does who waits beside it.
    private func keepDistance() async {
        while !Task.isCancelled, !isUserWaiting {
            let left = scheduler.distance(at: watch.milliseconds())
            guard left > 0 else { return }
            showRest()
            await wait(for: hurry, .milliseconds(left))
        }
    }

    /// The next cycle is the user's wish, or serves it.
    private var isUserWaiting: Bool { scheduler.isUserWaiting || line.contains { $0.urgency == .user } }

    private func showRest() { update { $0.activity = isPaused ? .paused : .idle } }

    /// The first in the line who still wants it runs the next cycle.
    /// - Parameter isPulled: a cycle ended just now, and asked for everything.
    private func passOn(isPulled: Bool = false) {
        while !line.isEmpty {
            if line.removeFirst().end(.lead) { return }
        }
        isCycling = false
        showRest()
        // A hint may have come since the cycle looked for the last time, on its way here from the store's thread.
        if isPulled { followHints() }
        // Who waits for the schedule looks at it again.
        wakeUp.set()
    }

    private func oneCycle(_ urgency: Urgency, cause: Scheduler.Trigger?) async -> CycleReport {
        let (began, wall) = (watch.milliseconds(), wallClock.nowMilliseconds)
        if cause == nil, urgency == .routine, let refused = await refusedRound(at: began) { return refused }
        let due = scheduler.started(at: began)
        hinted = 0
        let report = await cycle(
            // One that the schedule began, with somebody who waits for it.
            cause == nil && configuration.isWatched ? .user : urgency,
            Beginning(cause: cause ?? due, elapsed: began, wall: wall))
        if report.closing == nil { await showQueue() }
        let now = watch.milliseconds()
        let next = backoff.ended(
            report, queue: status.queue, began: wall, wall: wallClock.nowMilliseconds, chance: randomness.unit())
        // The jitter comes on top of the least distance between two starts, or half a fleet would wait for that.
        let earliest = max(now, began + configuration.intervals.minimumInterval)
        scheduler.ended(holdUntil: next.hold.map { earliest + $0 }, wakeAt: next.wake.map { now + $0 })
        let isInStep = await isInStep(report)
        update {
            $0.lastEnd = report.end
            if isInStep {
                $0.lastSyncedMilliseconds = max($0.lastSyncedMilliseconds ?? .min, wallClock.nowMilliseconds)
            }
        }
        tellEnd(report, cause ?? due, milliseconds: now - began)
        // One that could not ask is tried again in any case.
        if report.isPulled { followHints() }
        return report
    }
}

extension SyncEngine {
    /// Whether everything is in step: what a complete cycle leaves in the queue, or held, is not.
    private func isInStep(_ report: CycleReport) async -> Bool {
        guard report.end == .complete else { return false }
        do throws(StoreFailure) { return try await closing(of: report).isInStep } catch {
            logger.error("the queue was not counted", metadata: ["failure": "\(error.redacted)"])
            return false
        }
    }

    private func tellEnd(_ report: CycleReport, _ cause: Scheduler.Trigger, milliseconds: Int64) {
        metrics.ended(report, cause: cause, milliseconds: milliseconds)
        // One that was held back did nothing, and may be held back each period.
        logger.log(
            level: report.requests > 0 ? .info : .debug, "cycle ended",
            metadata: report.logged(cause, milliseconds: milliseconds))
        send(.cycleEnded(report))
    }

    /// When everything was last in step, if that was before this run of the program.
    func learnLastSynced() async {
        guard status.lastSyncedMilliseconds == nil else { return }
        do throws(StoreFailure) {
            // A cycle that could not tell says nothing of it; one before it may.
            var known = try await store.recentCycles(limit: 1).first?.lastSyncedMilliseconds
            if known == nil { known = try await store.recentCycles().compactMap(\.lastSyncedMilliseconds).max() }
            guard let synced = known else { return }
            update { $0.lastSyncedMilliseconds = max($0.lastSyncedMilliseconds ?? .min, synced) }
        } catch {
            logger.error("the last sync was not read", metadata: ["failure": "\(error.redacted)"])
        }
    }

    /// A cycle that could not begin says nothing of the queue; what waits is shown all the same.
    private func showQueue() async {
        do throws(StoreFailure) {
            let summary = try await store.summary()
            update { $0.queue = summary }
        } catch {
            logger.error("the queue was not counted", metadata: ["failure": "\(error.redacted)"])
        }
    }

    /// A cycle that ``trigger(_:)`` asked for in the background begins only if the budget has a round. One that does not begin
    /// is none: what else waits, or comes meanwhile, starts one at its own time.
    /// - Returns: why it does not begin; `nil` if it does.
    private func refusedRound(at now: Int64) async -> CycleReport? {
        guard scheduler.isForBackgroundAlone(at: now) else { return nil }
        var report = CycleReport()
        do throws(StoreFailure) {
            guard let until = try await countBackgroundRound() else { return nil }
            report.end = .notNow(untilMilliseconds: until, cause: "time in the background is used up for now")
        } catch {
            report.end = .store(error)
        }
        scheduler.forgetBackground()
        update { $0.lastEnd = report.end }
        tellEnd(report, .background, milliseconds: 0)
        return report
    }
}

/// When a cycle began, and why.
struct Beginning: Sendable {
    var cause: Scheduler.Trigger
    /// By the engine's monotonic clock.
    var elapsed: Int64
    var wall: Int64
}

extension CycleReport {
    /// What a call gets that was given up before its cycle began.
    static var givenUp: CycleReport {
        var report = CycleReport()
        report.end = .cancelled
        return report
    }
}
