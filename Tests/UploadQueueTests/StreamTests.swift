import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

@Suite("Streams and repair", .timeLimit(.minutes(20)))
struct StreamTests {
    @Test("QUE-04 too late while in flight; an uncertain create becomes a delete behind it")
    func cancelInFlight() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(1)
        let claim = try await fixture.batch()
        #expect(try await fixture.queue.cancel(ids[0]) == .tooLate)
        _ = try await fixture.fail(claim, .offline)
        guard case .inverse(let key) = try await fixture.queue.cancel(ids[0]) else {
            Issue.record("no inverse")
            return
        }
        #expect(try await fixture.batch(.user).ids == [ids[0], key])
    }

    @Test("QUE-05 a create that was never sent is cancelled with what needs it")
    func cancelWithChildren() async throws {
        let fixture = try Fixture()
        let parent = await fixture.board("a")
        await fixture.log.write(.create, RecordKey("card", "c"), ["idBoard": FieldDelta(old: nil, new: "a")])
        let keys = try await fixture.queue.queued().map(\.change.id)
        #expect(try await fixture.queue.cancel(parent) == .cancelled(keys))
        #expect(try await fixture.queue.take(urgency: .routine).isNothing)
    }

    @Test("QUE-03 all failures are retried together, in their places")
    func retryAll() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(3)
        _ = try await fixture.settle(try await fixture.batch()) { _ in .refused() }
        let keys = try await fixture.queue.retryAll()
        let claim = try await fixture.batch()
        #expect(claim.ids == keys)
        #expect(claim.changes.map(\.change.record.id) == ["b0", "b1", "b2"])
    }

    @Test("QUE-22 an old change is still queued, and goes")
    func noExpiry() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(1)
        fixture.advance(seconds: 60 * 86_400)
        #expect(try await fixture.batch().ids == ids)
    }

    @Test("QUE-09 QUE-10 what was sent goes again as it was; only what was never sent is merged")
    func merging() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        let first = try await fixture.batch()
        _ = try await fixture.fail(first, .offline)
        await fixture.rename("b0", to: "one")
        await fixture.rename("b0", to: "two")
        let again = try await fixture.batch(.user)
        #expect(again.changes.count == 2)
        #expect(again.changes[0].change == first.changes[0].change)
        #expect(again.changes[1].change.fields["name"]?.new == "two")
    }

    @Test("counts begin with the newest known, for every listener")
    func counts() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(3)
        let claim = try await fixture.batch()
        for _ in 0..<2 {
            var counts = fixture.queue.counts().makeAsyncIterator()
            let now = try #require(await counts.next())
            #expect(now.inFlight == 3 && now.waiting == 0 && now.oldestAgeMilliseconds == 0)
        }
        _ = try await fixture.settle(claim) { $0.id == claim.ids[0] ? .refused() : .done }
        var counts = fixture.queue.counts().makeAsyncIterator()
        #expect(await counts.next() == UploadCounts(failed: 1))
    }

    @Test("NET-20 progress is never reversed, and its stream ends with the drain")
    func progress() async throws {
        let fixture = try Fixture(policy: UploadPolicy(limits: ClaimLimits(maxChanges: 2)))
        _ = await fixture.boards(10)
        var steps: [UploadProgress] = []
        var take = try await fixture.queue.take(urgency: .routine)
        var stream = fixture.queue.progress().makeAsyncIterator()
        var round = 0
        while let claim = take.batch {
            round += 1
            if round == 3 { await fixture.boards(4).forEach { _ in } }
            if round.isMultiple(of: 2) {
                _ = try await fixture.fail(claim, .offline)
                take = try await fixture.queue.take(urgency: .user)
            } else {
                take = try await fixture.settle(claim) { _ in .done }
            }
            if let step = await stream.next() { steps.append(step) }
        }
        while let step = await stream.next() { steps.append(step) }
        for (a, b) in zip(steps, steps.dropFirst()) {
            #expect(b.done >= a.done && b.total >= a.total && b.fraction >= a.fraction)
        }
        #expect(steps.last?.done == steps.last?.total && steps.last?.fraction == 1)
    }

    @Test("OBS-10 a listener that never reads holds nothing up")
    func deadListener() async throws {
        let fixture = try Fixture(policy: UploadPolicy(limits: ClaimLimits(maxChanges: 1)))
        let unread = (fixture.queue.events(), fixture.queue.counts(), fixture.queue.progress())
        _ = await fixture.boards(3_000)
        var take = try await fixture.queue.take(urgency: .routine)
        while let claim = take.batch { take = try await fixture.settle(claim) { _ in .done } }
        #expect(!take.summary.hasWork)
        var events = 0
        for await _ in unread.0 {
            events += 1
            if events == 1_024 { break }
        }
        #expect(events == 1_024)
    }

    @Test("PRC-24 calls from everywhere at once take turns: each change is acknowledged once")
    func reentrancy() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(50)
        let acknowledged = Acknowledged()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<200 {
                group.addTask {
                    do {
                        if number.isMultiple(of: 7) { await fixture.queue.pause() }
                        if number.isMultiple(of: 5) { await fixture.queue.resume() }
                        if number.isMultiple(of: 11) { try await fixture.queue.probed(succeeded: true) }
                        guard let claim = try await fixture.queue.take(urgency: .user).batch else { return }
                        let take = try await fixture.settle(claim) { _ in .done }
                        if let next = take.batch { _ = try await fixture.fail(next, .stopped) }
                        await acknowledged.add(1)
                    } catch {
                        Issue.record(error)
                    }
                }
            }
        }
        await fixture.queue.resume()
        var take = try await fixture.queue.take(urgency: .user)
        while let claim = take.batch { take = try await fixture.settle(claim) { _ in .done } }
        #expect(!take.summary.hasWork && take.summary.failed == 0)
        #expect(await fixture.log.bases().count == ids.count)
    }
}

/// A number that several tasks add to.
actor Acknowledged {
    private(set) var count = 0
    func add(_ more: Int) { count += more }
}
