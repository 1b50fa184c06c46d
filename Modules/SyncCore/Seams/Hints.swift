/// Where the server says that something is new (PROTOCOL.md, section 3).
///
/// Asked for by the Orchestrator, given by Transport. A hint only says that asking is worth while: an implementer may lose
/// or repeat any, and judges nothing. It never repeats a call by itself; when to listen again is the engine's to say.
/// Fake it with a closure that calls `heard` when a test wants it.
public protocol HintSource: Sendable {
    /// Listens until the stream ends, and tells what comes.
    ///
    /// - Parameters:
    ///   - version: the newest version that is known here; a server that has a newer one says so at once.
    ///   - heard: called for each event in turn; ``HintEvent/opened`` comes first, when the server has taken the request.
    /// - Throws: ``ExchangeFailure`` where there was no stream, or it broke; on cancellation too, with `isCancelled`.
    func listen(
        after version: Int64?, _ heard: @escaping @Sendable (HintEvent) async -> Void
    ) async throws(ExchangeFailure)
}

/// What a stream of hints brings.
public enum HintEvent: Sendable, Hashable {
    /// The server has begun to answer.
    case opened
    /// Something is new.
    case hint(Hint)
}

/// That something is new on the server.
public struct Hint: Sendable, Hashable {
    /// The server's newest version; `nil` where it did not say.
    public var currentSyncVersion: Int64?
    /// The roots that it is about (`board:8f2e…`); empty where that is not said.
    public var scopes: [String]

    public init(currentSyncVersion: Int64? = nil, scopes: [String] = []) {
        self.currentSyncVersion = currentSyncVersion
        self.scopes = scopes
    }
}
