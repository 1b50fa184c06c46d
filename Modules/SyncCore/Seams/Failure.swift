/// What kind of trouble an answer, or its absence, is (PROTOCOL.md, section 4).
public enum FailureClass: String, Sendable, Hashable, CaseIterable {
    /// No proof that the server was reached: wait and try again; counted against nothing.
    case network
    /// The server cannot now: back off.
    case temporary
    /// The server failed inside (500): back off from a longer base.
    case temporaryLonger
    /// 401: ask once for new credentials, then pause and say so.
    case authentication
    /// The record has moved on: apply the field's rule, send a successor.
    case conflict
    /// Halve the batch; a single change that is too large is set aside.
    case tooLarge
    /// This change will never work as it is: set it aside, go on.
    case permanent
    /// Another history: 409 `otherDataset`, 410 (section 1).
    case history
    /// Blames none: halve until one change stands alone.
    case unknown
}

/// A request that brought no answer that may have any effect: what was expected, what came, what to do now.
///
/// Thrown by ``Exchange`` and ``ChangeSender``; sorting goes by `kind` and never by the texts.
public struct ExchangeFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// What kind of trouble it is.
    public var kind: FailureClass
    /// The HTTP status, where there was an answer.
    public var status: Int?
    /// The problem's `code`, where the answer was one of the contract's problems.
    public var code: String?
    /// What was expected and what came, in words for people; secrets and contents removed.
    public var message: String
    /// A floor under the next attempt that the server asked for, in seconds (0 to 86,400).
    public var retryAfterSeconds: Double?
    /// A pause that the server asked for after this answer (`Backoff`), in seconds.
    public var backoffSeconds: Double?
    /// Whether a server was reached that spoke: what a circuit breaker counts (5xx, time-outs and resets of a reached one).
    public var reachedServer: Bool
    /// Certificates could not be verified: shown to the user as such.
    public var isSecureConnectionFailure: Bool
    /// The server's present epoch, told with `epochChanged`.
    public var epoch: String?
    /// The record that came with a 409 or 412 for one change.
    public var record: ServerRecord?
    /// The request was cancelled by this side (a stop, a deadline of `runOnce`); no judgement about anybody.
    public var isCancelled: Bool
    /// The connection broke while the request was out, or the answer ended before its end: no fault of any change, however often
    /// it happens. A time-out is none of this.
    public var isBrokenOff: Bool

    public init(
        kind: FailureClass, status: Int? = nil, code: String? = nil, message: String,
        retryAfterSeconds: Double? = nil, backoffSeconds: Double? = nil, reachedServer: Bool = false,
        isSecureConnectionFailure: Bool = false, epoch: String? = nil, record: ServerRecord? = nil,
        isCancelled: Bool = false, isBrokenOff: Bool = false
    ) {
        self.kind = kind
        self.status = status
        self.code = code
        self.message = message
        self.retryAfterSeconds = retryAfterSeconds
        self.backoffSeconds = backoffSeconds
        self.reachedServer = reachedServer
        self.isSecureConnectionFailure = isSecureConnectionFailure
        self.epoch = epoch
        self.record = record
        self.isCancelled = isCancelled
        self.isBrokenOff = isBrokenOff
    }

    public var description: String {
        var text = "\(kind.rawValue)"
        if let status { text += " \(status)" }
        if let code { text += " \(code)" }
        return "\(text): \(message)"
    }
}
