/// One request's wait for a renewal that another one began; given up when its task is cancelled.
final class RenewalWait: Sendable {
    private enum State: Sendable {
        case new
        case waiting(CheckedContinuation<Result<Bool, HTTPFailure>?, Never>)
        case over(Result<Bool, HTTPFailure>?)
    }

    private let state = Locked(State.new)

    /// Ends the wait, once: with what came of the renewal, or `nil` where that was cancelled.
    func end(_ outcome: Result<Bool, HTTPFailure>?) {
        let waiter = state.withLock { state -> CheckedContinuation<Result<Bool, HTTPFailure>?, Never>? in
            defer { if case .over = state {} else { state = .over(outcome) } }
            if case .waiting(let continuation) = state { return continuation }
            return nil
        }
        waiter?.resume(returning: outcome)
    }

    /// Waits; `nil` where it is to be looked at anew, or is not wanted any more.
    func outcome() async -> Result<Bool, HTTPFailure>? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let known = state.withLock { state -> Result<Bool, HTTPFailure>?? in
                    if case .over(let outcome) = state { return .some(outcome) }
                    state = .waiting(continuation)
                    return nil
                }
                if let known { continuation.resume(returning: known) }
            }
        } onCancel: {
            end(nil)
        }
    }
}
