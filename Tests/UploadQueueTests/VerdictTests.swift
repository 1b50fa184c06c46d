import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

@Suite("Verdicts, with a cycle that carries both ways")
struct VerdictTests {
    @Test("what is applied is gone, and the next batch is claimed with it")
    func applied() async throws {
        let fixture = try Fixture(policy: UploadPolicy(limits: ClaimLimits(maxChanges: 2)))
        let ids = await fixture.boards(5)
        var take = try await fixture.queue.take(urgency: .routine)
        var sent: [String] = []
        while let claim = take.batch {
            #expect(claim.changes.allSatisfy { $0.state == .uploading })
            sent += claim.ids
            take = try await fixture.settle(claim) { _ in .done }
        }
        #expect(sent == ids)
        #expect(take.isNothing && !take.summary.hasWork)
    }

    @Test("QUE-01 a refused change at the head is set aside, and everything else goes on")
    func poison() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(100)
        let claim = try await fixture.batch()
        let take = try await fixture.settle(claim) { $0.id == ids[0] ? .refused() : .done }
        #expect(take.isNothing)
        #expect(take.summary.failed == 1 && !take.summary.hasWork)
        #expect(try await fixture.queue.failures().map(\.reason.code) == ["invalid"])
    }

    @Test(
        "QUE-02 QUE-03 what needs a refused create waits for it, uses no attempts, and resumes in order after a retry")
    func cascade() async throws {
        let fixture = try Fixture()
        let a = await fixture.board("a")
        await fixture.log.write(
            .create, RecordKey("card", "c"),
            ["idBoard": FieldDelta(old: nil, new: "a"), "name": FieldDelta(old: nil, new: "x")])
        await fixture.rename("a", to: "A2")
        await fixture.log.write(.update, RecordKey("card", "c"), ["name": FieldDelta(old: "x", new: "y")])
        var events = fixture.queue.events().makeAsyncIterator()
        let claim = try await fixture.batch()
        let take = try await fixture.settle(claim) { change in
            change.id == a ? .refused() : .blocked(by: a)
        }
        #expect(take.isNothing && take.summary.blocked == 3)
        let waiting = try await fixture.queue.queued()
        #expect(waiting.allSatisfy { $0.blockedBy == a && $0.attempts == 0 && $0.state == .blocked })
        #expect(try await fixture.queue.dependants(of: a) == waiting.map(\.change.id))
        var told: Set<String> = []
        while told.count < 3, let event = await events.next() {
            if case .blocked(let id, let by) = event, by == a { told.insert(id) }
        }
        let key = try await fixture.queue.retry(a)
        let again = try await fixture.batch()
        #expect(again.ids.first == key && key != a)
        #expect(Array(again.ids.dropFirst()) == waiting.map(\.change.id))
    }

    @Test("a missing verdict means that the outcome is unknown: sent again, same key and content, not counted")
    func missing() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(2)
        let claim = try await fixture.batch()
        let take = try await fixture.queue.settle(
            claim, results: [ChangeResult(changeID: ids[1], verdict: .done)], stamp: nil, backoffSeconds: nil,
            urgency: .routine)
        let again = try #require(take.batch)
        #expect(again.changes.map(\.change) == [claim.changes[0].change])
        #expect(again.changes.map(\.attempts) == [0])
    }

    @Test("an answer without any verdict backs off instead of spinning")
    func noVerdicts() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(2)
        var delays: [Int64] = []
        for _ in 0..<4 {
            let claim = try await fixture.batch(.user)
            let take = try await fixture.queue.settle(
                claim, results: [], stamp: nil, backoffSeconds: nil, urgency: .user)
            delays.append(try #require(take.waitsUntil) - fixture.wall.nowMilliseconds)
        }
        #expect(delays == [1_000, 2_000, 4_000, 8_000])
    }

    @Test("a verdict about another change, or another record, has no effect")
    func foreignVerdicts() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        let claim = try await fixture.batch()
        let stranger = ServerRecord(key: RecordKey("board", "stranger"), version: 3)
        let take = try await fixture.queue.settle(
            claim,
            results: [
                ChangeResult(changeID: "stranger", verdict: .done),
                ChangeResult(changeID: claim.ids[0], verdict: .merged(record: stranger)),
            ], stamp: nil, backoffSeconds: nil, urgency: .routine)
        #expect(take.waitsUntil != nil)
        #expect(take.summary.inFlight == 1)
    }

    @Test("a retry verdict keeps the order, and its floor holds even for the user, after a restart too")
    func retryVerdict() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(3)
        let claim = try await fixture.batch()
        let take = try await fixture.settle(claim) { change in
            change.id == ids[0] ? .retry(afterSeconds: 30) : .blocked(by: ids[0])
        }
        #expect(take.waitsUntil == fixture.wall.nowMilliseconds + 30_000)
        #expect(take.summary.schedule.serverNotBeforeMilliseconds == nil, "pulls go on")
        #expect(try await fixture.queue.take(urgency: .user).batch == nil)
        #expect(try await fixture.restarted().take(urgency: .user).batch == nil)
        fixture.advance(seconds: 30)
        #expect(try await fixture.batch().ids == ids)
    }

    @Test("a conflict's successor is merged by the field's rule and takes the change's place")
    func conflict() async throws {
        let fixture = try Fixture()
        let record = RecordKey("board", "a")
        await fixture.log.write(.update, record, ["count": FieldDelta(old: 1, new: 4, rule: .sum)])
        let second = await fixture.board("b")
        let claim = try await fixture.batch()
        let take = try await fixture.settle(claim) { change in
            change.id == second
                ? .retry(afterSeconds: nil)
                : .conflict(record: ServerRecord(key: record, version: 9, fields: ["count": 10]))
        }
        #expect(take.batch == nil, "the retry is waited for")
        let again = try await fixture.batch(.user)
        #expect(again.changes.map(\.change.record) == [record, RecordKey("board", "b")])
        #expect(again.changes[0].change.fields["count"]?.old == 10)
        #expect(again.changes[0].change.fields["count"]?.new == 13)
        #expect(again.ids[0] != claim.ids[0])
    }

    @Test("from the fifth conflict in a row the successor goes without check, and after ten the change is set aside")
    func boundedConflicts() async throws {
        let fixture = try Fixture()
        let record = RecordKey("board", "a")
        await fixture.log.write(.update, record, ["name": FieldDelta(old: "0", new: "mine", rule: .check)])
        var take = try await fixture.queue.take(urgency: .routine)
        var rules: [MergeRule?] = []
        var version: Int64 = 1
        while let claim = take.batch {
            rules.append(claim.changes[0].change.fields["name"]?.rule)
            version += 1
            take = try await fixture.settle(claim) { _ in
                .conflict(record: ServerRecord(key: record, version: version, fields: ["name": .string("\(version)")]))
            }
        }
        #expect(rules == Array(repeating: .check, count: 5) + Array(repeating: .lastWriter, count: 6))
        #expect(try await fixture.queue.failures().map(\.reason.code) == ["conflict"])
    }

    @Test("a conflict over a record that already says the same ends the change; a delete's is sent on while it lives")
    func conflictWithoutSuccessor() async throws {
        let fixture = try Fixture()
        let (a, b) = (RecordKey("board", "a"), RecordKey("board", "b"))
        await fixture.log.write(.update, a, ["name": FieldDelta(old: "0", new: "mine", rule: .check)])
        await fixture.log.write(.delete, b)
        let claim = try await fixture.batch()
        let take = try await fixture.settle(claim) { change in
            .conflict(record: ServerRecord(key: change.record, version: 9, fields: ["name": "mine"]))
        }
        let next = try #require(take.batch)
        #expect(next.changes.map(\.change.record) == [b])
        #expect(next.changes.map(\.change.operation) == [.delete])
        let end = try await fixture.settle(next) { change in
            .conflict(record: ServerRecord(key: change.record, version: 10, presence: .deleted))
        }
        #expect(end.isNothing && !end.summary.hasWork)
    }

    @Test("an expired change is over, without a failure")
    func expired() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        let take = try await fixture.settle(try await fixture.batch()) { _ in .refused(.expired) }
        #expect(take.isNothing && take.summary.failed == 0)
    }

    @Test("DAT-09 a missing reference to a parent that was refused here makes the child wait, not fail")
    func missingReference() async throws {
        let fixture = try Fixture()
        let parent = await fixture.board("a")
        await fixture.log.write(.create, RecordKey("card", "c"), ["idBoard": FieldDelta(old: nil, new: "a")])
        let claim = try await fixture.batch()
        let take = try await fixture.settle(claim) { change in
            change.id == parent ? .refused(.forbidden) : .refused(.missingReference, reference: "a")
        }
        #expect(take.summary.failed == 1 && take.summary.blocked == 1)
        _ = try await fixture.queue.retry(parent)
        let again = try await fixture.batch()
        #expect(again.changes.map(\.change.record.entity) == ["board", "card"])
        #expect(!again.ids.contains { claim.ids.contains($0) }, "a refused key is never sent again")
    }

    @Test("a member of a unit that is refused takes the others with it, as the server says")
    func unit() async throws {
        let fixture = try Fixture()
        let changes = await fixture.log.write(
            [.init(.create, RecordKey("board", "a")), .init(.create, RecordKey("board", "b"))], isUnit: true)
        await fixture.board("c")
        let claim = try await fixture.batch()
        let take = try await fixture.settle(claim) { change in
            switch change.id {
            case changes[0].id: .refused()
            case changes[1].id: .refused(.transaction)
            default: .done
            }
        }
        #expect(take.summary.failed == 2 && !take.summary.hasWork)
    }

    @Test("a clamped stamp and an overwritten value are told, and kept")
    func told() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(1)
        var events = fixture.queue.events().makeAsyncIterator()
        let claim = try await fixture.batch()
        _ = try await fixture.queue.settle(
            claim,
            results: [
                ChangeResult(
                    changeID: ids[0], verdict: .applied(version: 4, overwrote: ["name": "theirs"], serverID: nil),
                    isClamped: true)
            ], stamp: nil, backoffSeconds: nil, urgency: .routine)
        var seen: [UploadEvent] = []
        while let event = await events.next() {
            seen.append(event)
            if case .overwrote = event { break }
        }
        #expect(
            seen == [
                .sent(ids), .clamped(ids[0]), .acknowledged(ids[0], version: 4),
                .overwrote(ids[0], ["name": "theirs"]),
            ])
        #expect(await fixture.log.journal().map(\.kind) == [.clamped, .overwrote])
    }
}
