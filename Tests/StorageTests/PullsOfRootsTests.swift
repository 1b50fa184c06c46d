import GRDB
import SyncCore
import Testing

@testable import Storage

/// What of the roots that are asked for is here at which moment (Decisions 191 and 192).
@Suite("Pulls of chosen roots")
struct PullsOfRootsTests: AskingForRoots {
    @Test(
        "DL-21 seed 124: what waits for a page of a root that was dropped goes once nothing is to come, with what waits for it"
    )
    func droppedBetweenPages() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one, two])
        try await page(
            f, card("k1", 5, in: "later1"), card("k2", 6, in: "later2"),
            record("card", "k3", 7, ["name": "Twin", "idList": "l1", "pos": 1.0, "idTwin": "k2"]), upTo: 7,
            hasMore: true)
        #expect(try await f.store.position().held >= 2)
        try await f.store.setScopes([one])
        try await page(f, card("k1", 5, in: "later1"), upTo: 7, hasMore: true)
        #expect(try f.int("SELECT count(*) FROM sync_held WHERE id IN ('k1', 'k2')") == 2, "more is to come")
        try await page(f, list("later1", 8, in: "b1"), upTo: 9)
        #expect(try f.text("SELECT idList FROM card WHERE id = 'k1'") == "later1")
        #expect(try await f.store.position().held == 0)
        #expect(try f.int("SELECT count(*) FROM sync_record WHERE id = 'k2'") == 0)
    }

    @Test("DL-21 what waits for a record that an unsent delete hides, or that is held itself, is not let go")
    func waitsForWhatIsHidden() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one])
        try f.sql("DELETE FROM card; DELETE FROM list")
        try await page(f, card("k1", 5, in: "l1"), upTo: 6)
        #expect(try f.int("SELECT count(*) FROM sync_held WHERE id = 'k1'") == 1)
    }

    @Test("DL-21 a pull that closes lets nothing go for a root that was added meanwhile and stands lower or higher")
    func addedMeanwhile() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one])
        let asked = try await f.store.position().scopes
        try await page(f, card("k1", 5, in: "later"), upTo: 8, hasMore: true)
        // A late copy of an answer that left nothing to come at its time.
        _ = try await f.store.apply(
            PageSlice(records: [], from: 0, checkpoint: 6, epoch: Fixture.epoch, scopes: asked))
        #expect(try await f.store.position().held == 1)
    }

    @Test(
        "DL-21 a root that is dropped within a pull takes the others back to where the pull began: of what left them for it nobody may tell later"
    )
    func rolledBack() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one, two])
        // The list moved to the second board, and was changed there: it stands on a later page.
        try await page(f, record("board", "b1", 6, ["name": "Newer"]), upTo: 7, hasMore: true)
        #expect(try await f.store.position().scopes == ["board:b1": 7, "board:b2": 7])
        try await f.store.setScopes([one])
        #expect(try await f.store.position().scopes == ["board:b1": 4])
        #expect(try await f.store.position().isOpen)
        // Its leave is told now.
        try await page(f, record("list", "l1", 5, [:], .gone), upTo: 9)
        #expect(try f.int("SELECT (SELECT count(*) FROM list) + (SELECT count(*) FROM card)") == 0)
        #expect(try await f.store.position().isOpen == false)
    }

    @Test("DL-21 a root that is dropped between pulls moves nobody's checkpoint")
    func notRolledBack() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one, two])
        try await page(f, record("board", "b1", 6, ["name": "Newer"]), upTo: 7, hasMore: true)
        try await page(f, upTo: 8)
        try await f.store.setScopes([one])
        #expect(try await f.store.position().scopes == ["board:b1": 8])
    }

    @Test("DL-21 a first pull that is broken off begins at 1, not at 0: who begins at 0 is told of nothing that left")
    func rolledBackToTheFirst() async throws {
        let f = try Fixture()
        try await f.store.setScopes([one, two])
        try await page(f, record("board", "b1", 1, ["name": "Board"]), upTo: 3, hasMore: true)
        try await f.store.setScopes([one])
        #expect(try await f.store.position().scopes == ["board:b1": 1])
        // Nothing came of the other one.
        try await f.store.setScopes([one, two])
        try await f.store.setScopes([two])
        #expect(try await f.store.position().scopes == ["board:b2": 0])
    }

    @Test("DL-21 who held everything and chooses roots within a pull begins where the pull began")
    func chosenWithinAPull() async throws {
        let f = try await Fixture.twoBoards()
        _ = try await f.store.apply(
            PageSlice(
                records: [card("k1", 6, in: "l1")], from: 4, checkpoint: 6, epoch: Fixture.epoch, hasMore: true))
        try await f.store.setScopes([one])
        #expect(try await f.store.position().scopes == ["board:b1": 4])
        let g = try await Fixture.twoBoards()
        _ = try await g.store.apply(
            PageSlice(
                records: [card("k1", 6, in: "l1")], from: 4, checkpoint: 6, epoch: Fixture.epoch, hasMore: true))
        _ = try await g.store.apply(PageSlice(records: [], from: 4, checkpoint: 7, epoch: Fixture.epoch))
        try await g.store.setScopes([one])
        #expect(try await g.store.position().scopes == ["board:b1": 7])
    }

    @Test("DL-21 a root that is dropped within a full pass begins the pass anew: what it brought may have left since")
    func droppedInAPass() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one, two])
        try await f.store.beginFullPass(epoch: nil)
        try await page(f, list("l1", 2, in: "b1"), card("c1", 3, in: "l1"), upTo: 3, hasMore: true)
        try await f.store.setScopes([one])
        #expect(try await f.store.position().scopes == ["board:b1": 0])
        #expect(try await f.store.position().isInFullPass)
        try await page(f, record("board", "b1", 1, ["name": "Board"]), upTo: 9)
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try f.text("SELECT group_concat(id) FROM board") == "b1")
    }

    @Test(
        "DL-21 a root that comes back before it had left is asked for everything from 0 first, then what left it since")
    func comesBack() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one, two])
        try f.sql("UPDATE card SET name = 'Unsent' WHERE id = 'c1'")
        try await f.store.setScopes([two])
        try await page(f, upTo: 8)
        #expect(try f.int("SELECT count(*) FROM card") == 1)
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(9)))
        try await f.store.setScopes([one, two])
        #expect(try await f.store.position().scopes == ["board:b1": 0, "board:b2": 8])
        // A part of it, and the root goes on from there.
        try await page(f, record("board", "b1", 1, ["name": "Board"]), upTo: 1, hasMore: true)
        #expect(try await f.store.position().scopes == ["board:b1": 1, "board:b2": 8])
        let report = try await page(f, list("l2", 3, in: "b1"), card("k1", 11, in: "l2"), upTo: 12)
        #expect(report.asksAgain)
        #expect(try f.int("SELECT count(*) FROM card") == 2)
        #expect(try await f.store.position().scopes == ["board:b1": 4, "board:b2": 12])
        // Also what left it after the first of the two answers is told.
        let last = try await page(f, record("list", "l1", 13, [:], .gone), upTo: 13)
        #expect(!last.asksAgain)
        #expect(try f.text("SELECT group_concat(idList) FROM card") == "l2")
        #expect(try await f.store.position().scopes == ["board:b1": 13, "board:b2": 13])
    }

    @Test(
        "DL-21 a root that comes back and is dropped again on its way keeps the place from which it tells what left it")
    func droppedOnItsWayBack() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one, two])
        try f.sql("UPDATE card SET name = 'Unsent' WHERE id = 'c1'")
        try await f.store.setScopes([two])
        try await f.store.setScopes([one, two])
        try await page(f, record("board", "b1", 1, ["name": "Board"]), upTo: 3, hasMore: true)
        try await f.store.setScopes([two])
        try await f.store.setScopes([one, two])
        try await page(f, upTo: 12)
        #expect(try await f.store.position().scopes == ["board:b1": 4, "board:b2": 12])
    }

    @Test(
        "DL-21 seed 3411: a root made here and asked for later is asked what left it since, too; a new one is not"
    )
    func askedForLater() async throws {
        let f = try Fixture()
        try await f.store.setScopes([])
        try f.sql("INSERT INTO board (id, name) VALUES ('b3', 'Board')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l3', 'List', 'b3')")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(5)), (claim.keys[1], .applied(6)))
        try f.sql("INSERT INTO board (id, name) VALUES ('b4', 'New')")
        let three = RecordKey("board", "b3")
        try await f.store.setScopes([three, RecordKey("board", "b4")])
        #expect(try await f.store.position().scopes == ["board:b3": 0, "board:b4": 0])
        let report = try await page(f, upTo: 10)
        #expect(report.asksAgain)
        #expect(try await f.store.position().scopes == ["board:b3": 5, "board:b4": 10])
        try await page(f, record("list", "l3", 9, [:], .gone), upTo: 10)
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        // In a full pass what is not brought goes anyway.
        try await f.store.setScopes([])
        try f.sql("INSERT INTO board (id, name) VALUES ('b5', 'Last')")
        let last = try await f.claim()
        try await f.settle((last.keys[0], .applied(11)), (last.keys[1], .applied(12)))
        try await f.store.beginFullPass(epoch: nil)
        try await f.store.setScopes([RecordKey("board", "b5")])
        #expect(try await f.store.position().scopes == ["board:b5": 0])
    }

    @Test(
        "DL-21 DL-10 after chosen roots, everything is a full pass: nobody may know any more what died of them long ago"
    )
    func everythingAfterRoots() async throws {
        let f = try await Fixture.twoBoards()
        for n in 3...6 { try await f.apply(record("board", "b\(n)", Int64(n) + 2, ["name": "Board"])) }
        try await f.store.setScopes(Set((1...6).map { RecordKey("board", "b\($0)") }))
        try await f.store.setScopes(nil)
        let position = try await f.store.position()
        #expect(position.isInFullPass && position.checkpoint == 0 && position.scopes == nil)
        // The tombstone of the card is not told any more.
        let boards = (1...6).map { record("board", "b\($0)", Int64($0) + 2, ["name": "Board"]) }
        let slice = PageSlice(
            records: boards + [list("l1", 9, in: "b1")], from: 0, checkpoint: 20, epoch: Fixture.epoch)
        _ = try await f.store.apply(slice)
        #expect(try await f.store.endFullPass(confirmed: false) == .removed(1))
        #expect(try !f.hasCard())
        #expect(try f.int("SELECT count(*) FROM board") == 6)
    }

    @Test(
        "DL-21 seeds 2783 and 7624: everything is asked for again, and a root before that has come: what left it since goes with the pass"
    )
    func everythingInBetween() async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one])
        try await f.store.setScopes(nil)
        try await f.store.setScopes([one, RecordKey("board", "b9")])
        let position = try await f.store.position()
        #expect(position.isInFullPass && position.scopes == ["board:b1": 0, "board:b9": 0])
        // Another device has moved the list to a board that is not asked for.
        try await page(f, record("board", "b1", 1, ["name": "Board"]), upTo: 10)
        #expect(try await f.store.endFullPass(confirmed: true) == .removed(2))
        #expect(try f.int("SELECT count(*) FROM list") == 0)
    }

    @Test(
        "DL-21 seed 21063: what only a verdict told of in a full pass is looked for afterwards, and goes if it is elsewhere by now",
        arguments: [false, true], [false, true])
    func movedBeforeThePass(isSentInIt: Bool, isThere: Bool) async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one])
        // Somebody has moved the card to a root that is not asked for; or nobody has, and pages leave out what is this device's own.
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        try await f.store.beginFullPass(epoch: nil)
        let claim = try await f.claim()
        if isSentInIt { try await f.settle((claim.keys[0], .applied(9))) }
        let (board, list) = (record("board", "b1", 1, ["name": "Board"]), list("l1", 2, in: "b1"))
        try await page(f, board, list, upTo: 10)
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.hasCard())
        if !isSentInIt { try await f.settle((claim.keys[0], .applied(9))) }
        #expect(try await page(f, upTo: 10).asksAgain)
        #expect(try await f.store.position().scopes == ["board:b1": 0])
        // A change that goes with the request: its page may leave the card out, so it is looked for once more.
        try f.sql("UPDATE card SET name = 'Again' WHERE id = 'c1'")
        let next = try await f.claim()
        try await f.settle((next.keys[0], .applied(11)))
        #expect(try await page(f, board, list, upTo: 11).asksAgain)
        #expect(try f.hasCard())
        let told = isThere ? [record("card", "c1", 11, ["name": "Again", "idList": "l1", "pos": 1.0])] : []
        let asked = try await f.store.position().scopes
        let last = try await f.store.apply(
            PageSlice(
                records: [board, list] + told, from: 0, checkpoint: 11, epoch: Fixture.epoch, scopes: asked))
        #expect(!last.asksAgain)
        #expect(try f.hasCard() == isThere)
    }

    @Test(
        "DL-21 DL-10 seed 52973: what stayed after a pass over another history is looked for, although no version of it is held",
        arguments: [false, true])
    func stayedInAnotherHistory(isThere: Bool) async throws {
        let f = try await Fixture.twoBoards()
        try await f.store.setScopes([one])
        try f.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        try f.sql("INSERT INTO card (id, name, idList, pos) VALUES ('c9', 'Card', 'l1', 9)")
        let sent = try await f.claim()
        try await f.settle((sent.keys[0], .unanswered), (sent.keys[1], .unanswered))
        try await f.store.beginFullPass(epoch: "e-2")
        // In the history before, somebody had moved the list here from a root that is not asked for; or what is this device's own is left out.
        let board = record("board", "b1", 1, ["name": "Board"])
        try await page(f, board, upTo: 3, epoch: "e-2")
        _ = try await f.store.endFullPass(confirmed: true)
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(4)), (claim.keys[1], .applied(5)))
        #expect(try await page(f, upTo: 5, epoch: "e-2").asksAgain)
        #expect(try await f.store.position().scopes == ["board:b1": 0])
        let mine = record("list", "l1", 4, ["name": "Mine", "idBoard": "b1", "pos": 1.0])
        if isThere {
            try await page(f, board, mine, card("c9", 5, in: "l1"), upTo: 5, epoch: "e-2")
        } else {
            try await page(f, board, upTo: 5, epoch: "e-2")
        }
        #expect(try f.text("SELECT name FROM list") == (isThere ? "Mine" : nil))
        #expect(try f.text("SELECT id FROM card") == (isThere ? "c9" : nil))
    }

    @Test(
        "DL-21 PRC-04 killed between verdicts and page: the root whose rows were acknowledged is asked what left it since"
    )
    func killedBeforeThePage() async throws {
        let f = try Fixture()
        try await f.store.setScopes([RecordKey("board", "b3")])
        try f.sql("INSERT INTO board (id, name) VALUES ('b3', 'Board')")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(5)))
        let opening = try #require(try await f.store.beginCycle(holder: "next", seconds: 10))
        #expect(opening.position.scopes == ["board:b3": 0])
        #expect(try await page(f, upTo: 10).asksAgain)
        #expect(try await f.store.position().scopes == ["board:b3": 5])
    }

    @Test(
        "DL-21 seed 2260045 with `--single`: acknowledged and edited before any page of its root came: so is what left it since it was made"
    )
    func editedBeforeThePage() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b3', 'Board')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l3', 'List', 'b3')")
        try await f.store.setScopes([RecordKey("board", "b3")])
        let limits = ClaimLimits(maxChanges: 1, merges: false)
        var claim = try await f.claim(limits)
        func settle(_ version: Int64) async throws {
            let outcome = Settlement.Outcome(changeID: claim.keys[0], kind: .applied(version))
            claim = try await f.store.settle(Settlement(outcomes: [outcome]), claim: limits)
        }
        try await settle(5)
        try await settle(6)
        // Somebody moves the list away, at 7.
        try f.sql("UPDATE board SET name = 'Other' WHERE id = 'b3'")
        try f.sql("UPDATE list SET name = 'Other' WHERE id = 'l3'")
        claim = try await f.claim(limits)
        await f.store.prepare(after: claim, limits: limits)
        try await settle(8)
        try await settle(9)
        _ = try await f.store.beginCycle(holder: "next", seconds: 10)
        #expect(try await page(f, record("board", "b3", 8, ["name": "Other"]), upTo: 10).asksAgain)
        #expect(try await f.store.position().scopes == ["board:b3": 5])
        try await page(f, record("list", "l3", 7, [:], .gone), upTo: 10)
        #expect(try f.int("SELECT count(*) FROM list") == 0)
    }

    @Test(
        "DL-21 seed 9099: made and sent, a root is asked for before the verdict, which is repeated then: so is what left it since"
    )
    func repeatedBesideThePage() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b3', 'Board')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l3', 'List', 'b3')")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .unanswered))
        try await f.store.setScopes([RecordKey("board", "b3")])
        let again = try await f.claim()
        _ = try await f.store.settle(
            Settlement(
                outcomes: [
                    .init(changeID: again.keys[0], kind: .applied(5), isRepeated: true),
                    .init(changeID: again.keys[1], kind: .applied(6), isRepeated: true),
                ]), claim: nil)
        #expect(try await f.store.position().scopes == ["board:b3": 0])
        #expect(try await page(f, record("board", "b3", 5, ["name": "Board"]), upTo: 10).asksAgain)
        #expect(try await f.store.position().scopes == ["board:b3": 5])
        try await page(f, record("list", "l3", 9, [:], .gone), upTo: 10)
        #expect(try f.int("SELECT count(*) FROM list") == 0)
    }

    @Test(
        "DL-21 seed 14037: a create was done once, and pages went past that and did not tell of it: it is looked for, and goes if it is elsewhere",
        arguments: [false, true], [false, true])
    func repeatedBehindThePage(isMerged: Bool, isThere: Bool) async throws {
        let f = try Fixture()
        try await f.store.setScopes([RecordKey("board", "b3")])
        try f.sql("INSERT INTO board (id, name) VALUES ('b3', 'Board')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l3', 'List', 'b3')")
        let claim = try await f.claim()
        // Done at 5 and 6; nobody heard it, and somebody moves the list to where this device does not look. Who begins at 0 is not told.
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .unanswered))
        let board = record("board", "b3", 5, ["name": "Board"])
        #expect(try await !page(f, board, upTo: 10).asksAgain)
        let again = try await f.claim()
        let made = list("l3", 6, in: "b3")
        _ = try await f.store.settle(
            Settlement(
                outcomes: [
                    .init(changeID: again.keys[0], kind: .applied(5), isRepeated: true),
                    .init(changeID: again.keys[1], kind: isMerged ? .merged(made) : .applied(6), isRepeated: true),
                ]), claim: nil)
        #expect(try f.text("SELECT id FROM list") == "l3")
        #expect(try await f.store.position().isOpen, "it is looked for without news")
        #expect(try await page(f, upTo: 10).asksAgain)
        #expect(try await f.store.position().scopes == ["board:b3": 0])
        let last = try await isThere ? page(f, board, made, upTo: 10) : page(f, board, upTo: 10)
        #expect(!last.asksAgain)
        #expect(try f.text("SELECT id FROM list") == (isThere ? "l3" : nil))
        #expect(try await !f.store.position().isOpen)
    }

    @Test(
        "DL-21 a create was done once, and a page told of it since, or its root is not asked for: nothing more is looked for"
    )
    func repeatedBehindItsPage() async throws {
        let f = try Fixture()
        try await f.store.setScopes([RecordKey("board", "b3")])
        try f.sql("INSERT INTO board (id, name) VALUES ('b3', 'Board'), ('b9', 'Another')")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .unanswered))
        try await page(f, record("board", "b3", 5, ["name": "Board"]), upTo: 10)
        let again = try await f.claim()
        _ = try await f.store.settle(
            Settlement(
                outcomes: [
                    .init(changeID: again.keys[0], kind: .applied(5), isRepeated: true),
                    .init(changeID: again.keys[1], kind: .applied(6), isRepeated: true),
                ]), claim: nil)
        #expect(try await !f.store.position().isOpen)
        #expect(try await !page(f, upTo: 10).asksAgain)
    }

    @Test("Roots as an earlier program wrote them are read")
    func earlierForm() throws {
        let scopes = try #require(try Scopes(json: #"{"asked":{"board:b1":4},"leaving":["board:b2"]}"#))
        #expect(scopes.asked == ["board:b1": 4])
        #expect(scopes.leaving == ["board:b2": 0])
        #expect(scopes.open == nil)
    }
}
