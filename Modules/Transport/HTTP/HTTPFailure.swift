/// Why an HTTP request brought no whole answer.
public struct HTTPFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// What happened, as far as it can be told.
    public enum Kind: Sendable, Hashable {
        /// No connection came about: no network, no such host, refused, too slow to connect.
        case noConnection
        /// A deadline passed after the server was reached.
        case timedOut
        /// TLS could not be set up, or the certificate was not believed.
        case secureConnection
        /// The connection broke, or the answer was shorter than announced.
        case interrupted
        /// An answer that cannot be taken: longer than the limit, badly compressed, redirected elsewhere.
        case unusable
        /// The credentials are missing, refused, or somebody else's.
        case authentication
        /// This side cannot go on: a full disk under a temporary file, credentials that could not be had just now.
        case local
        /// This side did not want any more.
        case cancelled
        /// The client was closed before.
        case closed
    }

    public var kind: Kind
    /// In words for people, without secrets.
    public var message: String

    public init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    public var description: String { "\(kind): \(message)" }
}
