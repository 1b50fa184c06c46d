import Foundation

/// Wakes the one task that waits for it; set while nobody waits, the next wait returns at once.
///
/// Unlike a stream it survives the cancellation of who waits: a later run waits on the same one.
final class Signal: @unchecked Sendable {
    // Sendable: `isSet` and `waiter` are used under `lock` alone; the waiter is resumed outside it.
    private let lock = NSLock()
    private var isSet = false
    private var waiter: CheckedContinuation<Void, Never>?

    func set() {
        let waiting = lock.withLock { () -> CheckedContinuation<Void, Never>? in
            defer { waiter = nil }
            isSet = waiter == nil
            return waiter
        }
        waiting?.resume()
    }

    /// What was set before is forgotten.
    func clear() { lock.withLock { isSet = false } }

    /// Waits until it is set, or the task is cancelled; one task at a time.
    func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = lock.withLock { () -> Bool in
                    // Cancelled before there was anybody to resume: the handler has run already, or finds the waiter.
                    if isSet || Task.isCancelled {
                        isSet = false
                        return true
                    }
                    waiter = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            let waiting = lock.withLock { () -> CheckedContinuation<Void, Never>? in
                defer { waiter = nil }
                return waiter
            }
            waiting?.resume()
        }
    }
}
