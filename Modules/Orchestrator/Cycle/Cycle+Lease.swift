import Logging
import Storage
import SyncCore

/// Who is at work keeps the lease, whatever takes so long: a request, or a handler of the app's (PRC-11, decision 461).
extension SyncEngine {
    /// Prolongs the lease each time that half of it is over, until the task is cancelled.
    ///
    /// By the monotonic clock: a process that is suspended prolongs nothing, and another one may take over meanwhile. What a
    /// request of the first brings then applies no page, and its verdicts count.
    nonisolated func keepLease() async {
        guard configuration.leaseSeconds > 0 else { return }
        let pause = Duration.seconds(min(configuration.leaseSeconds, 3_540) / 2)
        while await rested(pause) {
            do throws(StoreFailure) { try await store.prolongLease() } catch {
                // It stands for the other half, and is tried again then.
                logger.error("the lease was not prolonged", metadata: ["failure": "\(error.redacted)"])
            }
        }
    }

    /// Waits so long, nearly always in vain: a cycle is short, and arms no clock of the system's for this.
    /// - Returns: `false` if the task was cancelled before the time was over.
    private nonisolated func rested(_ pause: Duration) async -> Bool {
        guard let deadlines else { return await slept(pause) }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await deadlines.limit(pause) { await Signal().wait() } }
            await group.waitForAll()
        }
        return !Task.isCancelled
    }
}
