@testable import Storage
import SyncCore
import Testing

/// Records that are made, deleted, and made again under the same id: an undo, or an app whose ids are names.
@Suite struct MadeAnewTests {
    /// A card that was made and deleted here, both sent and neither answered, and made anew since.
    private func sentAndMadeAnew() async throws -> (f: Fixture, create: String, delete: String) {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n", name: "N")
        try await f.settle((try await f.claim().keys[0], .unanswered))
        try f.sql("DELETE FROM card WHERE id = 'n'")
        let sent = try await f.claim().keys
        try #require(sent.count == 2)
        try await f.settle((sent[0], .unanswered), (sent[1], .unanswered))
        try f.insertCard("n", name: "Anew")
        return (f, sent[0], sent[1])
    }

    @Test("Seed 129 QUE-04 what was made anew stays when the sent create of what it was before is taken back")
    func createTakenBack() async throws {
        let (f, create, delete) = try await sentAndMadeAnew()
        _ = try await f.store.cancel(create)
        #expect(try f.card("name", "n") == "Anew")
        let claim = try await f.claim()
        try #require(claim.told == ["create card n", "delete card n", "create card n"])
        try await f.settle((create, .applied(6)), (delete, .applied(7)), (claim.keys[2], .applied(8)))
        #expect(try f.card("name", "n") == "Anew")
        #expect(try f.queued() == 0)
    }

