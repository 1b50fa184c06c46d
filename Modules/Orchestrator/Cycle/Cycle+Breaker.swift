import Logging
import SyncCore

/// What a request tells the circuit breaker.
extension SyncEngine {
    /// What trips it is a server that was reached and fails: 5xx, time-outs, resets. A 4xx is an answer of a server that
    /// works; no connection, a foreign answer and a cancellation tell nothing about it.
    /// - Parameter probe: the mark of the breaker's probe, if the request, or its cycle, left as that: only the probe decides.
    func note(_ failure: ExchangeFailure, probe: CircuitBreaker.State?) async {
        logger.info("request failed", metadata: ["failure": "\(failure.redacted)"])
        let now = watch.milliseconds()
        let isProbe = gate.isProbe(probe)
        gate.asked(
            pauseSeconds: max(failure.retryAfterSeconds ?? 0, failure.backoffSeconds ?? 0), cause: failure.description,
            at: moment)
        if failure.isCancelled || !failure.reachedServer {
            guard isProbe else { return }
            gate.breaker.learnedNothing(nowMilliseconds: now)
            // Who met the gate while it was on its way waits for the time at which it would have been forgotten.
            await gateChanged()
        } else if let status = failure.status, (400..<500).contains(status) {
            await noteSuccess()
        } else if failure.kind == .temporary || failure.kind == .temporaryLonger || failure.kind == .network {
            let was = gate.breaker.state
            gate.breaker.failed(nowMilliseconds: now, isProbe: isProbe)
            guard case .open = gate.breaker.state, was != gate.breaker.state else { return }
            let left = gate.breaker.remaining(nowMilliseconds: now)
            gate.breakerCause = failure.description
            logger.warning(
                "the server is left alone", metadata: ["milliseconds": "\(left)", "cause": "\(failure.redacted)"])
            send(.breakerOpened(milliseconds: left, cause: failure.description))
        } else {
            await noteSuccess()
        }
    }

    /// The server answered as it should, whatever its verdicts. What waits for the end of a cool-down goes on.
    func noteSuccess() async {
        let was = gate.breaker.state
        gate.breaker.succeeded()
        guard was != .closed else { return }
        gate.breakerCause = nil
        send(.breakerClosed)
        await gateChanged()
    }
}
