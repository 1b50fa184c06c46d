import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite struct RepairTests {
    @Test("QUE-04 what is on its way is too late to cancel")
    func tooLate() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let claim = try await fixture.claim()
        #expect(try await fixture.store.cancel(claim.keys[0]) == .tooLate)
        #expect(try fixture.card("name") == "B")
    }

    @Test("QUE-04 cancelling an uncertain create deletes it, with a new key, after it")
    func uncertainCreate() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.insertCard("n")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .unanswered))
        try fixture.sql("UPDATE card SET name = 'later' WHERE id = 'n'")
        guard case .inverse(let key) = try await fixture.store.cancel(claim.keys[0]) else {
            Issue.record("no inverse")
            return
        }
        #expect(try !fixture.hasCard("n"))
        let next = try await fixture.claim()
        #expect(next.told == ["create card n", "delete card n"])
        #expect(next.keys == [claim.keys[0], key])
        #expect(next.changes[1].change.stamp > next.changes[0].change.stamp)
        try await fixture.drain()
        #expect(try !fixture.hasCard("n"))
    }

    @Test("QUE-04 cancelling an uncertain update sends what was there before, but for what was written again since")
    func uncertainUpdate() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B', pos = 2, votes = votes + 5 WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .unanswered))
        try fixture.sql("UPDATE card SET name = 'C', votes = votes + 1 WHERE id = 'c1'")
        guard case .inverse(let key) = try await fixture.store.cancel(claim.keys[0]) else {
            Issue.record("no inverse")
            return
        }
        #expect(try fixture.card("name") == "C")
        #expect(try fixture.card("pos") == "1.0")
        #expect(try fixture.card("votes") == "2")
        let inverse = try #require(try await fixture.store.queued().last).change
        #expect(inverse.id == key)
        #expect(
            inverse.fields == [
                "pos": FieldDelta(old: 2.0, new: 1.0), "votes": FieldDelta(old: 7, new: 2, rule: .sum),
            ])
        try await fixture.drain()
    }

    @Test("QUE-04 cancelling an uncertain delete makes the record anew")
    func uncertainDelete() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("DELETE FROM card WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .unanswered))
        _ = try await fixture.store.cancel(claim.keys[0])
        #expect(try fixture.card("name") == "Card")
        #expect(try await fixture.claim().told == ["delete card c1", "create card c1"])
        try await fixture.drain()
        #expect(try fixture.card("name") == "Card")
    }

    @Test("QUE-04 DAT-18 taking a sent delete back gives the server the fields, too, that this program does not know")
    func undeleteUnknown() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "B", "closed": false, "colour": "red"]))
        try f.sql("DELETE FROM board")
        let sent = try await f.claim()
        try await f.settle((sent.keys[0], .unanswered))
        guard case .inverse(let key) = try await f.store.cancel(sent.keys[0]) else {
            return #expect(Bool(false), "it was sent")
        }
        // A create is a write of null to what it does not name.
        let inverse = try #require(try await f.store.queued().first { $0.change.id == key })
        #expect(inverse.change.fields.mapValues(\.new) == ["name": "B", "closed": false, "colour": "red"])
        #expect(try f.text("SELECT name FROM board") == "B")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(2)), (claim.keys[1], .applied(3)))
        #expect(try f.text("SELECT extra FROM sync_record") == #"{"colour":"red"}"#)
        #expect(try f.text("SELECT base FROM sync_record") == nil)
    }

    @Test("QUE-05 cancelling a never-sent create takes what needs it along")
    func neverSent() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("INSERT INTO list (id, name, idBoard) VALUES ('A', 'A', 'b1')")
        try fixture.insertCard("B", list: "A")
        try fixture.sql("UPDATE card SET idList = 'A', name = 'moved' WHERE id = 'c1'")
        try fixture.sql("UPDATE card SET pos = 9 WHERE id = 'c1'")
        let keys = try fixture.changes().map(\.id)
        #expect(try await fixture.store.dependants(of: keys[0]) == [keys[1], keys[2]])
        #expect(try await fixture.store.cancel(keys[0]) == .cancelled([keys[0], keys[1], keys[2]]))
        #expect(try !fixture.hasCard("B"))
        #expect(try fixture.int("SELECT count(*) FROM list") == 1)
        #expect(try fixture.card("idList") == "l1")
        #expect(try fixture.card("name") == "Card")
        #expect(try fixture.card("pos") == "9.0")
        #expect(try await fixture.states() == ["update card c1 pending"])
        #expect(try fixture.int("SELECT count(*) FROM sync_event WHERE kind = 'cancelled'") == 3)
        try await fixture.drain()
    }

    @Test("QUE-05 a never-sent update alone: later edits go from what was there before it")
    func neverSentUpdate() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B', votes = votes + 5 WHERE id = 'c1'")
        try fixture.sql("UPDATE card SET name = 'C', votes = votes + 1 WHERE id = 'c1'")
        let keys = try fixture.changes().map(\.id)
        _ = try await fixture.store.cancel(keys[0])
        #expect(try fixture.card("name") == "C")
        #expect(try fixture.card("votes") == "2")
        let left = try #require(try await fixture.store.queued().first).change
        #expect(left.fields["name"] == FieldDelta(old: "Card", new: "C"))
        #expect(left.fields["votes"] == FieldDelta(old: 1, new: 2, rule: .sum))
        _ = try await fixture.store.cancel(keys[1])
        #expect(try fixture.card("name") == "Card")
        #expect(try fixture.card("votes") == "1")
        #expect(try fixture.text("SELECT base FROM sync_record WHERE id = 'c1'") == nil)
    }

    @Test("QUE-04 taking back a sent union over no value takes out its own elements, and nobody else's")
    func invertedUnion() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET labels = '[\"x\"]' WHERE id = 'c1'")
        let sent = try await fixture.claim().keys[0]
        try await fixture.settle((sent, .unanswered))
        try await fixture.apply(
            record("card", "c1", 4, ["name": "Card", "idList": "l1", "pos": 1.0, "votes": 1, "labels": ["y"]]))
        #expect(try fixture.card("labels") == #"["y","x"]"#)
        guard case .inverse = try await fixture.store.cancel(sent) else {
            Issue.record("no inverse")
            return
        }
        #expect(try fixture.card("labels") == #"["y"]"#)
        let inverse = try #require(try await fixture.store.queued().last).change
        #expect(inverse.fields["labels"] == FieldDelta(old: ["y", "x"], new: ["y"], rule: .union))
        try await fixture.drain()
    }

    @Test("a cancelled delete brings the row back with its unsent edits; a create after it becomes an update")
    func cancelledDelete() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET pos = 4 WHERE id = 'c1'")
        try fixture.sql("DELETE FROM card WHERE id = 'c1'")
        try fixture.insertCard("c1", name: "anew")
        let keys = try fixture.changes().map(\.id)
        #expect(keys.count == 3)
        _ = try await fixture.store.cancel(keys[1])
        #expect(try fixture.card("name") == "anew")
        let queued = try await fixture.store.queued()
        #expect(queued.map(\.change.operation) == [.update, .update])
        #expect(queued[1].change.fields["name"] == FieldDelta(old: "Card", new: "anew"))
        try await fixture.drain()
    }

    @Test("retry of a refused update: its values are back, over what the server says now")
    func retryUpdate() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B', votes = votes + 5 WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .refused()))
        #expect(try fixture.card("name") == "Card")
        try await fixture.apply(record("card", "c1", 9, ["name": "Server", "idList": "l1", "votes": 10]))
        let key = try await fixture.store.retry(claim.keys[0])
        #expect(try fixture.card("name") == "B")
        #expect(try fixture.card("votes") == "15")
        let next = try await fixture.claim()
        #expect(next.keys == [key])
        #expect(next.changes[0].change.fields["name"]?.old == "Server")
        #expect(next.changes[0].change.stamp == claim.changes[0].change.stamp)
        #expect(next.changes[0].change.sequence > claim.changes[0].change.sequence)
        try await fixture.settle((key, .refused()))
        #expect(try fixture.card("votes") == "10")
        #expect(try await fixture.store.discard(key) == [key])
        #expect(try await fixture.store.failures().isEmpty)
        #expect(try fixture.card("name") == "Server")
        #expect(try fixture.queued() == 0)
    }

    @Test("a change that is not there, or not set aside, is said so")
    func mistakes() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let key = try fixture.changes()[0].id
        await #expect { _ = try await fixture.store.retry("zz") } throws: { ($0 as? StoreFailure)?.kind == .notFound }
        await #expect { _ = try await fixture.store.retry(key) } throws: { ($0 as? StoreFailure)?.kind == .invalid }
        await #expect { _ = try await fixture.store.discard(key) } throws: { ($0 as? StoreFailure)?.kind == .invalid }
        await #expect { _ = try await fixture.store.cancel("zz") } throws: { ($0 as? StoreFailure)?.kind == .notFound }
    }

    @Test("a record that left all scopes: what was sent without a verdict keeps it here, and holds `settled`")
    func gone() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .unanswered))
        try await fixture.apply(record("card", "c1", 9, [:], .gone))
        #expect(try fixture.card("name") == "B")
        let suspect = SetAsideReason(code: "suspect", message: "no answer")
        try await fixture.settle((claim.keys[0], .setAside(suspect, staysUncertain: true)))
        #expect(try fixture.card("name") == "B")
        #expect(try await fixture.settle().settled == claim.changes[0].change.sequence - 1)
        _ = try await fixture.store.discard(claim.keys[0])
        #expect(try !fixture.hasCard())
        #expect(try await fixture.settle().settled == claim.changes[0].change.sequence)
    }
}
