import GRDB
import SyncCore
import Testing

@testable import Storage

/// What somebody moved away while a device could not be told: what has no row here while its root is dropped, what is noted to be
/// looked for, and what a full pass has only a verdict's word of (Decisions 310 and 311).
@Suite("Roots in between")
struct RootsInBetweenTests: AskingForRoots {
    private func board(_ id: String, _ version: Int64) -> ServerRecord { record("board", id, version, ["name": "B"]) }

    private func gone(_ entity: String, _ id: String, _ version: Int64) -> ServerRecord {
        record(entity, id, version, [:], .gone)
    }

    // MARK: Deleted here, unsent

    @Test(
        "DL-21 QUE-04 a list deleted here, unsent, that left its root while that was dropped does not come back with it"
    )
    func deletedWhileDropped() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one, two])
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        try await f.store.setScopes([two])
        #expect(try f.text("SELECT group_concat(id) FROM board") == "b2")
        try await page(f, upTo: 6)
        // Somebody moves the list to a root that is not asked for; then its old one is asked for again.
        try await f.store.setScopes([one, two])
        #expect(try await page(f, board("b1", 1), upTo: 9).asksAgain)
        #expect(try await f.store.position().scopes == ["board:b1": 4, "board:b2": 9])
        try await page(f, gone("list", "l1", 7), gone("card", "c1", 8), upTo: 9)
        for change in try await f.store.queued().reversed() { _ = try await f.store.cancel(change.change.id) }
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try await f.store.failures().map(\.reason.code) == ["gone", "gone"])
    }

    @Test("DL-21 a root of which only a delete is unsent has no rows here, and is forgotten once that is decided")
    func decidedWhileDropped() async throws {
        for outcome in [Settlement.Outcome.Kind.applied(9), .refused("forbidden")] {
            let f = try await Fixture.twoBoards()
            try await f.store.setScopes([one, two])
            try f.sql("DELETE FROM card WHERE id = 'c1'")
            try await f.store.setScopes([two])
            #expect(try f.int("SELECT count(*) FROM list") == 0)
            #expect(try leaving(f) == ["board:b1"])
            let claim = try await f.claim()
            try await f.settle((claim.keys[0], outcome))
            try await page(f, upTo: 10)
            try await f.store.evictLeaving()
            #expect(try leaving(f) == [])
            #expect(try !f.hasCard())
            #expect(try await f.store.position().held == 0)
        }
    }

    @Test("DL-21 a board deleted here, unsent, as roots are first chosen comes back with no lost delete (seed 8799)")
    func hiddenWhenRootsAreChosen() async throws {
        let f = try await Fixture.twoBoards()
        try f.sql("DELETE FROM board WHERE id = 'b1'")
        let keys = try await f.claim().keys
        try await f.settle((keys[0], .applied(5)), (keys[1], .applied(6)), (keys[2], .unanswered))
        try await f.apply(list("l3", 7, in: "b1"), card("c3", 8, in: "l3"))
        #expect(try await f.store.position().held == 2)
        try await f.store.setScopes([two])
        #expect(try leaving(f) == ["board:b1"])
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .merged(board("b1", 9))))
        try await f.store.evictLeaving()
        #expect(try f.text("SELECT group_concat(id) FROM board") == "b2")
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try !f.hasCard("c3"))
        #expect(try await f.store.position().held == 0)
        #expect(try leaving(f) == [])
    }

    // MARK: Moved where a pull has not come to yet

    @Test(
        "DL-13 DL-21 what a page brings of a list that was moved out of a dropped root stays, although the page of the list is still to come (seed 106201)"
    )
    func movedBehindThePage() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one])
        try f.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        try await f.store.setScopes([two])
        let edit = try await f.claim().keys[0]
        // Somebody had moved the list under the other board, and made a card in it.
        try await f.settle((edit, .applied(15)))
        try await page(f, board("b2", 4), card("c2", 12, in: "l1"), upTo: 12, hasMore: true)
        try await f.store.evictLeaving(isPulled: false)
        #expect(try f.hasCard("c2"), "the checkpoint is above it")
        var moved = list("l1", 15, in: "b2")
        moved.fields["name"] = "Mine"
        try await page(f, moved, upTo: 15)
        try await f.store.evictLeaving()
        #expect(try f.text("SELECT group_concat(id) FROM board") == "b2")
        #expect(try f.text("SELECT idBoard FROM list") == "b2")
        #expect(try f.hasCard("c2"))
        #expect(try leaving(f) == [])
    }

    @Test(
        "DL-21 what stayed of a root, and was moved where it waits for what is deleted here, is where it waits (seed 30258)"
    )
    func waitsElsewhere() async throws {
        let f = try await Fixture.twoBoards()
        let n = RecordKey("board", "n")
        try f.sql("INSERT INTO board (id, name) VALUES ('n', 'Mine')")
        let create = try await f.claim().keys[0]
        try await f.settle((create, .unanswered))
        _ = try await f.store.cancel(create)
        try f.sql("UPDATE card SET votes = 5 WHERE id = 'c1'")
        // Somebody has a board of that id, and moves the list there.
        try await f.apply(board("n", 5), list("l1", 6, in: "n"), card("c1", 7, in: "l1"))
        #expect(try await f.store.position().held == 1)
        try await f.store.setScopes([n])
        #expect(try f.hasCard())
        try await f.store.setScopes([one, n])
        try await page(f, board("b1", 1), upTo: 7)
        let claim = try await f.claim()
        try #require(claim.told == ["create board n", "delete board n", "update card c1"])
        try await f.settle(
            (create, .refused("idTaken")), (claim.keys[1], .unanswered), (claim.keys[2], .applied(8)))
        for _ in 0..<3 {
            guard try await page(f, upTo: 8).asksAgain else { break }
            try await page(f, board("b1", 1), upTo: 8)
        }
        _ = try await f.store.discard(create)
        for change in try await f.store.queued() { _ = try await f.store.cancel(change.change.id) }
        try await page(f, upTo: 9)
        #expect(try f.text("SELECT idBoard FROM list WHERE id = 'l1'") == "n")
        #expect(try f.hasCard())
    }

    @Test(
        "DL-21 DAT-05 where an edit brings the dead back that had been moved before, only its page shows where (seed 1785)"
    )
    func revivedElsewhere() async throws {
        for isHere in [true, false] {
            let f = try await Fixture.twoBoards()
            try await f.store.setScopes([one])
            try f.sql("UPDATE card SET name = 'A' WHERE id = 'c1'")
            let first = try await f.claim().keys[0]
            try f.sql("UPDATE card SET desc = 'B' WHERE id = 'c1'")
            try await f.settle((first, .merged(record("card", "c1", 7, [:], .deleted))))
            #expect(try f.hasCard())
            try await f.settle((try await f.claim().keys[0], .applied(9)))
            if isHere {
                try await page(f, card("c1", 9, in: "l1"), upTo: 9)
            } else {
                try await page(f, upTo: 9)
            }
            #expect(try f.hasCard() == isHere)
            #expect(try f.queued() == 0)
        }
    }

    @Test(
        "I6 DL-21 seeds 21539 and 40962: the same while another edit waits: the row shows on, and goes as that is decided",
        arguments: [true, false])
    func revivedWhileMoreWaits(isHere: Bool) async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one])
        try f.sql("UPDATE card SET name = 'A' WHERE id = 'c1'")
        let first = try await f.claim().keys[0]
        try f.sql("UPDATE card SET desc = 'B' WHERE id = 'c1'")
        try await f.settle((first, .merged(record("card", "c1", 7, [:], .deleted))))
        let second = try await f.claim().keys[0]
        try f.sql("UPDATE card SET name = 'C' WHERE id = 'c1'")
        try await f.settle((second, .applied(9)))
        #expect(try f.card("name") == "C")
        #expect(try f.card("desc") == "B")
        if isHere {
            try await page(f, card("c1", 9, in: "l1"), upTo: 9)
        } else {
            try await page(f, upTo: 9)
        }
        #expect(try f.card("name") == "C")
        try await f.settle((try await f.claim().keys[0], .applied(11)))
        try await page(f, upTo: 11)
        #expect(try f.hasCard() == isHere)
        #expect(try f.queued() == 0)
    }

    @Test(
        "DL-21 seed 162544: an edit from before comes over a record that history lost, and that somebody else made elsewhere since",
        arguments: [true, false])
    func madeElsewhere(isHere: Bool) async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one])
        try f.sql("UPDATE card SET name = 'A' WHERE id = 'c1'")
        let edit = try await f.claim().keys[0]
        try await f.settle((edit, .refused("forbidden")))
        try await f.store.beginFullPass(epoch: "e-2")
        let records = [
            record("board", "b1", 1, ["name": "Board"]),
            record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]),
        ]
        try await page(f, records[0], records[1], upTo: 8, epoch: "e-2")
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try await f.store.restoreLost() == 1)
        let again = try await f.store.retry(edit)
        let claim = try await f.claim()
        try #require(claim.told == ["update card c1", "create card c1"])
        try #require(claim.keys[0] == again)
        try await f.settle((claim.keys[0], .applied(20)), (claim.keys[1], .refused("idTaken")))
        #expect(try f.hasCard())
        _ = try await f.store.discard(claim.keys[1])
        #expect(try !f.hasCard())
        if isHere {
            try await page(f, card("c1", 20, in: "l1"), upTo: 20, epoch: "e-2")
        } else {
            try await page(f, upTo: 20, epoch: "e-2")
        }
        #expect(try f.hasCard() == isHere)
    }

    @Test("DL-21 DAT-25 a board that does not fit its table goes as roots are first chosen, with what waits for it")
    func brokenWhenRootsAreChosen() async throws {
        let f = try await Fixture.twoBoards()
        try await f.apply(record("board", "b3", 5, ["name": 5]), list("l3", 6, in: "b3"))
        #expect(try await f.store.position().held == 2)
        try await f.store.setScopes([two])
        try await page(f, upTo: 9)
        #expect(try await f.store.position().held == 0)
        #expect(try leaving(f) == [])
    }

    private func leaving(_ f: Fixture) throws -> [String]? {
        try f.store.database.read { try Scopes.read($0)?.leaving.keys.sorted() }
    }

    @Test(
        "DL-21 a card deleted here, unsent, of a list that moves to a root that is asked for is looked for when it comes back",
        arguments: [true, false])
    func deletedWhereSomethingStayed(isThere: Bool) async throws {
        let f = try await Fixture.twoBoards()
        try await f.apply(card("c2", 5, in: "l1"))
        try await f.store.setScopes([one, two])
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c2'")
        try await f.store.setScopes([two])
        // Somebody had moved the one card elsewhere in its root before somebody moved the list to the other root.
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .applied(8)))
        try await page(f, list("l1", 9, in: "b2"), card("c2", 10, in: "l1"), upTo: 10)
        try await f.store.evictLeaving()
        let again = try await f.claim()
        try await f.settle((again.keys[0], .refused("forbidden")))
        #expect(try f.hasCard())
        #expect(try await page(f, upTo: 10).asksAgain)
        let (b2, l1, c2) = (board("b2", 4), list("l1", 9, in: "b2"), card("c2", 10, in: "l1"))
        if isThere {
            try await page(f, card("c1", 3, in: "l1"), b2, l1, c2, upTo: 10)
        } else {
            try await page(f, b2, l1, c2, upTo: 10)
        }
        #expect(try f.hasCard() == isThere)
        #expect(try f.hasCard("c2"))
    }

    // MARK: Looked for

    @Test(
        "DL-21 what stayed is looked for also where what was unsent of it is taken back, and nothing is sent any more")
    func takenBack() async throws {
        let f = try await Fixture.twoBoards()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        try await f.store.setScopes([two])
        // Somebody had moved the card before; the list is moved to a root that is asked for. The change waits for its time.
        #expect(try await !page(f, list("l1", 9, in: "b2"), upTo: 10).asksAgain)
        _ = try await f.store.cancel(try #require(f.changes().first?.id))
        try await f.store.evictLeaving()
        #expect(try f.hasCard())
        // So the next cycle closes a pull that brings nothing.
        #expect(try await f.store.position().isOpen)
        #expect(try await page(f, upTo: 10).asksAgain)
        try await page(f, board("b2", 4), list("l1", 9, in: "b2"), upTo: 10)
        #expect(try !f.hasCard())
        #expect(try await !f.store.position().isOpen)
    }

    @Test(
        "DL-21 a create without an answer that a full pass does not bring is looked for once it has its verdict",
        arguments: [true, false])
    func madeBeforeThePass(isThere: Bool) async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one])
        try f.insertCard("n")
        let claim = try await f.claim()
        // Done at 5, which nobody heard; and somebody may have moved it to a root that is not asked for.
        try await f.settle((claim.keys[0], .unanswered))
        try await f.store.beginFullPass(epoch: nil)
        let rest = [board("b1", 1), list("l1", 2, in: "b1"), card("c1", 3, in: "l1")]
        try await page(f, rest[0], rest[1], rest[2], upTo: 10)
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try await !page(f, upTo: 10).asksAgain)
        let again = try await f.claim()
        _ = try await f.store.settle(
            Settlement(outcomes: [.init(changeID: again.keys[0], kind: .applied(5), isRepeated: true)]), claim: nil)
        #expect(try f.hasCard("n"))
        #expect(try await page(f, upTo: 10).asksAgain)
        if isThere {
            try await page(f, rest[0], rest[1], rest[2], card("n", 5, in: "l1"), upTo: 10)
        } else {
            try await page(f, rest[0], rest[1], rest[2], upTo: 10)
        }
        #expect(try f.hasCard("n") == isThere)
        #expect(try f.hasCard())
    }

    @Test(
        "DL-21 PRC-04 killed in a full pass between a create's verdict and its page: it is looked for when the pass is over",
        arguments: [true, false])
    func madeInThePass(isThere: Bool) async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one])
        try await f.store.beginFullPass(epoch: nil)
        try f.insertCard("n")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(9)))
        // The page went with the process; before the next one from 0 somebody may have moved the card.
        let rest = [board("b1", 1), list("l1", 2, in: "b1"), card("c1", 3, in: "l1")]
        if isThere {
            try await page(f, rest[0], rest[1], rest[2], card("n", 9, in: "l1"), upTo: 10)
        } else {
            try await page(f, rest[0], rest[1], rest[2], upTo: 10)
        }
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try await page(f, upTo: 10).asksAgain == !isThere)
        if !isThere { try await page(f, rest[0], rest[1], rest[2], upTo: 10) }
        #expect(try f.hasCard("n") == isThere)
        #expect(try f.hasCard())
    }

    @Test("DL-21 an answer that lacks a verdict brings no page: a root that was made by it is asked what left it since")
    func verdictMissing() async throws {
        let f = try Fixture()
        let three = RecordKey("board", "b3")
        try await f.store.setScopes([three])
        try f.sql("INSERT INTO board (id, name) VALUES ('b3', 'Board')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l3', 'List', 'b3'), ('l4', 'List', 'b3')")
        let claim = try await f.claim()
        try await f.settle(
            (claim.keys[0], .applied(5)), (claim.keys[1], .applied(6)), (claim.keys[2], .unanswered))
        // Before the next request somebody moves the one list to where this device does not look.
        #expect(try await page(f, board("b3", 5), list("l4", 7, in: "b3"), upTo: 10).asksAgain)
        #expect(try await f.store.position().scopes == ["board:b3": 5])
    }

    @Test("DL-21 edits beside a repeated verdict do not hide what left the new root since then (seed 38746)")
    func editedWithTheRepeatedVerdict() async throws {
        let f = try Fixture()
        let three = RecordKey("board", "b3")
        try await f.store.setScopes([three])
        try f.sql("INSERT INTO board (id, name) VALUES ('b3', 'Board')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l3', 'List', 'b3')")
        let made = try await f.claim()
        // Done at 5 and 6, which nobody heard; somebody moves the list to where this device does not look, at 7.
        try await f.settle((made.keys[0], .unanswered), (made.keys[1], .unanswered))
        try f.sql("UPDATE board SET name = 'Mine'")
        try f.sql("UPDATE list SET name = 'Mine'")
        let claim = try await f.claim()
        #expect(claim.keys.prefix(2) == made.keys.prefix(2))
        let (board, list, first, second) = (claim.keys[0], claim.keys[1], claim.keys[2], claim.keys[3])
        _ = try await f.store.settle(
            Settlement(outcomes: [
                .init(changeID: board, kind: .applied(5), isRepeated: true),
                .init(changeID: list, kind: .applied(6), isRepeated: true),
                .init(changeID: first, kind: .applied(8)), .init(changeID: second, kind: .applied(9)),
            ]), claim: nil)
        #expect(try await page(f, self.board("b3", 8), upTo: 9).asksAgain)
        #expect(try await f.store.position().scopes == ["board:b3": 5])
        try await page(f, self.board("b3", 8), gone("list", "l3", 7), upTo: 9)
        #expect(try f.int("SELECT count(*) FROM list") == 0)
    }

    // MARK: Held, without a row

    @Test("DL-21 DAT-19 what an older program could not know of a dropped root does not come back with an upgrade")
    func unknownWhileDropped() async throws {
        let all = try boardSchema()
        let f = try Fixture(Schema(all.entities.filter { $0.name != "card" }))
        try await f.applyBoard()
        try await f.apply(board("b2", 4), list("l2", 5, in: "b2"), card("c2", 6, in: "l2"))
        #expect(try await f.store.position().held == 2)
        try await f.store.setScopes([one, two])
        try await f.store.setScopes([two])
        // Somebody moves the one card to where this device does not look.
        try await f.store.setScopes([one, two])
        try await page(f, board("b1", 1), list("l1", 2, in: "b1"), upTo: 9)
        try await f.store.close()
        let g = try Fixture(all, file: f.file)
        // All of it is asked for once more; where it is not, nothing has changed.
        if try await g.store.position().scopes == ["board:b1": 0, "board:b2": 0] {
            let (b1, l1) = (board("b1", 1), list("l1", 2, in: "b1"))
            try await page(g, b1, l1, board("b2", 4), list("l2", 5, in: "b2"), card("c2", 6, in: "l2"), upTo: 9)
        } else {
            try await page(g, upTo: 9)
        }
        #expect(try !g.hasCard())
        #expect(try g.hasCard("c2"))
    }

    @Test("DL-21 DAT-25 what does not fit its table goes with the root that it is in")
    func brokenWhileDropped() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one, two])
        try await page(f, record("card", "k", 5, ["name": 5, "idList": "l1", "pos": 1.0]), upTo: 5)
        #expect(try await f.store.position().held == 1)
        try await f.store.setScopes([two])
        #expect(try await f.store.position().held == 0)
    }

    // MARK: Rows of this device alone

    @Test("DL-21 a row that is kept on this device alone stays with what it stands under when the root is dropped")
    func localWhileDropped() async throws {
        let f = try await Fixture.twoBoards()
        try f.insertCard("n")
        try await f.store.keepLocal([RecordKey("card", "n")])
        try f.sql("INSERT INTO board (id, name) VALUES ('mine', 'Mine')")
        try await f.store.keepLocal([RecordKey("board", "mine")])
        try await f.store.setScopes([two])
        #expect(try f.hasCard("n"))
        #expect(try !f.hasCard())
        #expect(try f.text("SELECT group_concat(id) FROM (SELECT id FROM board ORDER BY id)") == "b1,b2,mine")
        try f.sql("DELETE FROM card WHERE id = 'n'")
        try await f.store.evictLeaving()
        #expect(try f.text("SELECT group_concat(id) FROM (SELECT id FROM board ORDER BY id)") == "b2,mine")
    }
}