    @Test("QUE-04 an edit that was sent before its record was deleted and made anew has nothing to be taken back")
    func editTakenBack() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Edited', votes = 5 WHERE id = 'c1'")
        let edit = try await f.claim().keys[0]
        try await f.settle((edit, .unanswered))
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.sql("INSERT INTO card (id, name, idList, pos, votes) VALUES ('c1', 'Anew', 'l1', 1, 1)")
        _ = try await f.store.cancel(edit)
        #expect(try f.card("name") == "Anew")
        #expect(try f.int("SELECT votes FROM card WHERE id = 'c1'") == 1)
        #expect(try f.changes().map(\.operation) == [.update, .delete, .create])
    }

    @Test("Seed 129 QUE-04 the unsent delete in front of what was made anew stays: it takes back what was sent")
    func deleteStays() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n", name: "N")
        let create = try await f.claim().keys[0]
        try await f.settle((create, .unanswered))
        try f.sql("UPDATE card SET name = 'Edited' WHERE id = 'n'")
        try f.sql("DELETE FROM card WHERE id = 'n'")
        try f.insertCard("n", name: "Anew")
        #expect(try await f.store.cancel(create) == .tooLate)
        #expect(try f.card("name", "n") == "Anew")
        #expect(try f.changes().map(\.operation) == [.create, .update, .delete, .create])
        #expect(try f.changes().last?.fields["name"]?.new == "Anew")
    }

    @Test("QUE-05 what was made anew, and edited, needs its own create, not the one before it")
    func needsItsOwnCreate() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('n', 'N', 'b1', 2)")
        let create = try #require(try f.changes().last).id
        try f.sql("DELETE FROM list WHERE id = 'n'")
        try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('n', 'Anew', 'b1', 2)")
        try f.insertCard("m", name: "Below", list: "n")
        try f.sql("UPDATE list SET name = 'Edited' WHERE id = 'n'")
        #expect(try await f.store.dependants(of: create).count == 1)
        guard case .cancelled = try await f.store.cancel(create) else { return #expect(Bool(false), "too late") }
        let told = try await f.claim().told
        #expect(told == ["create list n", "create card m", "update list n"])
        #expect(try f.text("SELECT name FROM list WHERE id = 'n'") == "Edited")
        #expect(try f.card("name", "m") == "Below")
    }

    @Test(
        "Seed 83986 QUE-07 what was sent of a list's life before does not wait for the create that waits to make it anew",
        arguments: [false, true])
    func lifeBefore(isMarkedAgain: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        for board in ["first", "refused"] { try f.sql("INSERT INTO board (id, name) VALUES ('\(board)', 'B')") }
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.insertCard("m", list: "n")
        let sent = try await f.claim()
        try #require(sent.told == ["create board first", "create board refused", "create list n", "create card m"])
        try await f.settle(
            (sent.keys[0], .unanswered), (sent.keys[1], .refused("forbidden")), (sent.keys[2], .unanswered),
            (sent.keys[3], .unanswered))
        try f.sql("DELETE FROM card WHERE id = 'm'")
        try f.sql("DELETE FROM list WHERE id = 'n'")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'Anew', 'refused')")
        try await f.settle()
        // All that stands behind the one that is refused now is looked at once more.
        if isMarkedAgain { try await f.settle((sent.keys[0], .refused("forbidden"))) }
        #expect(try await f.states().last == "create list n blocked")
        let life = ["create list n", "create card m", "delete card m", "delete list n"]
        #expect(try await f.claim().told == (isMarkedAgain ? [] : ["create board first"]) + life)
    }

    @Test("QUE-03 what is written of a list and in it after its delete waits for the create that makes it anew")
    func lifeAfter() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO board (id, name) VALUES ('refused', 'B')")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'Anew', 'refused')")
        try f.insertCard("m")
        try f.sql("UPDATE list SET name = 'Edited' WHERE id = 'l1'")
        let sent = try await f.claim(ClaimLimits(maxChanges: 1))
        try await f.settle((sent.keys[0], .refused("forbidden")))
        #expect(try await f.claim().told == ["delete card c1", "delete list l1"])
        #expect(
            try await f.states().suffix(3) == [
                "create list l1 blocked", "create card m blocked", "update list l1 blocked",
            ])
    }

    @Test(
        "Seed 357 DAT-07 DL-02 the server's record of an id that is made here waits for its parent, and comes when the create is given up"
    )
    func heldUnderTheSameID() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("card", "n", 4, ["name": "Theirs", "idList": "l9", "pos": 1.0]))
        #expect(try await f.store.position().held == 1)
        try f.insertCard("n", name: "Mine")
        try await f.settle((try await f.claim().keys[0], .refused("idTaken")))
        let again = try await f.store.retry(try #require(try f.changes().last).id)
        #expect(try await f.claim().keys == [again])
        try await f.settle((again, .refused("idTaken")))
        #expect(try f.card("name", "n") == "Mine")
        _ = try await f.store.discard(again)
        #expect(try !f.hasCard("n"))
        try await f.apply(record("list", "l9", 5, ["name": "Nine", "idBoard": "b1", "pos": 9.0]))
        #expect(try f.card("name", "n") == "Theirs")
        #expect(try await f.store.position().held == 0)
    }

    /// The server's record of the same id, which names no votes.
    private func theirs(_ version: Int64) -> ServerRecord {
        record("card", "n", version, ["name": "Theirs", "idList": "l1", "pos": 1.0])
    }

    private func expectTheirs(_ f: Fixture) throws {
        #expect(try f.card("name", "n") == "Theirs")
        #expect(try f.int("SELECT votes FROM card WHERE id = 'n'") == nil)
    }

    @Test("Seed 5238 where the delete of what was made here loses, what the server's record has no value for has none")
    func triedAgainOverTheirs() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO card (id, name, idList, pos, votes) VALUES ('n', 'Mine', 'l1', 1, 2)")
        let create = try await f.claim().keys[0]
        try f.sql("DELETE FROM card WHERE id = 'n'")
        try await f.settle((create, .unanswered))
        try await f.apply(theirs(11))
        try await f.settle((try await f.claim(ClaimLimits(maxChanges: 1)).keys[0], .refused("idTaken")))
        _ = try await f.store.retry(create)
        let claim = try await f.claim()
        try #require(claim.told == ["delete card n"])
        try await f.settle((claim.keys[0], .merged(theirs(11))))
        try expectTheirs(f)
    }

    @Test("where a delete of what was made anew over a dead record loses, the values made here do not come with theirs")
    func overTheDead() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("card", "n", 3, ["name": "Once", "idList": "l1", "pos": 1.0]))
        try f.sql("DELETE FROM card WHERE id = 'n'")
        try await f.settle((try await f.claim().keys[0], .applied(4)))
        try f.sql("INSERT INTO card (id, name, idList, pos, votes) VALUES ('n', 'Mine', 'l1', 1, 2)")
        try f.sql("DELETE FROM card WHERE id = 'n'")
        let claim = try await f.claim()
        try #require(claim.told == ["delete card n"])
        try await f.settle((claim.keys[0], .merged(theirs(11))))
        try expectTheirs(f)
    }

    @Test(
        "where a create was decided before the page and its delete loses, the values made here do not come with theirs")
    func decidedBeforeThePage() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO card (id, name, idList, pos, votes) VALUES ('n', 'Mine', 'l1', 1, 2)")
        let create = try await f.claim().keys[0]
        try f.sql("DELETE FROM card WHERE id = 'n'")
        try await f.settle((create, .unanswered))
        try await f.apply(theirs(11))
        try #require(try await f.claim(ClaimLimits(maxChanges: 1)).keys == [create])
        try await f.settle((create, .applied(8)))
        let claim = try await f.claim()
        try #require(claim.told == ["delete card n"])
        try await f.settle((claim.keys[0], .merged(theirs(11))))
        try expectTheirs(f)
    }

    @Test(
        "Seed 61621 what was refused, deleted and made anew does not show what it was before where a page says what it is"
    )
    func refusedBefore() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO card (id, name, idList, pos, votes) VALUES ('n', 'Mine', 'l1', 1, 2)")
        try await f.settle((try await f.claim().keys[0], .unanswered))
        try f.sql("DELETE FROM card WHERE id = 'n'")
        let first = try await f.claim()
        try #require(first.told == ["create card n", "delete card n"])
        try await f.settle((first.keys[0], .refused("forbidden")), (first.keys[1], .unanswered))
        try f.insertCard("n", name: "Theirs")
        let second = try await f.claim()
        try #require(second.told == ["delete card n", "create card n"])
        try await f.settle((second.keys[0], .unanswered), (second.keys[1], .unanswered))
        try await f.apply(theirs(11))
        try expectTheirs(f)
        _ = try await f.store.settle(
            Settlement(outcomes: [
                .init(
                    changeID: second.keys[0], kind: .applied(version: nil, overwrote: [:], serverID: nil),
                    isRepeated: true),
                .init(changeID: second.keys[1], kind: .applied(11), isRepeated: true),
            ]), claim: nil)
        try expectTheirs(f)
    }

    @Test("QUE-04 a delete of what was made anew over a dead record gives the record back when it is taken back")
    func overTheDeadTakenBack() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("card", "n", 3, ["name": "Once", "idList": "l1", "pos": 1.0]))
        try f.sql("DELETE FROM card WHERE id = 'n'")
        try await f.settle((try await f.claim().keys[0], .applied(4)))
        try f.sql("INSERT INTO card (id, name, idList, pos, votes) VALUES ('n', 'Mine', 'l1', 1, 2)")
        try f.sql("DELETE FROM card WHERE id = 'n'")
        let delete = try #require(try await f.claim().keys.first)
        try await f.settle((delete, .unanswered))
        _ = try await f.store.cancel(delete)
        #expect(try f.card("name", "n") == "Mine")
        #expect(try f.int("SELECT votes FROM card WHERE id = 'n'") == 2)
    }
}
