import GRDB
@testable import Storage
import SyncCore
import SyncTesting
import Testing

/// Two or three things that a queue does, which nobody had put together.
@Suite("Found by reading: combinations in the queue")
struct FoundByReadingTests {
    // MARK: A delete that comes to nothing, and the create behind it

    @Test("A record made anew says all of it when its delete is refused, also where a page told of other values since")
    func madeAnewOverPage() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let sent = try await f.claim()
        try f.sql("INSERT INTO card (id, name, idList, pos, desc) VALUES ('c1', 'Card', 'l1', 1, 'mine')")
        try await f.settle((sent.keys[0], .unanswered))
        try await f.apply(
            record("card", "c1", 9, ["name": "Server", "idList": "l1", "pos": 1.0, "votes": 1, "desc": "text"]))
        #expect(try f.card("name") == "Card")
        try await f.settle((sent.keys[0], .refused("forbidden")))
        #expect(try f.card("name") == "Card")
        #expect(try f.card("desc") == "mine")
        let next = try await f.claim()
        try #require(next.told == ["update card c1"])
        #expect(next.changes[0].change.fields["name"] == FieldDelta(old: "Server", new: "Card"))
    }

    @Test("A record made anew, whose delete is taken back, stays a create where somebody else has deleted it")
    func madeAnewOverTombstone() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.sql("INSERT INTO card (id, name, idList, pos, votes, desc) VALUES ('c1', 'Card', 'l1', 1, 1, 'text')")
        try await f.apply(record("card", "c1", 9, [:], .deleted))
        let keys = try f.changes().map(\.id)
        _ = try await f.store.cancel(keys[0])
        #expect(try f.card("name") == "Card")
        #expect(try await f.claim().told == ["create card c1"])
    }

    @Test("A create that was set aside stays one when the delete before it is refused: the row is what a restart says")
    func refusedCreateBehindRefusedDelete() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let delete = try await f.claim()
        try await f.settle((delete.keys[0], .unanswered))
        try f.insertCard("c1", name: "anew")
        let both = try await f.claim()
        try #require(both.told == ["delete card c1", "create card c1"])
        try await f.settle((both.keys[0], .unanswered), (both.keys[1], .refused("idTaken")))
        try await f.settle((both.keys[0], .refused("forbidden")))
        let failures = try await f.store.failures()
        #expect(failures.map(\.queued.change.operation) == [.delete, .create])
        #expect(try f.card("name") == "anew")
        // A page says nothing new of it.
        try await f.apply(record("card", "c1", 9, ["name": "Card", "idList": "l1", "pos": 1.0, "votes": 1]))
        #expect(try f.card("name") == "anew")
        _ = try await f.store.discard(both.keys[1])
        #expect(try f.card("name") == "Card")
    }

    @Test("A record made anew after its delete was refused, and is kept away, changes the one that the server has")
    func madeAnewAfterKeptDelete() async throws {
        let f = try Fixture(boardSchema(refusal: .keep))
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let delete = try await f.claim()
        try await f.settle((delete.keys[0], .refused("forbidden")))
        try f.insertCard("c1", name: "anew")
        let next = try await f.claim()
        #expect(next.told == ["update card c1"])
        #expect(try f.card("name") == "anew")
    }

    // MARK: What is refused, and shown on

    @Test(
        "An edit of a checked field over a refused value that is shown on is checked against what the server has",
        arguments: [false, true])
    func checkedOverKept(isUnit: Bool) async throws {
        let f = try Fixture(boardSchema(refusal: .keep))
        try await f.applyBoard()
        try f.sql("UPDATE card SET desc = 'refused' WHERE id = 'c1'")
        let first = try await f.claim()
        try await f.settle((first.keys[0], .refused()))
        try await f.store.write(unit: isUnit) { db in
            try db.execute(sql: "UPDATE card SET desc = 'later', votes = votes + 1 WHERE id = 'c1'")
        }
        let next = try await f.claim()
        #expect(next.changes.map { $0.change.fields["desc"] } == [FieldDelta(old: "text", new: "later", rule: .check)])
        #expect(try f.card("desc") == "later")
        #expect(try f.card("votes") == "2")
        _ = try await f.store.discard(first.keys[0])
        #expect(try f.card("desc") == "later")
    }

    /// A card was made, and edited in a unit with its list; all of it is refused, and shown on.
    private func refusedWithUnit() async throws -> (f: Fixture, keys: [String]) {
        let f = try Fixture(boardSchema(refusal: .keep))
        let keys = try await f.refuseCardWithUnit(edited: "desc = 'in'")
        #expect(try f.card("desc", "n") == "in")
        return (f, keys)
    }

    @Test("A refused create is given up: no refused edit that is shown on makes a row of what is left")
    func discardedUnderKept() async throws {
        let (f, keys) = try await refusedWithUnit()
        _ = try await f.store.discard(keys[0])
        #expect(try !f.hasCard("n"))
        #expect(try f.int("SELECT count(*) FROM sync_record WHERE id = 'n'") == 0)
        #expect(try await f.store.position().held == 0)
        // The values are in the failure still.
        #expect(try await f.store.failures().map(\.queued.change.id) == Array(keys[1...]))
        _ = try await f.store.discard(keys[1])
        #expect(try await f.store.failures().isEmpty)
        #expect(try !f.hasCard("n"))
    }

    @Test("A delete that ends its create's refusal ends it for refused edits that are shown on, too")
    func deletedUnderKept() async throws {
        let (f, _) = try await refusedWithUnit()
        try f.sql("DELETE FROM card WHERE id = 'n'")
        #expect(try await f.claim().told == [])
        #expect(try !f.hasCard("n"))
        #expect(try await f.store.position().held == 0)
    }

    // MARK: Inverses

    @Test("QUE-04 a sum that was sent and taken back, and is refused then, leaves nothing to take back")
    func refusedAfterInverse() async throws {
        for fails in ["votes = votes + 5", "labels = '[\"x\"]'"] {
            let f = try Fixture()
            try await f.applyBoard()
            try f.sql("UPDATE card SET \(fails) WHERE id = 'c1'")
            let sent = try await f.claim()
            try await f.settle((sent.keys[0], .unanswered))
            guard case .inverse = try await f.store.cancel(sent.keys[0]) else { return #expect(Bool(false), "sent") }
            #expect(try f.card("votes") == "1")
            let again = try await f.claim()
            #expect(again.keys.first == sent.keys[0])
            for key in again.keys.dropFirst() { try await f.settle((key, .unanswered)) }
            try f.sql("UPDATE card SET votes = votes + 1 WHERE id = 'c1'")
            try await f.settle((sent.keys[0], .refused()))
            #expect(try f.card("votes") == "2")
            let next = try await f.claim()
            #expect(next.told == ["update card c1"])
            #expect(next.changes.map { $0.change.fields["votes"] } == [FieldDelta(old: 1, new: 2, rule: .sum)])
            try await f.settle((next.keys[0], .applied(9)))
            #expect(try await f.store.queued().isEmpty)
        }
    }

    @Test("QUE-04 a sum that was sent and taken back, and is done, is taken back after it")
    func doneBeforeInverse() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = votes + 5 WHERE id = 'c1'")
        let sent = try await f.claim()
        try await f.settle((sent.keys[0], .unanswered))
        guard case .inverse(let key) = try await f.store.cancel(sent.keys[0]) else {
            return #expect(Bool(false), "sent")
        }
        try f.sql("UPDATE card SET votes = votes + 1 WHERE id = 'c1'")
        #expect(try f.card("votes") == "2")
        let again = try await f.claim()
        try await f.settle((sent.keys[0], .applied(9)))
        let next = try await f.claim()
        #expect((again.keys + next.keys).contains(key))
        try await f.drain()
        #expect(try f.card("votes") == "2")
    }

    @Test("QUE-04 a journal that is pruned while a verdict is out still tells what is an inverse")
    func prunedMeanwhile() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = votes + 5 WHERE id = 'c1'")
        let sent = try await f.claim()
        try await f.settle((sent.keys[0], .unanswered))
        guard case .inverse = try await f.store.cancel(sent.keys[0]) else { return #expect(Bool(false), "sent") }
        try await f.store.prune(events: 0)
        let again = try await f.claim()
        #expect(again.keys == sent.keys)
        try await f.settle((sent.keys[0], .refused()))
        #expect(try f.card("votes") == "1")
        #expect(try await f.claim().told == [])
        #expect(try await f.store.queued().isEmpty)
        try await f.store.prune(events: 0)
        #expect(try await f.store.events().isEmpty)
    }

    @Test("QUE-04 two sums are taken back, and refused one after the other: neither inverse goes")
    func refusedInTurn() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = votes + 5 WHERE id = 'c1'")
        try f.sql("UPDATE card SET votes = votes + 3 WHERE id = 'c1'")
        let sent = try await f.claim()
        try #require(sent.told == ["update card c1", "update card c1"])
        try await f.settle((sent.keys[0], .unanswered), (sent.keys[1], .unanswered))
        for key in sent.keys { _ = try await f.store.cancel(key) }
        #expect(try f.card("votes") == "1")
        let again = try await f.claim()
        #expect(again.keys == sent.keys)
        try await f.settle((sent.keys[0], .refused()), (sent.keys[1], .unanswered))
        #expect(try f.card("votes") == "1")
        let last = try await f.claim()
        #expect(last.keys == [sent.keys[1]])
        try await f.settle((sent.keys[1], .refused()))
        #expect(try f.card("votes") == "1")
        #expect(try await f.store.queued().isEmpty)
    }

    @Test("QUE-04 a sum that met a conflict is given up before it goes again: its inverse goes with it")
    func givenUpAfterConflict() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = votes + 5, desc = 'mine' WHERE id = 'c1'")
        let sent = try await f.claim()
        try await f.settle((sent.keys[0], .unanswered))
        _ = try await f.store.cancel(sent.keys[0])
        _ = try await f.claim()
        let theirs = record("card", "c1", 12, ["name": "Card", "idList": "l1", "desc": "theirs", "votes": 1])
        let left = ["votes": FieldDelta(old: 1, new: 6, rule: .sum)]
        try await f.settle((sent.keys[0], .conflict(theirs, successor: left)))
        let next = try #require(try await f.store.queued().first { $0.state != .blocked })
        _ = try await f.store.cancel(next.change.id)
        #expect(try await f.store.queued().isEmpty)
        #expect(try f.card("votes") == "1")
    }

    @Test("QUE-04 a sum that is taken back, and then refused where that is shown on, does not show again")
    func keptAfterInverse() async throws {
        let f = try Fixture(boardSchema(refusal: .keep))
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = votes + 5 WHERE id = 'c1'")
        let sent = try await f.claim()
        try await f.settle((sent.keys[0], .unanswered))
        _ = try await f.store.cancel(sent.keys[0])
        _ = try await f.claim()
        try await f.settle((sent.keys[0], .refused()))
        #expect(try f.card("votes") == "1")
        #expect(try await f.store.queued().isEmpty)
    }

    @Test("QUE-04 a sum that is taken back twice is taken back once")
    func takenBackTwice() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = votes + 5 WHERE id = 'c1'")
        let sent = try await f.claim()
        try await f.settle((sent.keys[0], .unanswered))
        let first = try await f.store.cancel(sent.keys[0])
        #expect(try await f.store.cancel(sent.keys[0]) == first)
        #expect(try f.card("votes") == "1")
        try await f.drain()
        #expect(try f.card("votes") == "1")
    }

    // MARK: Conflicts

    @Test("An edit behind one that the server's record made needless goes from what the record says")
    func needlessBeforeEdit() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET desc = 'mine' WHERE id = 'c1'")
        let sent = try await f.claim()
        try f.sql("UPDATE card SET desc = 'later', votes = votes + 2 WHERE id = 'c1'")
        // Done once, and nobody heard of it: a server without keys says so.
        let theirs = record("card", "c1", 9, ["name": "Card", "idList": "l1", "pos": 1.0, "votes": 7, "desc": "mine"])
        try await f.settle((sent.keys[0], .conflict(theirs, successor: nil)))
        #expect(try f.card("desc") == "later")
        #expect(try f.card("votes") == "9")
        let next = try await f.claim()
        #expect(
            next.changes.map { $0.change.fields["desc"] } == [FieldDelta(old: "mine", new: "later", rule: .check)])
    }

    // MARK: The clock

    /// A card is made and then edited, by a clock that is 30 s fast; both are one create by now, which was sent where `sends`.
    private func mergedByFastClock(sends: Bool) async throws -> (f: Fixture, wall: ManualWallClock) {
        let wall = ManualWallClock()
        let f = try Fixture(wall: wall)
        try await f.applyBoard()
        try await f.store.write { db in
            try db.execute(sql: "INSERT INTO card (id, name, idList) VALUES ('n', 'A', 'l1')")
        }
        wall.advance(milliseconds: 60_000)
        try await f.store.write { db in try db.execute(sql: "UPDATE card SET name = 'B' WHERE id = 'n'") }
        let claim = try await f.claim()
        try #require(claim.told == ["create card n"])
        try #require(claim.changes[0].change.fields["name"]?.stamp != nil)
        if sends {
            try await f.settle((claim.keys[0], .unanswered))
        } else {
            try await f.store.putBack(claim)
        }
        return (f, wall)
    }

    @Test("DAT-04 an edit after the clock was set stays above the field of a merged create that was sent")
    func editAfterMergedCreate() async throws {
        for isBefore in [true, false] {
            let (f, wall) = try await mergedByFastClock(sends: true)
            wall.advance(milliseconds: 1_000)
            let edit = { try await f.store.write { try $0.execute(sql: "UPDATE card SET name = 'C' WHERE id = 'n'") } }
            if isBefore { try await edit() }
            try await f.store.setClockOffset(milliseconds: -30_000)
            if !isBefore { try await edit() }
            let changes = try f.changes()
            let stamp = try #require(changes[0].fields["name"]?.stamp)
            #expect(changes[1].stamp > stamp, "written before: \(isBefore)")
        }
    }

    @Test("DAT-04 a merged create that was put back moves with the stamps of its fields")
    func mergedCreateMoves() async throws {
        let (f, wall) = try await mergedByFastClock(sends: false)
        let before = try f.changes()[0]
        try await f.store.setClockOffset(milliseconds: -30_000)
        let after = try f.changes()[0]
        #expect(after.stamp.milliseconds == before.stamp.milliseconds - 30_000)
        let (old, new) = (try #require(before.fields["name"]?.stamp), try #require(after.fields["name"]?.stamp))
        #expect(new.milliseconds == old.milliseconds - 30_000)
        wall.advance(milliseconds: 1_000)
        try await f.store.write { try $0.execute(sql: "UPDATE card SET name = 'C' WHERE id = 'n'") }
        #expect(try f.changes()[1].stamp > new)
        #expect(try f.changes()[1].stamp.milliseconds == UInt64(wall.nowMilliseconds - 30_000))
    }
}
