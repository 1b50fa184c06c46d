internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOPosix
internal import SyncServer

/// The store on a thread of its own: SQLite waits for the disk there, one request after another, and the event loops
/// go on. Syncs that wait while it works are done together, in one commit.
final class StoreBackend: SyncBackend {
    private typealias Waiting = (call: SyncCall, answer: CheckedContinuation<ServerReply, any Error>)

    /// How many requests one commit takes at most, and how many bytes of them: nobody waits long for others.
    private static let mostTogether = 64
    private static let mostBytesTogether = 64 * 1_024

    private let service: SyncService
    private let thread: NIOThreadPool
    /// Brings the database's log into the file while requests go on.
    private let keeper: NIOThreadPool
    /// Reads pages before they are asked for, and packs them, while nobody waits for the store.
    private let reader: NIOThreadPool
    /// Not yet taken by the thread, in the order in which they came.
    private let waiting = NIOLockedValueBox(CircularBuffer<Waiting>())

    /// Takes the service over; it is closed by ``close()``.
    init(service: SyncService) {
        self.service = service
        thread = NIOThreadPool(numberOfThreads: 1)
        thread.start()
        keeper = NIOThreadPool(numberOfThreads: 1)
        keeper.start()
        reader = NIOThreadPool(numberOfThreads: 1)
        reader.start()
    }

    func syncAtOnce(account: String, body: [UInt8]) -> ServerReply? {
        let reply = service.syncFromMemory(account: account, body: body)
        if reply?.tail != nil { readAhead() }
        return reply
    }

    /// Has the next pages read of who was told that there is more.
    private func readAhead() {
        guard service.expectsNextPage else { return }
        reader.submit { [self] state in
            guard case .active = state else { return }
            while waiting.withLockedValue(\.isEmpty), service.readAhead(packing: Gzip.packedTail) {}
        }
    }

    func sync(account: String, body: [UInt8]) async throws -> ServerReply {
        try await withCheckedThrowingContinuation { answer in
            waiting.withLockedValue { $0.append((SyncCall(account: account, body: body), answer)) }
            // One call for each that waits; whoever finds nothing had its request done with another's.
            thread.submit { [self] state in
                switch state {
                case .active: work()
                case .cancelled: refuse()
                }
            }
        }
    }

    private func work() {
        let taken = waiting.withLockedValue { waiting -> [Waiting] in
            var taken: [Waiting] = []
            var bytes = 0
            while let next = waiting.first, taken.count < Self.mostTogether,
                taken.isEmpty || bytes + next.call.body.count <= Self.mostBytesTogether
            {
                bytes += next.call.body.count
                taken.append(waiting.removeFirst())
            }
            return taken
        }
        guard !taken.isEmpty else { return }
        for (waiting, reply) in zip(taken, service.sync(taken.map(\.call))) { waiting.answer.resume(returning: reply) }
        readAhead()
        service.tidy()
        if service.isLogLong { keeper.submit { [service] state in if case .active = state { service.bringLogIn() } } }
    }

    /// The thread has ended.
    private func refuse() {
        let all = waiting.withLockedValue { waiting -> [Waiting] in
            defer { waiting.removeAll() }
            return Array(waiting)
        }
        for waiting in all { waiting.answer.resume(throwing: NIOThreadPoolError.ThreadPoolInactive()) }
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
        try await reader.shutdownGracefully()
        try await keeper.shutdownGracefully()
    }
}
