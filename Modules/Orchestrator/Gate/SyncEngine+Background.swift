import Logging
import Storage
public import SyncCore

/// What came of a round in the background.
public enum BackgroundRound: Sendable, Hashable {
    /// One cycle ran.
    case ran(CycleReport)
    /// The rounds of this window are used up; the next may begin then, milliseconds since 1970. No request was made.
    case tooSoon(untilMilliseconds: Int64)
}

/// Rounds in the background: counted durably, so that neither a restart nor a killed round makes one more.
extension SyncEngine {
    /// One round in the background, if the budget has one: a cycle that ends before the deadline in a clean state.
    ///
    /// It counts from its beginning: one that is killed has been one.
    public func backgroundRound(deadline: Duration) async throws(StoreFailure) -> BackgroundRound {
        if let until = try await countBackgroundRound() { return .tooSoon(untilMilliseconds: until) }
        return .ran(await runOnce(deadline: deadline))
    }

    /// When the next round in the background may begin, milliseconds since 1970.
    public func nextBackgroundRound() async throws(StoreFailure) -> Int64 {
        let now = wallClock.nowMilliseconds
        return configuration.background.next(after: try await store.backgroundRounds(noLaterThan: now), now: now)
    }

    /// Notes that a round begins. One for which the gate is closed makes no request, and is none.
    /// - Returns: the time before which none may; then nothing was noted.
    func countBackgroundRound() async throws(StoreFailure) -> Int64? {
        guard case .open = await knownAnswer(.records, .routine) else { return nil }
        while true {
            let now = wallClock.nowMilliseconds
            let rounds = try await store.backgroundRounds(noLaterThan: now)
            let next = configuration.background.next(after: rounds, now: now)
            guard next <= now else { return next }
            // Another call, or another process, may have begun one meanwhile: then it is looked at anew.
            let isNoted = try await store.noteBackgroundRound(
                atMilliseconds: now, after: rounds, keeping: configuration.background.most)
            if isNoted { return nil }
        }
    }

    /// Takes the rounds that the system gives, and asks for the next, until the task is cancelled.
    func serve(_ background: any BackgroundTime) async {
        await ask(background)
        for await grant in background.grants() {
            grant.finish(await isUsed(grant))
            await ask(background)
        }
    }

    private func ask(_ background: any BackgroundTime) async {
        do throws(StoreFailure) {
            await background.ask(notBeforeMilliseconds: try await nextBackgroundRound())
        } catch {
            logger.error("background time was not asked for", metadata: ["failure": "\(error.redacted)"])
        }
    }

    /// Uses one round, until its time is over or the system wants it back.
    private func isUsed(_ grant: BackgroundGrant) async -> Bool {
        await withTaskGroup(of: Bool?.self) { group in
            group.addTask {
                do throws(StoreFailure) {
                    guard case .ran(let report) = try await self.backgroundRound(deadline: grant.limit) else {
                        return true
                    }
                    return report.end == .complete
                } catch {
                    self.logger.error("a background round failed", metadata: ["failure": "\(error.redacted)"])
                    return false
                }
            }
            group.addTask {
                for await _ in grant.expiry { break }
                return nil
            }
            var isDone: Bool?
            for await ended in group {
                isDone = isDone ?? ended
                group.cancelAll()
            }
            return isDone ?? false
        }
    }
}
