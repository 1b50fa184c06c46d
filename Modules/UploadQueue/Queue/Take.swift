public import SyncCore

/// What may go now, or why nothing goes.
public enum Take: Sendable, Hashable {
    /// These were marked as being sent: send them, then settle exactly this claim.
    case batch(Claim)
    /// Nothing may go until something happens: the queue is empty, all that is in it is blocked or set aside, it is
    /// paused, or another driver (`run`) is at work.
    case nothing(QueueSummary)
    /// Nothing goes before this time, milliseconds since 1970 by the device's clock; with the cause, in words.
    case wait(untilMilliseconds: Int64, cause: String, QueueSummary)
    /// The server refused the credentials; `credentialsChanged()` goes on.
    case needsCredentials(QueueSummary)

    /// What is in the queue.
    public var summary: QueueSummary {
        switch self {
        case .batch(let claim): claim.summary
        case .nothing(let summary), .wait(_, _, let summary), .needsCredentials(let summary): summary
        }
    }
}
