/// What an app does with changes by hand: look, cancel, retry, discard.
///
/// Asked for by UploadQueue, given by Storage; one call is one transaction.
public protocol ChangeRepair: Sendable {
    /// Everything queued, in flight or blocked, in the queue's order.
    func queued() async throws(StoreFailure) -> [QueuedChange]
    /// Everything set aside, oldest first.
    func failures() async throws(StoreFailure) -> [FailedChange]
    /// The changes that would go with this one: what is under its record, where it is that one's create, and the members of its
    /// unit. What merely refers to the record is none of it; where the implementer has rows, nor is what has moved away since.
    func dependants(of changeID: String) async throws(StoreFailure) -> [String]
    /// Puts a successor of a failed change in its place (or the change itself, where it is uncertain), and frees what it blocked.
    /// - Returns: the key of what is in the queue now.
    func retry(_ changeID: String) async throws(StoreFailure) -> String
    /// Gives a failed change up, with what needs it; the record goes back to base and what remains.
    /// - Returns: the keys of all that was discarded.
    func discard(_ changeID: String) async throws(StoreFailure) -> [String]
    /// Takes a change back: never-sent ones at once with what needs them, uncertain ones by an inverse.
    func cancel(_ changeID: String) async throws(StoreFailure) -> CancelOutcome
}

/// A change that was set aside, with its reason and payload.
public struct FailedChange: Sendable, Hashable {
    public var queued: QueuedChange
    public var reason: SetAsideReason
    /// When it was set aside, milliseconds since 1970.
    public var failedAtMilliseconds: Int64
    /// Whether it never got a verdict: trying again keeps its key.
    public var isUncertain: Bool

    public init(queued: QueuedChange, reason: SetAsideReason, failedAtMilliseconds: Int64, isUncertain: Bool) {
        self.queued = queued
        self.reason = reason
        self.failedAtMilliseconds = failedAtMilliseconds
        self.isUncertain = isUncertain
    }
}

/// What cancelling came to.
public enum CancelOutcome: Sendable, Hashable {
    /// Taken back before it was ever sent, with these that needed it.
    case cancelled([String])
    /// It was sent and has no verdict: this inverse change goes after it.
    case inverse(String)
    /// It is on its way now: its fate is the server's.
    case tooLate
}
