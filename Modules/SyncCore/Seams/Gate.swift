/// Whether a request may go now. Asked by both queues, given by the Orchestrator.
public protocol Gate: Sendable {
    /// The answer for this moment; asking has no effect.
    func mayGo(_ urgency: Urgency) async -> GateAnswer
}

/// Who wants a request to go.
public enum Urgency: Sendable, Hashable {
    /// The engine by itself.
    case routine
    /// The user: past our own back-off and breaker, never past the server's word.
    case user
}

/// A gate's answer.
public enum GateAnswer: Sendable, Hashable {
    case open
    /// Closed until this time (milliseconds since 1970), or until something happens; with the cause, in words.
    case closed(untilMilliseconds: Int64?, cause: String)
}
