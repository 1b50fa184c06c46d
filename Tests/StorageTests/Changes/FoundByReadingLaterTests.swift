import GRDB
@testable import Storage
import SyncCore
import Testing

/// More that a queue does when two rules meet.
@Suite("Found by reading, later: where two rules of the queue meet")
struct FoundByReadingLaterTests {
    @Test("QUE-02 a refused edit that is shown on, and goes again with its mended create, is told as gone into that")
    func keptIntoCreate() async throws {
        let f = try Fixture(boardSchema(refusal: .keep))
        try await f.applyBoard()
        try f.insertCard("n")
        try f.sql("UPDATE card SET desc = 'in' WHERE id = 'n'")
        let sent = try await f.claim(ClaimLimits(merges: false))
        try #require(sent.told == ["create card n", "update card n"])
        try await f.settle((sent.keys[0], .refused()), (sent.keys[1], .refused()))
        #expect(try f.card("desc", "n") == "in")
        try f.sql("UPDATE card SET name = 'B' WHERE id = 'n'")
        let claim = try await f.claim()
        try #require(claim.told == ["create card n"])
        #expect(claim.changes[0].change.fields["desc"]?.new == "in")
        #expect(try await f.store.failures().isEmpty)
        let mended = try f.rows("SELECT key, detail FROM sync_event WHERE kind = 'mended' ORDER BY rowid")
        #expect(Set(mended.map { $0["detail"] as String }) == Set(sent.keys))
        #expect(mended.allSatisfy { $0["key"] == claim.keys[0] })
    }

