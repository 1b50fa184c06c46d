import DownloadQueue
import SyncCore
import SyncTesting
import Testing

@Suite struct DownloadQueueTests {
    @Test("The most urgent wish is fulfilled first, equals in the order asked, and a raised one overtakes")
    func order() async throws {
        let (log, fetcher) = (InMemoryDownloadLog(), ScriptedFetcher())
        let queue = DownloadQueue(log: log, fetcher: fetcher, gate: GateSwitch())
        for (scope, priority) in [("a", 1), ("b", 5), ("c", 1), ("d", 0), ("d", 9)] {
            try await queue.ask(DownloadRequest(scope: scope, priority: priority))
        }
        #expect(try await queue.drain(.routine) == .empty)
        #expect(fetcher.requests.map(\.scope) == ["d", "b", "a", "c"])
    }

    @Test("A wish that failed is kept and fulfilled by the next try")
    func failure() async throws {
        let (log, fetcher) = (InMemoryDownloadLog(), ScriptedFetcher([.fail(.unreachable)]))
        let queue = DownloadQueue(log: log, fetcher: fetcher, gate: GateSwitch())
        try await queue.ask(DownloadRequest(scope: "a", priority: 1))
        guard case .failed = try await queue.drain(.routine) else {
            Issue.record("the first try must fail")
            return
        }
        #expect(try await queue.drain(.routine) == .empty)
        #expect(fetcher.requests.map(\.scope) == ["a", "a"])
        #expect(try await queue.drain(.routine) == .empty)
        #expect(fetcher.requests.count == 2, "it is fulfilled")
    }

    @Test("A closed gate keeps everything and says why")
    func gate() async throws {
        let (log, fetcher) = (InMemoryDownloadLog(), ScriptedFetcher())
        let closed = GateAnswer.closed(untilMilliseconds: 7, cause: "metered")
        let queue = DownloadQueue(log: log, fetcher: fetcher, gate: GateSwitch(closed))
        try await queue.ask(DownloadRequest(scope: "a", priority: 1))
        #expect(try await queue.drain(.routine) == .closed(untilMilliseconds: 7, cause: "metered"))
        #expect(fetcher.requests.isEmpty)
        #expect(try await log.claim()?.scope == "a", "it is kept")
    }
}
