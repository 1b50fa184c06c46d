internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOPosix
internal import SyncServer

/// The store on a thread of its own: SQLite waits for the disk there, one request after another, and the event loops
/// go on. Accounts take turns there; syncs that wait while it works are done together, in one commit.
final class StoreBackend: SyncBackend {
    private enum Waiting: Sendable {
        /// May be done together with others.
        case sync(SyncCall, CheckedContinuation<ServerReply, any Error>)
        /// Has the thread for itself; answers its caller, also where the thread has ended.
        case other(@Sendable (NIOThreadPool.WorkItemState) -> Void)
    }

    /// How many requests one commit takes at most, and how many bytes of them: nobody waits long for others.
    private static let mostTogether = 64
    private static let mostBytesTogether = 64 * 1_024

    private let service: SyncService
    private let thread: NIOThreadPool
    /// Brings the database's log into the file while requests go on.
    private let keeper: NIOThreadPool
    /// Reads pages before they are asked for, and packs them, while nobody waits for the store.
    private let reader: NIOThreadPool
    /// Not yet taken by the thread.
    private let waiting = NIOLockedValueBox(Turns<Waiting>())

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

    /// How many wait for a turn.
    var waitingCount: Int { waiting.withLockedValue(\.count) }

    private func enter(_ next: Waiting, of account: String?) {
        waiting.withLockedValue { $0.append(next, of: account) }
        // One call for each that waits; whoever finds nothing had its request done with another's.
        thread.submit { [self] state in
            switch state {
            case .active: work()
            case .cancelled: refuse()
            }
        }
    }

    /// One turn: whatever else it is that comes first, or syncs, of each account in its turn.
    private func work() {
        let taken = waiting.withLockedValue { waiting -> [(lane: String?, waiting: Waiting)] in
            var taken: [(lane: String?, waiting: Waiting)] = []
            var bytes = 0
            while taken.count < Self.mostTogether, let next = waiting.first {
                guard case .sync(let call, _) = next else {
                    if taken.isEmpty, let other = waiting.removeFirst() { taken.append(other) }
                    break
                }
                guard taken.isEmpty || bytes + call.body.count <= Self.mostBytesTogether else { break }
                bytes += call.body.count
                if let sync = waiting.removeFirst() { taken.append(sync) }
            }
            return taken
        }
        if case .other(let work)? = taken.first?.waiting { return work(.active) }
        guard !taken.isEmpty else { return }
        sync(taken)
    }

    private func sync(_ taken: [(lane: String?, waiting: Waiting)]) {
        var calls: [SyncCall] = []
        var answers: [CheckedContinuation<ServerReply, any Error>] = []
        for case (_, .sync(let call, let answer)) in taken {
            calls.append(call)
            answers.append(answer)
        }
        let replies = service.syncFirst(of: calls)
        // Whoever is put back is taken by one of the calls of those that are answered here.
        if replies.count < taken.count { waiting.withLockedValue { $0.putBack(Array(taken[replies.count...])) } }
        for (answer, reply) in zip(answers, replies) { answer.resume(returning: reply) }
        readAhead()
        service.tidy()
        if service.isLogLong { keeper.submit { [service] state in if case .active = state { service.bringLogIn() } } }
    }

    /// The thread has ended.
    private func refuse() {
        for waiting in waiting.withLockedValue({ $0.removeAll() }) {
            switch waiting {
            case .sync(_, let answer): answer.resume(throwing: NIOThreadPoolError.ThreadPoolInactive())
            case .other(let work): work(.cancelled)
            }
        }
    }

    func sync(account: String, body: [UInt8]) async throws -> ServerReply {
        try await withCheckedThrowingContinuation { answer in
            enter(.sync(SyncCall(account: account, body: body), answer), of: account)
        }
    }

    /// Something else than a sync, when its account has its turn.
    private func take<Result: Sendable>(
        turnOf account: String?, _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { answer in
            enter(
                .other { state in
                    guard case .active = state else {
                        return answer.resume(throwing: NIOThreadPoolError.ThreadPoolInactive())
                    }
                    answer.resume(with: Swift.Result(catching: work))
                }, of: account)
        }
    }

    func rest(account: String, request: RESTRequest) async throws -> ServerReply {
        try await take(turnOf: account) { [service] in service.rest(account: account, request: request) }
    }

    func currentVersion(account: String) async throws -> Int64 {
        try await take(turnOf: account) { [service] in try service.currentVersion(account: account) }
    }

    func checkHealth() async throws {
        try await take(turnOf: nil) { [service] in try service.checkHealth() }
    }

    func prune() async throws {
        try await take(turnOf: nil) { [service] in try service.prune() }
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
