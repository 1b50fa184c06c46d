internal import NIOPosix
internal import SyncServer

/// The store on a thread of its own: SQLite waits for the disk there, one request after another, and the event loops
/// go on.
final class StoreBackend: SyncBackend {
    private let service: SyncService
    private let thread: NIOThreadPool

    /// Takes the service over; it is closed by ``close()``.
    init(service: SyncService) {
        self.service = service
        thread = NIOThreadPool(numberOfThreads: 1)
        thread.start()
    }

    func syncAtOnce(account: String, body: [UInt8]) -> ServerReply? {
        service.syncFromMemory(account: account, body: body)
    }

    func sync(account: String, body: [UInt8]) async throws -> ServerReply {
        try await thread.runIfActive { [service] in service.sync(account: account, body: body) }
    }

    func rest(account: String, request: RESTRequest) async throws -> ServerReply {
        try await thread.runIfActive { [service] in service.rest(account: account, request: request) }
    }

    func currentVersion(account: String) async throws -> Int64 {
        try await thread.runIfActive { [service] in try service.currentVersion(account: account) }
    }

    func checkHealth() async throws {
        try await thread.runIfActive { [service] in try service.checkHealth() }
    }

    func prune() async throws {
        try await thread.runIfActive { [service] in try service.prune() }
    }

    func commits(account: String) -> any AsyncSequence<Commit, Never> & Sendable {
        service.events(account: account).map { Commit(version: $0.version, scopes: $0.scopes) }
    }

    /// Ends the store, after what it was asked before; then the thread.
    func close() async throws {
        try await thread.runIfActive { [service] in try service.close() }
        try await thread.shutdownGracefully()
    }
}
