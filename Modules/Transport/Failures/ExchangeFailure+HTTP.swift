import HTTPTypes
import SyncCore

extension ExchangeFailure {
    /// What a failure of the HTTP client, or of the steps around it, means to a queue.
    init(_ failure: HTTPFailure) {
        switch failure.kind {
        case .noConnection, .unusable, .local:
            self.init(kind: .network, message: CauseText.of(failure))
        case .timedOut:
            self.init(kind: .network, message: CauseText.of(failure), reachedServer: true)
        case .interrupted:
            self.init(kind: .network, message: CauseText.of(failure), reachedServer: true, isBrokenOff: true)
        case .secureConnection:
            self.init(kind: .network, message: CauseText.of(failure), isSecureConnectionFailure: true)
        case .authentication:
            self.init(kind: .authentication, message: CauseText.of(failure))
        case .cancelled, .closed:
            self.init(kind: .network, message: CauseText.of(failure), isCancelled: true)
        }
    }

    /// What an answer that is no success means to a queue; `nil` for a success.
    init?(
        _ answer: Answer, problem: Problem?, table: FailureTable, target: FailureTable.Target, nowMilliseconds: Int64
    ) {
        let kind = table.classify(
            status: answer.status, code: problem?.code, hasRecord: problem?.record != nil,
            isProved: problem?.isProof ?? false, on: target)
        guard let kind else { return nil }
        var came = problem?.code ?? "\(Redaction.beginning(of: answer.body))"
        if let detail = problem?.detail { came += " (\(Redaction.beginning(of: Array(detail.utf8))))" }
        self.init(
            kind: kind, status: answer.status, code: problem?.code,
            message: CauseText.of(kind, status: answer.status, came: came),
            retryAfterSeconds: ServerPause.retryAfter(answer.head.headerFields, nowMilliseconds: nowMilliseconds),
            backoffSeconds: ServerPause.backoff(answer.head.headerFields), reachedServer: kind != .network,
            epoch: problem?.epoch)
    }
}
