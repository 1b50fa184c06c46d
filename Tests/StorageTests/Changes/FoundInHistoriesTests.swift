import GRDB
@testable import Storage
import SyncCore
import Testing

/// What seeds found that go back to what was more often (`--bias histories`), told by situation.
@Suite struct FoundInHistoriesTests {
    @Test(
        "Seed 3240016: a row that only one under it keeps, since its create was taken back, is the server's once that has such a record"
    )
    func keptForLocalRow() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "Board"]))
        try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('l1', 'Mine', 'b1', 7)")
        try f.insertCard("n")
        try await f.store.keepLocal([RecordKey("card", "n")])
        let create = try #require(try await f.store.queued().first?.change.id)
        guard case .cancelled = try await f.store.cancel(create) else { return #expect(Bool(false)) }
        try #require(try f.int("SELECT count(*) FROM list WHERE id = 'l1'") == 1)
        try await f.apply(record("list", "l1", 2, ["name": "Theirs", "idBoard": "b1"]))
        #expect(try f.text("SELECT name FROM list WHERE id = 'l1'") == "Theirs")
        #expect(try f.text("SELECT pos FROM list WHERE id = 'l1'") == nil)
        #expect(try f.hasCard("n"))
    }

    @Test(
        "Seed 3240016: what is written behind a delete of what was never made stays, where the row is here for one that is kept"
    )
    func writtenBehindDelete() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'Mine')")
        let create = try await f.claim().keys[0]
        try await f.settle((create, .unanswered))
        try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('here', 'Mine', 'b1', 1)")
        try await f.store.keepLocal([RecordKey("list", "here")])
        guard case .inverse = try await f.store.cancel(create) else { return #expect(Bool(false)) }
        try #require(try f.int("SELECT count(*) FROM board") == 1)
        try await f.store.hold([RecordKey("board", "b1")])
        try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('l2', 'Later', 'b1', 2)")
        try f.sql("UPDATE board SET closed = 1 WHERE id = 'b1'")
        _ = try await f.claim(ClaimLimits(maxChanges: 1))
        try await f.settle((create, .refused("idTaken")))
        try await f.apply(record("board", "b1", 5, ["name": "Theirs"]))
        try await f.store.release([RecordKey("board", "b1")])
        let claim = try await f.claim()
        try #require(claim.told == ["create list l2", "update board b1"])
        #expect(try f.text("SELECT name || closed FROM board") == "Theirs1")
        #expect(try f.int("SELECT count(*) FROM list") == 2)
        try await f.settle((claim.keys[0], .applied(6)), (claim.keys[1], .applied(7)))
        #expect(try await f.store.queued().isEmpty)
        #expect(try await f.store.failures().isEmpty)
    }

    @Test("A refused create that is deleted before what was made under it takes that along, with its delete")
    func deletedFromAbove() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "Board"]))
        try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('l1', 'Mine', 'b1', 7)")
        try f.insertCard("n")
        try await f.settle((try await f.claim(ClaimLimits(maxChanges: 1)).keys[0], .refused()))
        // An app whose tables have no cascade deletes as it likes.
        try await f.store.database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA foreign_keys = OFF") }
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        try f.sql("UPDATE card SET name = 'Last' WHERE id = 'n'")
        try f.sql("DELETE FROM card WHERE id = 'n'")
        let last = "SELECT entity FROM sync_change ORDER BY position DESC LIMIT 1"
        try #require(try f.text(last) == "card")
        #expect(try await f.claim().told == [])
        #expect(try await f.store.queued().isEmpty)
        #expect(try await f.store.failures().isEmpty)
    }

    @Test(
        "Seed 3360018: a delete that was saved from a damaged file was lost, once, to what is gone by now: pages from 0 told nothing of it",
        arguments: [true, false])
    func decidedOfGone(isTold: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("card", "c9", 4, ["name": "A", "idList": "l1", "pos": 1.0]))
        try f.sql("DELETE FROM card WHERE id = 'c9'")
        let delete = try await f.claim().keys[0]
        try await f.settle((delete, .unanswered))
        // As it stands with what was saved: nothing is known of the record, before a page tells.
        try await f.store.write { db in
            try StoredRecord(version: 0, base: .away).write(db, RecordKey("card", "c9"))
        }
        if isTold { try await f.apply(record("card", "c9", 9, ["name": "B", "idList": "l1", "pos": 1.0])) }
        _ = try await f.store.apply(PageSlice(records: [], from: 4, checkpoint: 38, epoch: "e-1"))
        let card = record("card", "c9", 8, ["name": "B", "idList": "l9", "pos": 1.0])
        _ = try await f.store.settle(
            Settlement(outcomes: [.init(changeID: delete, kind: .merged(card), isRepeated: true)]), claim: nil)
        #expect(try f.hasCard("c9") == isTold)
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
        #expect(try await f.store.queued().isEmpty)
    }

    @Test(
        "Seed 3330074: what is known of a record since, as of its own delete, stays where the one above it died for which it had waited"
    )
    func diedBeforeItsParent() async throws {
        let f = try Fixture(boardSchema(refusal: .keep))
        try await f.apply(
            record("board", "b1", 1, ["name": "Board"]), record("list", "l1", 2, ["name": "List", "idBoard": "b1"]),
            record("list", "l2", 3, ["name": "Other", "idBoard": "b1"]),
            record("card", "c1", 4, ["name": "Card", "idList": "l1", "pos": 1.0]))
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        let edit = try await f.claim().keys[0]
        try await f.settle((edit, .refused("notFound")))
        try f.sql("UPDATE card SET idList = 'l2' WHERE id = 'c1'")
        let move = try await f.claim().keys[0]
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.sql("DELETE FROM list WHERE id = 'l2'")
        try await f.settle((move, .applied(38)))
        // It waits for the list that is deleted here.
        try await f.store.write { db in
            let card = record("card", "c1", 38, ["name": "Card", "idList": "l2", "pos": 1.0])
            try HeldRecords.hold(db, card, .parent, detail: "no list", waits: RecordKey("list", "l2"))
        }
        let deletes = try await f.claim()
        try #require(deletes.told == ["delete card c1", "delete list l2"])
        try await f.settle((deletes.keys[0], .applied(41)), (deletes.keys[1], .applied(42)))
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'c1'") == 41)
        _ = try await f.store.discard(edit)
        #expect(try !f.hasCard())
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
    }
}
