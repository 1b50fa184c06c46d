import GRDB
@testable import Storage
import SyncCore
import Testing

/// What the simulator found about records that wait for their parent, each in its smallest form.
@Suite("Found by the simulator, among what is held")
struct FoundAmongHeldTests {
    @Test("Seed 349: a tombstone that waits is not forgotten when the parent's goes first")
    func tombstoneUnderTombstone() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE board SET name = 'B' WHERE id = 'b1'")
        try f.insertCard("n")
        let claim = try await f.claim()
        try await f.apply(
            record("card", "c1", 9, [:], .deleted), record("list", "l1", 10, [:], .deleted),
            record("board", "b1", 11, [:], .deleted))
        #expect(try f.hasCard("n"))
        try await f.settle(
            (claim.keys[0], .merged(record("board", "b1", 11, [:], .deleted))),
            (claim.keys[1], .merged(record("card", "n", 12, [:], .deleted))))
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 486: cards that a tombstone waited for come back with their list, which lives again")
    func tombstoneThatWaited() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n", name: "New")
        let claim = try await f.claim()
        try await f.apply(record("list", "l1", 14, [:], .deleted), record("card", "c1", 15, [:], .deleted))
        #expect(try f.hasCard("n"))
        // The answer's page leaves the card out, and says that somebody brought the list back.
        try await f.settle((claim.keys[0], .applied(17)))
        try await f.apply(record("list", "l1", 16, ["name": "List", "idBoard": "b1", "pos": 1.0]))
        #expect(try f.card("name", "n") == "New")
        #expect(try !f.hasCard("c1"))
        #expect(try await f.store.position().held == 0)
    }

    @Test(
        "Seed 2798: a card whose move is given up with its refused list waits for its old list, not for the one that went",
        arguments: [false, true])
    func heldForItsOldList(hasEdit: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        let create = try await f.claim()
        try await f.settle((create.keys[0], .refused("forbidden")))
        try f.sql("UPDATE card SET idList = 'n' WHERE id = 'c1'")
        if hasEdit { try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'") }
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let delete = try await f.claim()
        try #require(delete.told == ["delete list l1"])
        _ = try await f.store.discard(create.keys[0])
        // An edit of the card goes on; until it is done the list that goes stands under it.
        let rest = try await f.claim()
        #expect(rest.told == (hasEdit ? ["update card c1"] : []) + ["delete list l1"])
        for key in rest.keys where key != delete.keys[0] { try await f.settle((key, .applied(9))) }
        #expect(try !f.hasCard())
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try f.text("SELECT waitsID FROM sync_held") == "l1")
        try await f.settle((delete.keys[0], .refused("forbidden")))
        #expect(try f.card("idList") == "l1")
        #expect(try f.card("name") == (hasEdit ? "Mine" : "Card"))
        #expect(try await f.store.position().held == 0)
    }

    @Test(
        "Seed 10769: a card moved out of a list that is deleted then keeps its version, and is held no more"
    )
    func movedOutOfDeleted() async throws {
        let f = try await Fixture.twoLists()
        try f.sql("UPDATE card SET idList = 'l2' WHERE id = 'c1'")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let claim = try await f.claim()
        try #require(claim.told == ["update card c1", "delete list l1"])
        // Of the server's last word the card is still in the list that is deleted here.
        try await f.apply(record("card", "c1", 6, ["name": "Theirs", "idList": "l1", "pos": 1.0]))
        #expect(try await f.store.position().held == 1)
        try await f.settle((claim.keys[0], .applied(7)))
        #expect(try await f.store.position().held == 0)
        try await f.settle((claim.keys[1], .applied(8)))
        #expect(try f.card("name") == "Theirs")
        #expect(try f.card("idList") == "l2")
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'c1'") == 6)
    }

    @Test(
        "What somebody moved into a list that is deleted here shows as it was, with its version, until it is told dead"
    )
    func movedIntoDeleted() async throws {
        let f = try await Fixture.twoLists()
        try f.sql("DELETE FROM list WHERE id = 'l2'")
        let claim = try await f.claim()
        try await f.apply(record("card", "c1", 6, ["name": "Card", "idList": "l2", "pos": 1.0]))
        try await f.settle((claim.keys[0], .applied(7)))
        #expect(try f.card("idList") == "l1")
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'c1'") == 3)
        try await f.apply(record("card", "c1", 8, [:], .deleted))
        #expect(try !f.hasCard())
        #expect(try await f.store.position().held == 0)
    }

    @Test(
        "Seed 97560: a card moved where its list is not here yet comes there with it, although a verdict had raised its version before its page",
        arguments: ["applied", "refused", "taken back"])
    func heldAtTheVersionOfAVerdict(end: String) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        let rename = try await f.claim().keys[0]
        // Somebody moved it before that was done.
        try await f.settle((rename, .applied(6)))
        try await f.apply(record("card", "c1", 6, ["name": "Mine", "idList": "l9", "pos": 1.0]))
        #expect(try await f.store.position().held == 1)
        try f.sql("UPDATE card SET votes = 5 WHERE id = 'c1'")
        switch end {
        case "applied":
            let edit = try #require(try await f.claim().changes.first)
            #expect(edit.change.baseVersion == 6)
            // The page leaves it out: this device had the base.
            try await f.settle((edit.change.id, .applied(7)))
        case "refused": try await f.settle((try await f.claim().keys[0], .refused("forbidden")))
        default: _ = try await f.store.cancel(try #require(try f.changes().last).id)
        }
        #expect(try f.card("idList") == "l1")
        #expect(try await f.store.position().held == 1)
        try await f.apply(record("list", "l9", 8, ["name": "Nine", "idBoard": "b1", "pos": 9.0]))
        #expect(try f.card("idList") == "l9")
        #expect(try f.card("name") == "Mine")
        #expect(try f.card("votes") == (end == "applied" ? "5" : "1"))
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 264: what was held is older than a verdict, also where no full pass ever ran")
    func heldBelowVerdict() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(4)), (claim.keys[1], .refused()))
        try f.insertCard("n")
        let create = try await f.claim()
        try await f.settle((create.keys[0], .refused()))
        // Held up by the card, which is tried again with it and dies with the list.
        _ = try await f.store.retry(claim.keys[1])
        _ = try await f.store.retry(create.keys[0])
        #expect(try await f.store.position().held == 1)
        let again = try await f.claim()
        #expect(again.told == ["delete list l1", "create card n"])
        try await f.settle(
            (again.keys[0], .applied(5)), (again.keys[1], .merged(record("card", "n", 6, [:], .deleted))))
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 702: a delete that is done ends what waits of the record for its parent")
    func deletedWhileHeld() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let claim = try await f.claim()
        #expect(claim.changes.map(\.change.baseVersion) == [3, 2])
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .unanswered))
        // The same history again, under another name: the list does not show here, so its card waits.
        let list = record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0])
        try await f.store.beginFullPass(epoch: "e-2")
        _ = try await f.store.apply(
            PageSlice(
                records: [
                    record("board", "b1", 1, ["name": "Board"]), list,
                    record("card", "c1", 3, ["name": "Card", "idList": "l1", "pos": 1.0]),
                ], from: 0, checkpoint: 3, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try await f.store.position().held == 1)
        // The list lives on; the card's tombstone is left out, since it was deleted over the version that waits here.
        let again = try await f.claim()
        try await f.settle((again.keys[0], .applied(4)), (again.keys[1], .merged(list)))
        #expect(try f.text("SELECT name FROM list") == "List")
        #expect(try !f.hasCard())
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seeds 1557, 71715: what waited here for its parent is held no more once the server did this device's delete")
    func heldAndDeleted() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        let create = try await f.claim()
        try await f.settle((create.keys[0], .unanswered))
        try f.sql("DELETE FROM card WHERE id = 'n'")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        try await f.apply(record("card", "n", 20, ["name": "N", "idList": "l1", "pos": 1.0]))
        #expect(try await f.store.position().held == 1)
        let claim = try await f.claim()
        try #require(claim.told.prefix(2) == ["create card n", "delete card n"])
        try await f.settle((claim.keys[0], .applied(20)))
        #expect(try await f.store.position().held == 1)
        // The page leaves the tombstone out, since it follows from this change.
        try await f.settle((claim.keys[1], .applied(21)))
        #expect(try await f.store.position().held == 0)
        #expect(try !f.hasCard("n"))
    }

    @Test("Seed 738: a card whose refused delete is given up waits on for its list, which is deleted here, unsent")
    func refusedDeleteUnderDeletedList() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        let card = "c1"
        try f.sql("DELETE FROM card WHERE id = '\(card)'")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let claim = try await f.claim()
        try #require(claim.told.first == "delete card \(card)")
        try await f.settle((claim.keys[0], .refused("forbidden")), (claim.keys[1], .unanswered))
        let held = try f.int("SELECT count(*) FROM sync_held WHERE id = '\(card)'")
        #expect(held == 1)
        _ = try await f.store.discard(claim.keys[0])
        #expect(try f.int("SELECT count(*) FROM sync_held WHERE id = '\(card)'") == 1)
        #expect(try !f.hasCard(card))
        // The list is refused as well, and comes back with its card.
        try await f.settle((claim.keys[1], .refused("forbidden")))
        #expect(try f.hasCard(card))
    }

    @Test("Seed 27555: a dead board that waits for what is unsent in a list goes when that leaves, in the same step")
    func waitsForWhatLeaves() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        let create = try await f.claim()
        try await f.apply(record("board", "b1", 20, [:], .deleted), record("list", "l1", 31, [:], .gone))
        #expect(try f.int("SELECT count(*) FROM sync_held WHERE reason = 'unsent'") == 2)
        // The list may leave now, and takes along the card that is set aside; the board was looked at before it.
        try await f.settle((create.keys[0], .refused("forbidden")))
        #expect(try f.int("SELECT (SELECT count(*) FROM card) + (SELECT count(*) FROM list)") == 0)
        #expect(try f.int("SELECT count(*) FROM board") == 0)
        #expect(try await f.store.position().held == 0)
    }
}
