import DownloadQueue
import SyncCore
import Testing

private actor ListLog: DownloadLog {
    private(set) var wishes: [DownloadRequest] = []
    private(set) var claimed: Set<String> = []

    func ask(_ request: DownloadRequest) async throws(StoreFailure) {
        if let index = wishes.firstIndex(where: { $0.scope == request.scope }) {
            wishes[index].priority = max(wishes[index].priority, request.priority)
        } else {
            wishes.append(request)
        }
    }
    func claim() async throws(StoreFailure) -> DownloadRequest? {
        let free = wishes.enumerated().filter { !claimed.contains($0.element.scope) }
        let first = free.min { ($1.element.priority, $0.offset) < ($0.element.priority, $1.offset) }
        if let first { claimed.insert(first.element.scope) }
        return first?.element
    }
    func finish(_ scope: String) async throws(StoreFailure) {
        wishes.removeAll { $0.scope == scope }
        claimed.remove(scope)
    }
    func withdraw(_ scope: String) async throws(StoreFailure) { claimed.remove(scope) }
}

private actor Fetcher: RecordFetcher {
    private(set) var fetched: [String] = []
    private var failing: Set<String>
    init(failing: Set<String> = []) { self.failing = failing }
    func fetch(_ request: DownloadRequest) async throws(ExchangeFailure) {
        if failing.remove(request.scope) != nil { throw ExchangeFailure(kind: .network, message: "no network") }
        fetched.append(request.scope)
    }
}

private struct Door: Gate {
    var answer = GateAnswer.open
    func mayGo(_ urgency: Urgency) async -> GateAnswer { answer }
}

@Suite struct DownloadQueueTests {
    @Test("The most urgent wish is fulfilled first, equals in the order asked, and a raised one overtakes")
    func order() async throws {
        let (log, fetcher) = (ListLog(), Fetcher())
        let queue = DownloadQueue(log: log, fetcher: fetcher, gate: Door())
        for (scope, priority) in [("a", 1), ("b", 5), ("c", 1), ("d", 0), ("d", 9)] {
            try await queue.ask(DownloadRequest(scope: scope, priority: priority))
        }
        #expect(try await queue.drain(.routine) == .empty)
        #expect(await fetcher.fetched == ["d", "b", "a", "c"])
    }

    @Test("A wish that failed is kept and fulfilled by the next try")
    func failure() async throws {
        let (log, fetcher) = (ListLog(), Fetcher(failing: ["a"]))
        let queue = DownloadQueue(log: log, fetcher: fetcher, gate: Door())
        try await queue.ask(DownloadRequest(scope: "a", priority: 1))
        guard case .failed = try await queue.drain(.routine) else {
            Issue.record("the first try must fail")
            return
        }
        #expect(await log.wishes.count == 1)
        #expect(try await queue.drain(.routine) == .empty)
        #expect(await fetcher.fetched == ["a"])
    }

    @Test("A closed gate keeps everything and says why")
    func gate() async throws {
        let (log, fetcher) = (ListLog(), Fetcher())
        let closed = GateAnswer.closed(untilMilliseconds: 7, cause: "metered")
        let queue = DownloadQueue(log: log, fetcher: fetcher, gate: Door(answer: closed))
        try await queue.ask(DownloadRequest(scope: "a", priority: 1))
        #expect(try await queue.drain(.routine) == .closed(untilMilliseconds: 7, cause: "metered"))
        #expect(await log.wishes.count == 1)
        #expect(await fetcher.fetched == [])
    }
}
