internal import SyncServer

/// What the shell asks of the store behind it: whole requests in, whole answers out.
///
/// ``StoreBackend`` is the one that serves; tests put one in its place whose answers they hold back. An implementer
/// answers in the order of a serial store, blocks no thread of the shell, and throws only where the store cannot be
/// asked now (told as 503): what is wrong with a request is an answer, not an error.
protocol SyncBackend: Sendable {
    func sync(account: String, body: [UInt8]) async throws -> ServerReply
    func rest(account: String, request: RESTRequest) async throws -> ServerReply
    func currentVersion(account: String) async throws -> Int64
}
