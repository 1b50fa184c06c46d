internal import SyncServer

/// Why the server cannot be run; each is one sentence for whoever started it. None is cured by trying again at once.
public enum ServeFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The tokens file is not there, or is not ours to read.
    case unreadableTokens(path: String)
    /// The address is taken, or not this machine's.
    case cannotListen(host: String, port: Int, reason: String)
    /// The store refused; what it said.
    case store(String)
    /// The options contradict themselves.
    case badOptions(String)

    /// The sentence.
    public var description: String {
        switch self {
        case .unreadableTokens(let path): "The tokens file \(path) cannot be read."
        case .cannotListen(let host, let port, let reason): "Cannot listen on \(host):\(port): \(reason)."
        case .store(let reason): reason
        case .badOptions(let reason): reason
        }
    }
}

extension ServeFailure {
    /// What a store that did not open says, as one sentence.
    static func sentence(_ failure: ServiceFailure) -> String {
        let text = failure.description
        return text.prefix(1).uppercased() + text.dropFirst() + "."
    }
}
