import Foundation
import SyncCore

/// The place of one call in the line for a cycle; given up when the call's task is cancelled, whoever is at work.
final class Turn: @unchecked Sendable {
    // Sendable: `outcome` and `waiter` are used under `lock` alone; the waiter is resumed outside it.

    /// What became of the wait.
    enum Outcome: Sendable {
        /// This call runs the next cycle.
        case lead
        /// Somebody else's cycle, which began after the call, served it.
        case served(CycleReport)
        /// Who asked does not want it any more.
        case givenUp
    }

    /// What the call wants.
    let urgency: Urgency
    private let lock = NSLock()
    private var outcome: Outcome?
    private var waiter: CheckedContinuation<Outcome, Never>?

    init(_ urgency: Urgency) { self.urgency = urgency }

    /// Ends the wait; `false` if it was over.
    @discardableResult
    func end(_ outcome: Outcome) -> Bool {
        let (isFirst, waiting) = lock.withLock { () -> (Bool, CheckedContinuation<Outcome, Never>?) in
            guard self.outcome == nil else { return (false, nil) }
            self.outcome = outcome
            defer { waiter = nil }
            return (true, waiter)
        }
        waiting?.resume(returning: outcome)
        return isFirst
    }

    /// Waits for the turn; once.
    func wait() async -> Outcome {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let known = lock.withLock { () -> Outcome? in
                    if outcome == nil { waiter = continuation }
                    return outcome
                }
                if let known { continuation.resume(returning: known) }
            }
        } onCancel: {
            end(.givenUp)
        }
    }
}
