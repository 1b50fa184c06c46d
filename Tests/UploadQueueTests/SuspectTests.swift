import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

@Suite("Who is to blame: PROTOCOL.md section 4, suspect")
struct SuspectTests {
    @Test(
        "QUE-06 a change that fails alone while probes work uses its attempts up, and is set aside uncertain",
        arguments: [ExchangeFailure.http(500), .http(503), .http(400), .timeout])
    func poison(_ failure: ExchangeFailure) async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(1)
        let claim = try await fixture.batch()
        var take = try await fixture.fail(claim, failure)
        var failures = 1
        while try await fixture.log.summary().failed == 0, failures < 100 {
            // An empty sync follows each failed push, and works.
            try await fixture.queue.probed(succeeded: true)
            take = try await fixture.queue.take(urgency: .user)
            guard let again = take.batch else { continue }
            #expect(again.changes.map(\.change) == claim.changes.map(\.change))
            take = try await fixture.fail(again, failure)
            failures += 1
            try await fixture.queue.probed(succeeded: true)
        }
        #expect(failures == 10)
        let failed = try await fixture.queue.failures()
        #expect(failed.map(\.reason.code) == ["tooManyAttempts"])
        #expect(failed.map(\.isUncertain) == [true])
        await fixture.board("next")
        let next = try await fixture.batch()
        #expect(next.settled < failed[0].queued.change.sequence, "settled stays below a suspect")
        #expect(try await fixture.queue.retry(ids[0]) == ids[0], "its key stays")
    }

    @Test("the third failure alone wants a probe before the change goes again; twice is not enough")
    func thirdTime() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        for number in 1...3 {
            let claim = try await fixture.batch(.user)
            _ = try await fixture.fail(claim, .http(500))
            #expect(try await fixture.queue.queued().map(\.attempts) == [0])
            if number < 3 { try await fixture.queue.probed(succeeded: true) }
        }
        #expect(try await fixture.queue.take(urgency: .user).batch == nil, "something else is asked first")
        try await fixture.queue.probed(succeeded: true)
        #expect(try await fixture.queue.queued().map(\.attempts) == [3])
        #expect(try await fixture.batch(.user).changes.map(\.attempts) == [3])
    }

    @Test("NET-18 a server that fails everything for hours blames no change, and all drain in order afterwards")
    func storm() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(50)
        for _ in 0..<200 {
            if let claim = try await fixture.queue.take(urgency: .user).batch {
                _ = try await fixture.fail(claim, .http(503))
            }
            try await fixture.queue.probed(succeeded: false)
        }
        #expect(try await fixture.queue.queued().allSatisfy { $0.attempts == 0 })
        #expect(try await fixture.log.summary().failed == 0)
        var sent: [String] = []
        var take = try await fixture.queue.take(urgency: .user)
        while let claim = take.batch {
            sent += claim.ids
            take = try await fixture.settle(claim) { _ in .done }
        }
        #expect(sent == ids)
    }

    @Test("a network failure in between breaks the row")
    func brokenRow() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        for failure in [ExchangeFailure.http(500), .http(500), .offline, .http(500), .http(500)] {
            _ = try await fixture.fail(try await fixture.batch(.user), failure)
        }
        try await fixture.queue.probed(succeeded: true)
        #expect(try await fixture.queue.queued().map(\.attempts) == [0])
    }

    @Test("429, 401 and a lost connection are never a change's own, however often")
    func neverCounted() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        for failure in [ExchangeFailure.http(429), .offline, .http(401)] {
            for _ in 0..<20 {
                guard let claim = try await fixture.queue.take(urgency: .user).batch else { continue }
                _ = try await fixture.fail(claim, failure)
                try await fixture.queue.probed(succeeded: true)
            }
        }
        #expect(try await fixture.queue.queued().map(\.attempts) == [0])
    }

    @Test("a probe that never comes holds nothing back for ever")
    func noProbe() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        for _ in 0..<3 { _ = try await fixture.fail(try await fixture.batch(.user), .http(500)) }
        var refusals = 0
        while try await fixture.queue.take(urgency: .user).batch == nil { refusals += 1 }
        #expect(refusals == Suspicion.mostRefusals)
    }

    @Test("a poisoned change in the middle of many is found, and all others go")
    func search() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(64)
        var requests = 0
        var acknowledged: Set<String> = []
        while try await fixture.log.summary().hasWork, requests < 1_000 {
            guard let claim = try await fixture.queue.take(urgency: .user).batch else {
                try await fixture.queue.probed(succeeded: true)
                continue
            }
            requests += 1
            if claim.ids.contains(ids[41]) {
                _ = try await fixture.fail(claim, .http(500))
                try await fixture.queue.probed(succeeded: true)
            } else {
                acknowledged.formUnion(claim.ids)
                let take = try await fixture.settle(claim) { _ in .done }
                if let next = take.batch { _ = try await fixture.fail(next, .stopped) }
            }
        }
        #expect(acknowledged == Set(ids).subtracting([ids[41]]))
        #expect(try await fixture.queue.failures().map(\.queued.change.id) == [ids[41]])
        #expect(requests < 60)
    }

    @Test("the members of a unit stand alone together, and are set aside together")
    func unit() async throws {
        let fixture = try Fixture()
        await fixture.log.write(
            [.init(.create, RecordKey("board", "a")), .init(.create, RecordKey("board", "b"))], isUnit: true)
        var rounds = 0
        while try await fixture.log.summary().failed == 0, rounds < 100 {
            rounds += 1
            if let claim = try await fixture.queue.take(urgency: .user).batch {
                #expect(claim.changes.count == 2)
                _ = try await fixture.fail(claim, .http(500))
            }
            try await fixture.queue.probed(succeeded: true)
        }
        #expect(rounds == 10)
        #expect(try await fixture.log.summary().failed == 2)
    }
}
