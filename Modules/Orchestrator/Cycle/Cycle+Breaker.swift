import Logging
import SyncCore

/// What a request tells the circuit breaker.
extension SyncEngine {
    /// What trips it is a server that was reached and fails: 5xx, time-outs, resets. A 4xx is an answer of a server that
    /// works; no connection, a foreign answer and a cancellation tell nothing about it.
    /// - Parameter isBeside: it was another request than a cycle's, and not the breaker's probe.
    func note(_ failure: ExchangeFailure, isBeside: Bool = false) {
        logger.info("request failed", metadata: ["failure": "\(failure.redacted)"])
        let now = watch.milliseconds()
        gate.asked(
            pauseSeconds: max(failure.retryAfterSeconds ?? 0, failure.backoffSeconds ?? 0), cause: failure.description,
            at: moment)
        if failure.isCancelled || !failure.reachedServer {
            // The probe, if there is one, is still on its way.
            if !isBeside { gate.breaker.learnedNothing(nowMilliseconds: now) }
        } else if let status = failure.status, (400..<500).contains(status) {
            noteSuccess()
        } else if failure.kind == .temporary || failure.kind == .temporaryLonger || failure.kind == .network {
            let was = gate.breaker.state
            gate.breaker.failed(nowMilliseconds: now)
            guard case .open = gate.breaker.state, was != gate.breaker.state else { return }
            let left = gate.breaker.remaining(nowMilliseconds: now)
            gate.breakerCause = failure.description
            logger.warning(
                "the server is left alone", metadata: ["milliseconds": "\(left)", "cause": "\(failure.redacted)"])
            send(.breakerOpened(milliseconds: left, cause: failure.description))
        } else {
            noteSuccess()
        }
    }

    /// The server answered as it should, whatever its verdicts.
    func noteSuccess() {
        let was = gate.breaker.state
        gate.breaker.succeeded()
        guard was != .closed else { return }
        gate.breakerCause = nil
        send(.breakerClosed)
    }
}
