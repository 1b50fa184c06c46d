import SyncCore
import Testing

@testable import Storage

/// Deletes that were sent and taken back, as the simulator found them.
@Suite("Deletes that are taken back, found by the simulator")
struct FoundInTakenBackDeletesTests {
    @Test(
        "Seed 69741: a refused delete that is tried again over somebody's tombstone has nothing to bring back when it is taken back"
    )
    func deletedWhatIsDead() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let first = try await f.claim().keys[0]
        try await f.settle((first, .unanswered))
        try await f.apply(record("card", "c1", 7, [:], .deleted))
        #expect(try await f.claim().keys == [first])
        try await f.settle((first, .refused()))
        let again = try await f.store.retry(first)
        #expect(try await f.claim().keys == [again])
        try await f.settle((again, .unanswered))
        #expect(try await f.store.cancel(again) == .tooLate)
        #expect(try f.changes().map(\.id) == [again])
    }

    @Test("Seed 60979: a delete behind a create of which nobody knows takes what the row showed, and gives that back")
    func deletedWhatIsNotKnown() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        let create = try await f.claim().keys[0]
        try await f.settle((create, .unanswered))
        try f.sql("DELETE FROM card WHERE id = 'n'")
        try await f.settle((create, .refused("expired")))
        let delete = try await f.claim().keys[0]
        try await f.settle((delete, .unanswered))
        guard case .inverse = try await f.store.cancel(delete) else { return #expect(Bool(false), "no inverse") }
        #expect(try f.card("name", "n") == "A")
        let both = try await f.claim()
        try #require(both.told == ["delete card n", "create card n"])
        #expect(both.changes[1].change.fields["name"]?.new == "A")
        #expect(both.changes[1].change.fields["idList"]?.new == "l1")
        // The server's word of the delete is not taken for what the row had.
        try await f.settle(
            (both.keys[0], .applied(version: nil, overwrote: [:], serverID: nil)), (both.keys[1], .refused("forbidden"))
        )
        _ = try await f.store.discard(both.keys[1])
        #expect(try !f.hasCard("n"))
    }

    @Test("Seed 60979: a delete of what somebody else has under a refused create's id goes from that")
    func deletedWhatOthersHave() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        let create = try await f.claim().keys[0]
        try await f.settle((create, .unanswered))
        try f.sql("DELETE FROM card WHERE id = 'n'")
        try await f.settle((create, .refused("expired")))
        let delete = try await f.claim().keys[0]
        try await f.settle((delete, .merged(record("card", "n", 9, ["name": "Theirs", "idList": "l1"]))))
        #expect(try f.card("name", "n") == "Theirs")
        #expect(try f.card("pos", "n") == nil)
    }

    @Test(
        "Seed 78275: what was made and deleted here, both sent, stays away when its create is taken back, or the one of the list it was in",
        arguments: [0, 1])
    func deletedWithItsCreate(place: Int) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.insertCard("k", list: "n")
        let creates = try await f.claim().keys
        for key in creates { try await f.settle((key, .unanswered)) }
        try f.sql("DELETE FROM card WHERE id = 'k'")
        for key in try await f.claim().keys { try await f.settle((key, .unanswered)) }
        try f.sql("UPDATE list SET name = 'Mine' WHERE id = 'n'")
        let outcome = try await f.store.cancel(creates[place])
        #expect(try !f.hasCard("k"))
        let told = ["create list n", "create card k", "delete card k"]
        if place == 0 {
            guard case .inverse = outcome else { return #expect(Bool(false), "no inverse") }
            #expect(try await f.claim().told == told + ["delete list n"])
        } else {
            #expect(outcome == .tooLate)
            #expect(try await f.claim().told == told + ["update list n"])
        }
    }

    @Test(
        "Seed 867: what was made under a record that lives again waits for it, although its delete was done in the same request"
    )
    func madeUnderTheRevived() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("list", "l9", 5, ["name": "List", "idBoard": "b1"]))
        try f.sql("DELETE FROM list WHERE id = 'l9'")
        let delete = try await f.claim().keys[0]
        try await f.settle((delete, .unanswered))
        guard case .inverse = try await f.store.cancel(delete) else { return #expect(Bool(false), "no inverse") }
        try f.sql("INSERT INTO card (id, name, idList) VALUES ('n', 'N', 'l9')")
        let keys = try await f.claim().keys
        #expect(keys.count == 3)
        try await f.settle(
            (keys[0], .applied(version: nil, overwrote: [:], serverID: nil)),
            (keys[1], .merged(record("list", "l9", 6, [:], .deleted))), (keys[2], .applied(43)))
        try await f.apply(record("list", "l9", 40, ["name": "List", "idBoard": "b1"]))
        #expect(try f.hasCard("n"))
        #expect(try await f.store.position().held == 0)
    }

    @Test(
        "Seed 2400 with roots and the server's ids: a delete of what was decided, nobody knows how, is taken back: it goes unless a page brings it",
        arguments: [true, false])
    func deletedWhileNobodyKnows(isThere: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.insertCard("k", list: "n")
        let sent = try await f.claim()
        try await f.settle((sent.keys[0], .refused("expired")), (sent.keys[1], .unanswered))
        try #require(try f.int("SELECT count(*) FROM list WHERE id = 'n'") == 1)
        try f.sql("DELETE FROM list WHERE id = 'n'")
        let key = try #require(try await f.store.queued().last { $0.change.record.entity == "list" }?.change.id)
        guard case .cancelled = try await f.store.cancel(key) else {
            Issue.record("It was never sent.")
            return
        }
        if isThere { try await f.apply(record("list", "n", 9, ["name": "N", "idBoard": "b1"])) }
        let rest = try await f.claim()
        try await f.settle((rest.keys[0], .refused("missingReference")))
        try await f.drain()
        #expect(try f.int("SELECT count(*) FROM list WHERE id = 'n'") == (isThere ? 1 : 0))
        #expect(try await f.store.held().isEmpty)
    }
}
