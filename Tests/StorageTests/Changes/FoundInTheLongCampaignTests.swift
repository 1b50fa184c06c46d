import GRDB
@testable import Storage
import SyncCore
import Testing

/// What a hundred thousand seeds of the simulator found, each in its smallest form.
@Suite("Found by the simulator: a hundred thousand seeds")
struct FoundInTheLongCampaignTests {
    @Test(
        "Seeds 46938 and 125555: a repeated delete that found nothing takes nothing that pages told of: they tell of its end, too",
        arguments: [true, false])
    func deletedByACopy(isRepeated: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        // A copy of the file sent the delete before, and this file, to a server that was another one.
        try await f.apply(record("card", "c1", 9, ["name": "Anew", "idList": "l1", "pos": 1.0]))
        let claim = try await f.claim()
        try #require(claim.changes.map(\.change.baseVersion) == [9])
        let outcome = Settlement.Outcome(
            changeID: claim.keys[0], kind: .applied(version: nil, overwrote: [:], serverID: nil), isRepeated: isRepeated
        )
        _ = try await f.store.settle(Settlement(outcomes: [outcome]), claim: nil)
        #expect(try f.card("name") == (isRepeated ? "Anew" : nil))
        #expect(try await f.store.queued().isEmpty)
        try await f.apply(record("card", "c1", 10, [:], .deleted))
        #expect(try !f.hasCard())
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 1013382: a repeated delete of what a full pass did not bring leaves nothing that waits for its parent")
    func deletedInAPass() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.store.beginFullPass(epoch: nil)
        // The list's tombstone and the card's are forgotten.
        let board = record("board", "b1", 1, ["name": "Board"])
        _ = try await f.store.apply(PageSlice(records: [board], from: 0, checkpoint: 7, epoch: Fixture.epoch))
        for table in ["card", "list", "board"] { try f.sql("DELETE FROM \(table)") }
        let claim = try await f.claim()
        try #require(claim.told == ["delete card c1", "delete list l1", "delete board b1"])
        let outcomes = claim.keys.enumerated().map { place, key in
            let kind = Settlement.Outcome.Kind.applied(version: place == 2 ? 8 : nil, overwrote: [:], serverID: nil)
            return Settlement.Outcome(changeID: key, kind: kind, isRepeated: true)
        }
        _ = try await f.store.settle(Settlement(outcomes: outcomes), claim: nil)
        let end = record("board", "b1", 8, [:], .deleted)
        _ = try await f.store.apply(PageSlice(records: [end], from: 7, checkpoint: 8, epoch: Fixture.epoch))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try await f.store.position().held == 0)
        #expect(try f.int("SELECT (SELECT count(*) FROM list) + (SELECT count(*) FROM card)") == 0)
    }

    @Test(
        "Seed 14074: what is made anew where the server forgot the death has the version of its create, if that was done just now",
        arguments: [false, true])
    func madeAnewOverAForgottenDeath(isRepeated: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        // A copy of this file had made it, too, and somebody deleted it.
        try await f.apply(record("card", "n", 9, [:], .deleted))
        let claim = try await f.claim()
        try #require(claim.told == ["create card n"])
        let kind = Settlement.Outcome.Kind.applied(version: 12, overwrote: [:], serverID: nil)
        let outcome = Settlement.Outcome(changeID: claim.keys[0], kind: kind, isRepeated: isRepeated)
        _ = try await f.store.settle(Settlement(outcomes: [outcome]), claim: nil)
        #expect(try f.card("name", "n") != nil)
        // What was decided once says nothing of now: its page tells.
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'n'") == (isRepeated ? 9 : 12))
    }

    @Test(
        "Seed 16766: what lacked its parent does not wait for one that is made anew behind an edit that waits for it, too"
    )
    func inACircleWithItsParent() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        let create = try await f.claim().keys[0]
        try await f.store.write(unit: true) { db in
            try db.execute(sql: "UPDATE card SET name = 'B' WHERE id = 'n'")
            try db.execute(sql: "UPDATE list SET name = 'B' WHERE id = 'l1'")
        }
        try f.sql("DELETE FROM card")
        try f.sql("DELETE FROM list")
        try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('l1', 'Anew', 'b1', 1)")
        // Somebody has deleted the list, and the server forgot it.
        try await f.settle((create, .refused("missingReference", reference: "l1")))
        #expect(try await f.store.failures().map(\.queued.change.id) == [create])
        #expect(try await f.claim().told == ["delete card c1"])
    }

    @Test("Seed 331960: a delete that is taken back makes no record without its parent, where history lost what it was")
    func undeletedInAnotherHistory() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'A' WHERE id = 'c1'")
        _ = try await f.claim()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let claim = try await f.claim()
        let delete = try #require(claim.changes.first { $0.change.operation == .delete }?.change.id)
        let unanswered = claim.keys.map { Settlement.Outcome(changeID: $0, kind: .unanswered(attempts: 1)) }
        _ = try await f.store.settle(Settlement(outcomes: unanswered), claim: nil)
        try await f.store.beginFullPass(epoch: "e-2")
        let board = record("board", "b1", 1, ["name": "Board"])
        _ = try await f.store.apply(PageSlice(records: [board], from: 0, checkpoint: 2, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        _ = try await f.store.cancel(delete)
        let creates = try await f.store.queued().filter { $0.change.operation == .create }
        #expect(creates.allSatisfy { $0.change.fields["idList"] != nil })
    }

    @Test("Seed 60843: what a set lost over a create that was decided unknown to us is lost in the create's page, too")
    func expiredBelowASet() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO card (id, name, idList, pos, labels) VALUES ('n', 'N', 'l1', 1, '[\"t2\"]')")
        let create = try await f.claim()
        try f.sql("UPDATE card SET labels = '[]' WHERE id = 'n'")
        try await f.settle((create.keys[0], .refused("expired")))
        try await f.apply(
            record("card", "n", 6, ["name": "N", "idList": "l1", "pos": 1.0, "labels": .array(["t2"])]))
        #expect(try f.card("labels", "n") == "[]")
        let edit = try await f.claim()
        let labels = try #require(edit.changes.first?.change.fields["labels"])
        #expect(labels.old == .array(["t2"]))
        #expect(labels.new == .array([]))
    }

    @Test("Seed 63495: a row that only what is unsent under it keeps goes with that, though a full pass ran in between")
    func keptAcrossAPass() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([RecordKey("board", "b1")])
        try f.sql("UPDATE list SET name = 'A' WHERE id = 'l1'")
        let first = try await f.claim().keys[0]
        try f.sql("UPDATE list SET pos = 5 WHERE id = 'l1'")
        try f.insertCard("n")
        try await f.settle((first, .merged(record("list", "l1", 7, [:], .deleted))))
        let claim = try await f.claim()
        try #require(claim.told == ["update list l1", "create card n"])
        // Somebody's delete, and this device's edit, which brought the list back, nobody here knows where.
        try await f.settle((claim.keys[0], .applied(9)), (claim.keys[1], .refused("forbidden")))
        try #require(try f.text("SELECT reason FROM sync_held WHERE id = 'l1'") == "unsent")
        try await f.fullPass(record("board", "b1", 1, ["name": "Board"]))
        #expect(try f.int("SELECT count(*) FROM list") == 1)
        _ = try await f.store.discard(claim.keys[1])
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 45452: a refused edit of a record that waits for its parent is shown no more once that is here")
    func refusedWhileHeld() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET desc = 'mine' WHERE id = 'c1'")
        try f.sql("UPDATE card SET name = 'Mine', closed = 1 WHERE id = 'c1'")
        let claim = try await f.claim(ClaimLimits(merges: false))
        try #require(claim.told == ["update card c1", "update card c1"])
        var theirs = record("card", "c1", 5, ["name": "Card", "idList": "l9", "pos": 1.0, "votes": 1, "desc": "text"])
        try await f.apply(theirs)
        try await f.settle((claim.keys[0], .applied(6)), (claim.keys[1], .refused()))
        // No record of the server's ever named `closed`.
        (theirs.version, theirs.fields["desc"]) = (6, "mine")
        try await f.apply(theirs)
        #expect(try await f.store.position().held == 1)
        try await f.apply(record("list", "l9", 7, ["name": "Theirs", "idBoard": "b1"]))
        #expect(try await f.store.position().held == 0)
        #expect(try f.card("idList") == "l9")
        #expect(try f.card("name") == "Card")
        #expect(try f.card("desc") == "mine")
        #expect(try f.card("closed") == nil)
    }

    @Test(
        "Seed 125003: a unit that makes a place and moves a card there does not wait for the card that waits for the place",
        arguments: [true, false])
    func aUnitThatWaitsForItself(movesWithinIt: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l8', 'Given up', 'b1')")
        try f.insertCard("n", list: "l8")
        try await f.store.write(unit: true) { db in
            try db.execute(sql: "INSERT INTO list (id, name, idBoard) VALUES ('l9', 'Other', 'b1')")
            try db.execute(
                sql: movesWithinIt
                    ? "UPDATE card SET idList = 'l9' WHERE id = 'n'" : "UPDATE card SET name = 'N' WHERE id = 'n'")
            try db.execute(sql: "UPDATE board SET name = 'Mine' WHERE id = 'b1'")
        }
        if !movesWithinIt { try f.sql("UPDATE card SET idList = 'l9' WHERE id = 'n'") }
        let list = try #require(try await f.store.queued().first).change.id
        #expect(try await f.store.cancel(list) == .cancelled([list]))
        var (told, version): ([String], Int64) = ([], 20)
        while told.count < 20 {
            let claim = try await f.claim()
            guard !claim.changes.isEmpty else { break }
            told += claim.told
            for key in claim.keys {
                version += 1
                try await f.settle((key, .applied(version)))
            }
        }
        #expect(told.first == "create list l9")
        #expect(told.contains("create card n"))
        #expect(told.contains("update board b1"))
        #expect(try await f.store.queued().isEmpty)
        #expect(try f.card("idList", "n") == "l9")
        #expect(try await f.store.events().contains { $0.kind == "unitDivided" })
    }

    @Test(
        "Seed 96306: a record that died unheard, and whose row something unsent kept, comes anew without its old values"
    )
    func anotherLifeOfAKeptRow() async throws {
        let f = try await Fixture.twoLists()
        try f.insertCard("n")
        try await f.fullPass(
            record("board", "b1", 1, ["name": "Board"]),
            record("list", "l2", 4, ["name": "Other", "idBoard": "b1", "pos": 2.0]))
        try #require(try f.text("SELECT reason FROM sync_held WHERE id = 'l1'") == "unsent")
        try await f.apply(record("list", "l1", 9, ["name": "Anew", "idBoard": "b1"]))
        #expect(try f.text("SELECT name FROM list WHERE id = 'l1'") == "Anew")
        #expect(try f.text("SELECT pos FROM list WHERE id = 'l1'") == nil)
        #expect(try await f.store.position().held == 0)
        #expect(try f.hasCard("n"))
    }

    @Test(
        "Seed 11608: what history lost, and stays for others while a refused edit of it shows, is made anew as it was",
        arguments: [false, true])
    func madeAnewAsItWas(isEdited: Bool) async throws {
        let schema = try Schema([
            EntitySchema("board", fields: [.text("name")]),
            EntitySchema(
                "list", refusal: .keep, fields: [.text("name"), .parent("idBoard", "board"), .real("pos")]),
            EntitySchema("card", fields: [.text("name"), .parent("idList", "list")]),
        ])
        let f = try Fixture(schema)
        let board = record("board", "b1", 1, ["name": "Board"])
        try await f.apply(board, record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]))
        try f.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        try f.sql("INSERT INTO card (id, name, idList) VALUES ('n', 'N', 'l1')")
        try await f.store.beginFullPass(epoch: "e-2")
        let refused = try await f.claim().keys
        try await f.settle((refused[0], .refused("notFound")), (refused[1], .refused("missingReference")))
        _ = try await f.store.apply(PageSlice(records: [board], from: 0, checkpoint: 1, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        try #require(try f.text("SELECT name FROM list") == "Mine" && f.int("SELECT count(pos) FROM list") == 0)
        _ = try await f.store.discard(refused[0])
        if isEdited { try f.sql("UPDATE list SET name = 'Newer' WHERE id = 'l1'") }
        #expect(try await f.store.restoreLost() == 1)
        let name = isEdited ? "Newer" : "List"
        #expect(try f.text("SELECT name FROM list") == name)
        #expect(try f.int("SELECT pos FROM list") == 1)
        #expect(try f.text("SELECT idBoard FROM list") == "b1")
        let create = try #require(try await f.store.queued().map(\.change).first { $0.operation == .create })
        #expect(create.record.id == "l1")
        #expect(create.fields.mapValues(\.new) == ["name": .string(name), "idBoard": "b1", "pos": 1.0])
    }
}

extension Fixture {
    /// A full pass of this history, from its beginning to its end, that brings these.
    fileprivate func fullPass(_ records: ServerRecord...) async throws {
        try await store.beginFullPass(epoch: nil)
        let asked = try await store.position().scopes
        _ = try await store.apply(
            PageSlice(records: records, from: 0, checkpoint: 8, epoch: Self.epoch, scopes: asked))
        _ = try await store.endFullPass(confirmed: true)
    }

    @Test(
        "A list was moved under a board that died, and the move is refused: it comes back with its cards",
        arguments: ["missingReference", "forbidden"])
    func movedUnderTheDead(code: String) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("board", "b2", 8, ["name": "Other"]))
        try f.sql("UPDATE list SET idBoard = 'b2' WHERE id = 'l1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered))
        try await f.apply(record("board", "b2", 9, [:], .deleted))
        #expect(try f.hasCard())
        _ = try await f.claim()
        try await f.settle((claim.keys[0], .refused(code)))
        #expect(try f.int("SELECT count(*) FROM board WHERE id = 'b2'") == 0)
        #expect(try f.int("SELECT count(*) FROM list WHERE id = 'l1' AND idBoard = 'b1'") == 1)
        #expect(try f.hasCard())
    }
}