    @Test("An edit without a verdict that was set aside keeps its key, whatever is written over its refused create")
    func unsureIntoCreate() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        try f.sql("UPDATE card SET desc = 'in' WHERE id = 'n'")
        let sent = try await f.claim(ClaimLimits(merges: false))
        let reason = SetAsideReason(code: "tooManyAttempts", message: "no")
        try await f.settle((sent.keys[0], .refused()), (sent.keys[1], .setAside(reason, staysUncertain: true)))
        try f.sql("UPDATE card SET name = 'B' WHERE id = 'n'")
        #expect(try await f.claim().told == [])
        #expect(try await f.store.failures().map(\.queued.change.id) == sent.keys)
        #expect(try await f.store.queued().map(\.blockedBy) == [sent.keys[0]])
    }

    @Test("QUE-04 taking an edit back that a refused one was made over goes back past that")
    func takenBackUnderKept() async throws {
        let f = try Fixture(boardSchema(refusal: .keep))
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'first' WHERE id = 'c1'")
        try f.sql("UPDATE card SET name = 'refused' WHERE id = 'c1'")
        let sent = try await f.claim(ClaimLimits(merges: false))
        try #require(sent.keys.count == 2)
        try await f.settle((sent.keys[0], .unanswered), (sent.keys[1], .refused()))
        #expect(try f.card("name") == "refused")
        guard case .inverse(let key) = try await f.store.cancel(sent.keys[0]) else {
            return #expect(Bool(false), "too late")
        }
        let claim = try await f.claim()
        #expect(claim.keys == [sent.keys[0], key])
        #expect(claim.changes.last?.change.fields == ["name": FieldDelta(old: "first", new: "Card")])
        try await f.drain()
        #expect(try f.card("name") == "Card")
        #expect(try await f.store.failures().map(\.queued.change.id) == [sent.keys[1]])
    }

    // MARK: A delete that was decided, nobody knows how

    @Test("IDS-10 a record made anew as it was stays, whatever became of the delete before it that nobody knows of")
    func madeAnewOverExpired() async throws {
        for isDead in [true, false] {
            let f = try Fixture()
            try await f.applyBoard()
            try f.sql("DELETE FROM card WHERE id = 'c1'")
            let sent = try await f.claim()
            try await f.settle((sent.keys[0], .unanswered))
            try f.sql("INSERT INTO card (id, name, idList, pos, votes, desc) VALUES ('c1', 'Card', 'l1', 1, 1, 'text')")
            try await f.settle((sent.keys[0], .refused("expired")))
            #expect(try f.card("name") == "Card")
            if isDead {
                try await f.apply(record("card", "c1", 9, [:], .deleted))
            } else {
                try await f.apply(
                    record("card", "c1", 9, ["name": "Card", "idList": "l1", "pos": 1.0, "votes": 1, "desc": "text"]))
            }
            #expect(try f.card("name") == "Card")
            let claim = try await f.claim()
            try #require(claim.told == ["update card c1"])
            #expect(claim.changes[0].change.fields["name"]?.new == "Card")
            #expect(claim.changes[0].change.fields["desc"]?.new == "text")
            try await f.settle((claim.keys[0], .applied(10)))
            #expect(try f.card("name") == "Card")
        }
    }

    // MARK: Inverses

    @Test("QUE-04 a sum that was taken back, and is given up with the list that it names, leaves nothing to take back")
    func givenUpWithList() async throws {
        let f = try await Fixture.twoLists()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'New', 'b1')")
        try f.sql("UPDATE card SET idList = 'n', votes = votes + 5 WHERE id = 'c1'")
        let sent = try await f.claim()
        try #require(sent.told == ["create list n", "update card c1"])
        try await f.settle((sent.keys[0], .refused("forbidden")), (sent.keys[1], .unanswered))
        guard case .inverse = try await f.store.cancel(sent.keys[1]) else { return #expect(Bool(false), "sent") }
        #expect(try f.card("idList") == "l1" && f.card("votes") == "1")
        try f.sql("UPDATE card SET idList = 'n' WHERE id = 'c1'")
        _ = try await f.store.discard(sent.keys[0])
        #expect(try f.card("idList") == "l1" && f.card("votes") == "1")
        #expect(try await f.claim().told == [])
        #expect(try await f.store.queued().isEmpty)
    }

    @Test("QUE-04 an inverse waits for the verdict of a unit's member, too, that was set aside and is tried again")
    func unitTriedAgain() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.store.write(unit: true) { db in
            try db.execute(sql: "UPDATE card SET votes = votes + 5 WHERE id = 'c1'")
            try db.execute(sql: "UPDATE list SET name = 'in' WHERE id = 'l1'")
        }
        let sent = try await f.claim()
        try #require(sent.told == ["update card c1", "update list l1"])
        try await f.settle((sent.keys[0], .unanswered), (sent.keys[1], .unanswered))
        guard case .inverse(let key) = try await f.store.cancel(sent.keys[0]) else {
            return #expect(Bool(false), "sent")
        }
        let again = try await f.claim()
        try #require(!again.keys.contains(key))
        let reason = SetAsideReason(code: "tooManyAttempts", message: "no")
        let aside = Settlement.Outcome.Kind.setAside(reason, staysUncertain: true)
        try await f.settle((sent.keys[0], aside), (sent.keys[1], aside))
        _ = try await f.store.retry(sent.keys[0])
        let last = try await f.claim()
        #expect(last.keys.contains(sent.keys[0]))
        #expect(!last.keys.contains(key))
        try await f.settle((sent.keys[0], .refused()), (sent.keys[1], .refused("transaction")))
        #expect(try f.card("votes") == "1")
        #expect(try await f.store.queued().allSatisfy { $0.change.record.entity == "list" })
    }

    @Test("QUE-04 an inverse waits for what it takes back, also where that waits for the create of its parent")
    func waitsBehindCreator() async throws {
        for isDone in [true, false] {
            let f = try Fixture()
            try await f.applyBoard()
            try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'New', 'b1')")
            try f.sql("UPDATE card SET idList = 'n', votes = votes + 5 WHERE id = 'c1'")
            let sent = try await f.claim()
            try await f.settle((sent.keys[0], .unanswered), (sent.keys[1], .unanswered))
            guard case .inverse(let key) = try await f.store.cancel(sent.keys[1]) else {
                return #expect(Bool(false), "sent")
            }
            try #require(try await f.claim().keys == sent.keys)
            try await f.settle(
                (sent.keys[0], .unanswered), (sent.keys[1], .refused("missingReference", reference: "n")))
            try #require(try await f.claim().keys == [sent.keys[0]])
            try await f.settle((sent.keys[0], .applied(9)))
            let claim = try await f.claim()
            try #require(claim.told == ["update card c1"])
            #expect(claim.changes[0].change.fields["votes"]?.rule == .sum)
            #expect(!claim.keys.contains(key))
            try await f.settle((claim.keys[0], isDone ? .applied(10) : .refused()))
            #expect(try f.card("votes") == "1" && f.card("idList") == "l1")
            #expect(try await f.claim().keys == (isDone ? [key] : []))
        }
    }

    // MARK: The seam

    @Test("A claim is put back by the store itself as by the seam")
    func putBackByStore() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let claim = try await f.claim()
        try await f.store.putBack(claim)
        #expect(try await f.store.queued().map(\.state) == [.pending])
        let front = try await f.claim()
        try f.sql("UPDATE list SET name = 'B' WHERE id = 'l1'")
        let behind = try await f.store.settle(Settlement(), behind: front, limits: ClaimLimits())
        #expect(behind.told == ["update list l1"])
    }
}
