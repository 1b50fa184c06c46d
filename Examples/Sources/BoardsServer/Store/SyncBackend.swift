internal import SyncServer

/// That something was committed, as event streams tell it.
struct Commit: Sendable, Equatable {
    var version: Int64
    var scopes: [String]
}

/// What the shell asks of the store behind it: whole requests in, whole answers out.
///
/// ``StoreBackend`` is the one that serves; tests put one in its place whose answers they hold back. An implementer
/// answers in the order of a serial store, blocks no thread of the shell, and throws only where the store cannot be
/// asked now (told as 503): what is wrong with a request is an answer, not an error.
protocol SyncBackend: Sendable {
    /// The answer, if it needs neither the disk nor a wait; else nil, and ``sync(account:body:)`` has it.
    func syncAtOnce(account: String, body: [UInt8]) -> ServerReply?
    func sync(account: String, body: [UInt8]) async throws -> ServerReply
    func rest(account: String, request: RESTRequest) async throws -> ServerReply
    func currentVersion(account: String) async throws -> Int64
    func checkHealth() async throws
    /// Forgets a bounded part of what is over.
    func prune() async throws
    /// The account's commits from this call on, until the store closes; the newest is kept for who is slow.
    func commits(account: String) -> any AsyncSequence<Commit, Never> & Sendable
}
