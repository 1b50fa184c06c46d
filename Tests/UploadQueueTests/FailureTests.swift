import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

@Suite("Requests that fail as a whole")
struct FailureTests {
    @Test("NET-01 NET-24 a lost answer: the change goes again with the same key and content")
    func lostAnswer() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        let claim = try await fixture.batch()
        let take = try await fixture.fail(claim, .offline)
        #expect(take.waitsUntil == fixture.wall.nowMilliseconds + 1_000)
        #expect(try await fixture.queue.queued().map(\.state) == [.uncertain])
        fixture.advance(seconds: 1)
        let again = try await fixture.batch()
        #expect(again.changes.map(\.change) == claim.changes.map(\.change))
        #expect(again.changes.map(\.attempts) == [0])
    }

    @Test("QUE-19 a failure is always followed by a durable next time, for ever, and a restart keeps it")
    func rescheduled() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        for number in 0..<50 {
            let claim = try await fixture.batch()
            let until = try #require(try await fixture.fail(claim, .offline).waitsUntil)
            let delay = until - fixture.wall.nowMilliseconds
            #expect(delay == min(900_000, 1_000 << min(20, number)))
            #expect(try await fixture.log.summary().schedule.notBeforeMilliseconds == until)
            let other = await fixture.restarted()
            #expect(try await other.take(urgency: .routine).waitsUntil == until)
            fixture.advance(seconds: Double(delay) / 1_000)
        }
        #expect(try await fixture.queue.queued().map(\.attempts) == [0])
    }

    @Test("the user's wish goes past our own back-off, and only past that")
    func urgency() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        _ = try await fixture.fail(try await fixture.batch(), .http(503))
        #expect(try await fixture.queue.take(urgency: .routine).batch == nil)
        let claim = try await fixture.batch(.user)
        let take = try await fixture.queue.settle(claim, failure: .http(429, retryAfter: 7), urgency: .user)
        #expect(take.waitsUntil == fixture.wall.nowMilliseconds + 7_000)
        #expect(try await fixture.queue.take(urgency: .user).waitsUntil == fixture.wall.nowMilliseconds + 7_000)
        fixture.advance(seconds: 6.999)
        #expect(try await fixture.queue.take(urgency: .user).batch == nil)
        fixture.advance(seconds: 0.001)
        #expect(try await fixture.queue.take(urgency: .user).batch != nil)
    }

    @Test("what has just failed does not go again at once, whoever wishes it")
    func noHotLoop() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        for failure in [ExchangeFailure.offline, .http(500), .http(400), .timeout] {
            let claim = try await fixture.batch(.user)
            let take = try await fixture.queue.settle(claim, failure: failure, urgency: .user)
            #expect(take.batch == nil)
            try await fixture.queue.probed(succeeded: false)
        }
    }

    @Test("a pause that the server asks for with its answer holds for the next request")
    func backoff() async throws {
        let fixture = try Fixture(policy: UploadPolicy(limits: ClaimLimits(maxChanges: 1)))
        _ = await fixture.boards(2)
        let claim = try await fixture.batch()
        let take = try await fixture.queue.settle(
            claim, results: [ChangeResult(changeID: claim.ids[0], verdict: .done)], stamp: nil, backoffSeconds: 12,
            urgency: .user)
        #expect(take.waitsUntil == fixture.wall.nowMilliseconds + 12_000)
        #expect(take.summary.schedule.serverNotBeforeMilliseconds == take.waitsUntil)
    }

    @Test(
        "SCH-08 the wall clock jumps a year either way: the delay follows the monotonic clock",
        arguments: [-1, 1] as [Int64])
    func clockJump(_ direction: Int64) async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        _ = try await fixture.fail(try await fixture.batch(), .http(503, retryAfter: 60))
        fixture.wall.advance(milliseconds: direction * 365 * 86_400_000)
        fixture.advance(seconds: 59)
        #expect(try await fixture.queue.take(urgency: .user).batch == nil)
        fixture.advance(seconds: 1)
        #expect(try await fixture.queue.take(urgency: .routine).batch != nil)
    }

    @Test("QUE-15 413 halves down to one change, which is set aside; the size is remembered and grows again")
    func tooLarge() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(40)
        var take = try await fixture.queue.take(urgency: .routine)
        var sizes: [Int] = []
        while let claim = take.batch {
            sizes.append(claim.changes.count)
            // The server takes nothing with the tenth change in it, and no more than 16 at once.
            let isTooLarge = claim.changes.count > 16 || claim.ids.contains(ids[9])
            take =
                isTooLarge
                ? try await fixture.fail(claim, .http(413)) : try await fixture.settle(claim) { _ in .done }
        }
        #expect(sizes.prefix(4) == [40, 20, 10, 5])
        #expect(try await fixture.queue.failures().map(\.queued.change.id) == [ids[9]])
        #expect(try await fixture.queue.failures().map(\.reason.code) == ["tooLarge"])
        #expect(take.isNothing && !take.summary.hasWork)
        let limit = try #require(take.summary.schedule.batchLimit)
        #expect(limit < 16)
        let more = await fixture.boards(3)
        #expect(try await fixture.restarted().take(urgency: .routine).batch?.changes.count == min(3, limit))
        #expect(more.count == 3)
    }

    @Test(
        "Seed 450: what was sent before may have been done, whatever is too large now: it is tried again with its key")
    func tooLargeAfterSending() async throws {
        let fixture = try Fixture()
        let id = await fixture.board("a")
        _ = try await fixture.fail(try await fixture.batch(), .timeout)
        fixture.advance(seconds: 600)
        _ = try await fixture.fail(try await fixture.batch(), .http(413))
        let failure = try #require(try await fixture.queue.failures().first)
        #expect(failure.isUncertain && failure.reason.code == "tooLarge")
        #expect(try await fixture.queue.retry(id) == id)
        // Once it was only ever too large, it is known that nothing was done.
        let other = await fixture.board("b")
        var claim = try await fixture.batch()
        #expect(claim.ids == [id, other])
        claim = try #require(try await fixture.fail(claim, .http(413)).batch)
        #expect(claim.ids == [id])
        claim = try #require(try await fixture.settle(claim) { _ in .done }.batch)
        #expect(claim.ids == [other])
        _ = try await fixture.fail(claim, .http(413))
        #expect(try await fixture.queue.failures().map(\.isUncertain) == [false])
    }

    @Test(
        "IDS-10 in a restored copy the device before may have sent what is too large now: it is tried again with its key"
    )
    func tooLargeInACopy() async throws {
        let fixture = try Fixture()
        let id = await fixture.board("a")
        var claim = try await fixture.batch()
        claim.changes[0].change.deviceID = "restored-from"
        _ = try await fixture.fail(claim, .http(413))
        #expect(try await fixture.queue.failures().map(\.isUncertain) == [true])
        #expect(try await fixture.queue.retry(id) == id)
    }

    @Test("a unit that is too large cannot be halved: its members are set aside together")
    func unitTooLarge() async throws {
        let fixture = try Fixture()
        await fixture.log.write(
            [.init(.create, RecordKey("board", "a")), .init(.create, RecordKey("board", "b"))], isUnit: true)
        let take = try await fixture.fail(try await fixture.batch(), .http(413))
        #expect(take.summary.failed == 2 && take.isNothing)
    }

    @Test("an unknown 4xx for several halves at once, without blaming anybody")
    func unknown() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(8)
        var take = try await fixture.queue.take(urgency: .routine)
        var sizes: [Int] = []
        while let claim = take.batch, claim.changes.count > 1 {
            sizes.append(claim.changes.count)
            take = try await fixture.fail(claim, .http(400))
        }
        #expect(sizes == [8, 4, 2])
        #expect(take.ids == [ids[0]])
        #expect(try await fixture.queue.queued().allSatisfy { $0.attempts == 0 })
    }

    @Test(
        "5xx and time-outs halve a request with several changes only when they repeat three times",
        arguments: [ExchangeFailure.http(503), .http(500), .timeout])
    func repeated(_ failure: ExchangeFailure) async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(8)
        var sizes: [Int] = []
        for _ in 0..<5 {
            let claim = try await fixture.batch(.user)
            sizes.append(claim.changes.count)
            _ = try await fixture.fail(claim, failure)
        }
        #expect(sizes == [8, 8, 8, 4, 2])
    }

    @Test("a network that is down halves nothing and counts nothing, however long")
    func offline() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(8)
        for _ in 0..<30 {
            let claim = try await fixture.batch(.user)
            #expect(claim.changes.count == 8)
            _ = try await fixture.fail(claim, .offline)
        }
        #expect(try await fixture.queue.queued().allSatisfy { $0.attempts == 0 })
        #expect(try await fixture.log.summary().failed == 0)
    }

    @Test("SEC-02 refused credentials pause the queue and drop nothing; new ones go on where it stood")
    func credentials() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(10)
        let claim = try await fixture.batch()
        let take = try await fixture.fail(claim, .http(401))
        #expect(take.isWithoutCredentials)
        fixture.advance(seconds: 100_000)
        for urgency in [Urgency.routine, .user] {
            #expect(try await fixture.queue.take(urgency: urgency).isWithoutCredentials)
        }
        await fixture.board("late")
        #expect(try await fixture.restarted().take(urgency: .routine).isWithoutCredentials)
        try await fixture.queue.credentialsChanged()
        let again = try await fixture.batch()
        #expect(Array(again.ids.prefix(10)) == ids && again.ids.count == 11)
        #expect(try await fixture.settle(again) { _ in .done }.isNothing)
    }

    @Test("SEC-03 after a restart the user's wish tries the credentials once, and only once")
    func credentialsOnce() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        _ = try await fixture.fail(try await fixture.batch(), .http(401))
        let other = await fixture.restarted()
        let claim = try #require(try await other.take(urgency: .user).batch)
        #expect(try await other.settle(claim, failure: .http(401), urgency: .user).isWithoutCredentials)
        #expect(try await other.take(urgency: .user).isWithoutCredentials)
    }

    @Test("a pull that works ends a wait for the network or for credentials, and none that the server asked for")
    func inReach() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        _ = try await fixture.fail(try await fixture.batch(), .offline)
        try await fixture.queue.probed(succeeded: false)
        #expect(try await fixture.queue.take(urgency: .routine).batch == nil)
        try await fixture.queue.probed(succeeded: true)
        _ = try await fixture.fail(try await fixture.batch(), .http(401))
        try await fixture.queue.probed(succeeded: true)
        _ = try await fixture.fail(try await fixture.batch(), .http(503, retryAfter: 5))
        try await fixture.queue.probed(succeeded: true)
        #expect(try await fixture.queue.take(urgency: .user).batch == nil)
    }

    @Test("another history keeps everything, and comes back with a time")
    func history() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(2)
        let failure = ExchangeFailure(
            kind: .history, status: 409, code: "otherDataset", message: "another", reachedServer: true)
        let take = try await fixture.fail(try await fixture.batch(), failure)
        #expect(take.waitsUntil != nil && take.summary.inFlight == 2)
    }

    @Test("QUE-18 NET-05 a stop is no success and no failure: uncertain, not counted, nothing more claimed")
    func stopped() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(3)
        let claim = try await fixture.batch()
        let take = try await fixture.fail(claim, .stopped)
        #expect(take.isNothing)
        #expect(take.summary.inFlight == 3 && take.summary.schedule == QueueSchedule())
        #expect(try await fixture.queue.queued().map(\.state) == [.uncertain, .uncertain, .uncertain])
        #expect(try await fixture.batch().changes.map(\.change) == claim.changes.map(\.change))
    }

    @Test("QUE-18 a pause while a request is out: its verdict counts, and nothing more goes")
    func paused() async throws {
        let fixture = try Fixture(policy: UploadPolicy(limits: ClaimLimits(maxChanges: 1)))
        _ = await fixture.boards(2)
        let claim = try await fixture.batch()
        await fixture.queue.pause()
        let take = try await fixture.settle(claim) { _ in .done }
        #expect(take.isNothing && take.summary.pending == 1)
        #expect(try await fixture.queue.take(urgency: .user).isNothing)
        await fixture.queue.resume()
        #expect(try await fixture.batch().changes.count == 1)
    }

    @Test("NET-03 an answer to a request that was given up has no effect")
    func late() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(2)
        let old = try await fixture.batch()
        _ = try await fixture.fail(old, .offline)
        await fixture.board("new")
        let new = try await fixture.batch(.user)
        let take = try await fixture.settle(old) { _ in .refused() }
        #expect(take.batch == nil, "another claim is out")
        #expect(try await fixture.log.summary().failed == 0)
        #expect(try await fixture.settle(new) { _ in .done }.isNothing)
        #expect(new.ids.prefix(2) == ids[...])
        let twice = try await fixture.settle(new) { _ in .refused() }
        #expect(twice.summary.failed == 0)
    }

    @Test("PRC-06 the verdict cannot be recorded: sent again with the same key, never parked")
    func bookkeeping() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(2)
        let claim = try await fixture.batch()
        await fixture.log.failNext(StoreFailure(kind: .busy, message: "locked"))
        await #expect(throws: StoreFailure.self) { try await fixture.settle(claim) { _ in .done } }
        let again = try await fixture.batch()
        #expect(again.changes.map(\.change) == claim.changes.map(\.change))
        let take = try await fixture.settle(again) { _ in .done }
        #expect(take.isNothing && take.summary.failed == 0 && !take.summary.hasWork)
    }

    @Test("a server's pause binds even where it could not be recorded")
    func unrecordedPause() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        let claim = try await fixture.batch()
        await fixture.log.failNext(StoreFailure(kind: .full, message: "disk full"))
        await #expect(throws: StoreFailure.self) { () async throws in
            try await fixture.fail(claim, .http(503, retryAfter: 60))
        }
        #expect(try await fixture.queue.take(urgency: .user).batch == nil)
        fixture.advance(seconds: 60)
        #expect(try await fixture.queue.take(urgency: .routine).batch != nil)
    }
}
