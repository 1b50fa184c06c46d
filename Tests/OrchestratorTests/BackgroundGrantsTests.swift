import SyncTesting
import Testing

@testable import Orchestrator

/// Rounds as the system gives them, between it and a listener that comes and goes.
@Suite struct BackgroundGrantsTests {
    /// What the system was told of its rounds.
    private final class Ends: @unchecked Sendable {
        // Sendable: used by the one thread that drives the executor.
        var all: [String] = []
    }

    /// Listens for two seconds, while a round may be given in the middle.
    private func listening(
        _ stage: Stage, _ grants: BackgroundGrants, _ body: @escaping @Sendable () async throws -> Void = {}
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { for await grant in grants.stream() { grant.finish(true) } }
            try await stage.pass(.seconds(1))
            try await body()
            try await stage.pass(.seconds(1))
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    @Test("A stream that ended with its task leaves the next one all rounds, one that came between them too")
    func again() throws {
        try inVirtualTime { stage in
            let (grants, ends) = (BackgroundGrants(), Ends())
            for round in 1...3 {
                try await listening(stage, grants) {
                    _ = grants.give(.seconds(20)) { ends.all.append("\($0)") }
                }
                #expect(ends.all.count == 2 * round - 1)
                _ = grants.give(.seconds(20)) { ends.all.append("\($0)") }
                try await stage.pass(.seconds(1))
                #expect(ends.all.count == 2 * round - 1)
                try await listening(stage, grants)
                #expect(ends.all.count == 2 * round)
            }
            #expect(ends.all == Array(repeating: "true", count: 6))
        }
    }

    @Test("A round that nobody took is told to be over when the system wants it back, or gives another")
    func forgotten() throws {
        try inVirtualTime { stage in
            let (grants, ends) = (BackgroundGrants(), Ends())
            let wantsBack = grants.give(.seconds(20)) { ends.all.append("1 \($0)") }
            wantsBack()
            #expect(ends.all == ["1 false"])
            let late = grants.give(.seconds(20)) { ends.all.append("2 \($0)") }
            _ = grants.give(.seconds(20)) { ends.all.append("3 \($0)") }
            #expect(ends.all == ["1 false", "2 false"])
            late()
            var rounds = grants.stream().makeAsyncIterator()
            let taken = try #require(await rounds.next())
            taken.finish(true)
            #expect(ends.all == ["1 false", "2 false", "3 true"])
        }
    }

    @Test("Who has taken a round hears that the system wants it back, and says itself that it is over")
    func expiry() throws {
        try inVirtualTime { _ in
            let (grants, ends) = (BackgroundGrants(), Ends())
            let wantsBack = grants.give(.seconds(20)) { ends.all.append("\($0)") }
            var rounds = grants.stream().makeAsyncIterator()
            let taken = try #require(await rounds.next())
            wantsBack()
            for await _ in taken.expiry { break }
            #expect(ends.all.isEmpty)
            taken.finish(false)
            #expect(ends.all == ["false"])
        }
    }
}
