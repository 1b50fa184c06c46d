import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// What the simulator found, or led to, on devices that were restored or wiped, each in its smallest form.
@Suite("Found by the simulator: restored and wiped devices")
struct FoundLaterBySeedsTests {
    @Test("Seed 1389: a key that an earlier device used with other stamps was decided, and is no failure")
    func decidedUnderOtherStamps() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine', votes = votes + 3 WHERE id = 'c1'")
        // The backup was made before the clock was measured; then the stamp moved, and the change was sent.
        try f.sql("UPDATE sync_change SET device = 'restored-from'")
        let votes = try f.card("votes")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused("keyReused")))
        #expect(try await f.store.failures().isEmpty)
        #expect(try await f.store.queued().isEmpty)
        #expect(try f.card("name") == "Card")
        #expect(try f.text("SELECT detail FROM sync_event WHERE kind = 'expired'") == "keyReused")
        // What came of it is in the page; a second try under a new key would add the votes twice.
        try await f.apply(
            record("card", "c1", 9, ["name": "Mine", "idList": "l1", "pos": 1.0, "votes": .int(4)]))
        #expect(try f.card("name") == "Mine")
        #expect(try f.card("votes") == "4")
        #expect(votes != nil)
    }

    @Test("A key of this very device with other content is set aside: nobody else can have sent it")
    func ownKeyReused() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused("keyReused")))
        #expect(try await f.store.failures().map(\.reason.code) == ["keyReused"])
    }

    @Test(
        "Seed 6004: what was set aside without a verdict goes again as it was sent, though an earlier edit went meanwhile"
    )
    func setAsideUnsure() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'First', votes = votes + 2 WHERE id = 'c1'")
        let first = try await f.claim()
        try await f.settle((first.keys[0], .refused("tooLarge")))
        try f.sql("UPDATE card SET name = 'Second', votes = votes + 3 WHERE id = 'c1'")
        let second = try await f.claim()
        let tooLarge = SetAsideReason(code: "tooLarge", message: "no")
        try await f.settle((second.keys[0], .setAside(tooLarge, staysUncertain: true)))
        _ = try await f.store.retry(first.keys[0])
        let between = try await f.claim()
        #expect(between.told == ["update card c1"])
        try await f.settle((between.keys[0], .applied(9)))
        _ = try await f.store.retry(second.keys[0])
        let again = try await f.claim()
        #expect(again.keys == second.keys)
        #expect(again.changes.map(\.change.fields) == second.changes.map(\.change.fields))
        #expect(try f.card("name") == "Second")
        try await f.settle((again.keys[0], .applied(10)))
        #expect(try f.card("votes") == "6")
    }

    @Test("Seed 783: the row of a create that was decided unknown to us is held for what is unsent under it, no longer")
    func expiredAboveUnsent() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "Board"]))
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try f.insertCard("x", list: "n")
        let claim = try await f.claim()
        #expect(claim.told == ["create list n", "create card x"])
        try await f.settle((claim.keys[0], .refused("expired")), (claim.keys[1], .unanswered(attempts: 0)))
        #expect(try f.int("SELECT count(*) FROM list") == 1)
        #expect(try f.text("SELECT reason FROM sync_held WHERE id = 'n'") == "unsent")
        try await f.settle((claim.keys[1], .refused("missingReference")))
        #expect(try f.int("SELECT count(*) FROM list") == 1)
        _ = try await f.store.discard(claim.keys[1])
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 5222: a record whose create was refused, and that a page brought, is deleted on the server")
    func refusedAndThere() async throws {
        for (code, isHeard) in [("invalid", true), ("idTaken", false)] {
            let f = try Fixture()
            try await f.applyBoard()
            try f.insertCard("n")
            let create = try await f.claim()
            try await f.settle((create.keys[0], .refused(code)))
            // A retry had made it; then the power went, and took the retry along.
            try await f.apply(record("card", "n", 6, ["name": "New", "idList": "l1", "pos": 1.0]))
            try f.sql("DELETE FROM card WHERE id = 'n'")
            let claim = try await f.claim()
            #expect(claim.told == (isHeard ? ["delete card n"] : []))
            #expect(try await f.store.failures().isEmpty)
            #expect(try f.int("SELECT count(*) FROM card WHERE id = 'n'") == (isHeard ? 0 : 1))
            guard isHeard else { continue }
            #expect(claim.changes.map(\.change.baseVersion) == [6])
            try await f.settle((claim.keys[0], .applied(7)))
            #expect(try await f.store.queued().isEmpty)
        }
    }

    @Test("Seed 158: what waits in a list that was moved out of a board before the board died here is not forgotten")
    func movedAwayBeforeTheDelete() async throws {
        let f = try await heldBelowDeletedBoard()
        #expect(try await f.store.position().held == 2)
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(9)))
        // The page of the same answer; the card has no new version.
        try await f.apply(record("list", "l2", 8, ["name": "List", "idBoard": "b1"]))
        #expect(try f.text("SELECT name FROM card WHERE id = 'k'") == "Card")
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 1572: what is known to be dead does not wait for what died above it")
    func deadBelowTheDead() async throws {
        let f = try await heldBelowDeletedBoard()
        // As a delete of the card leaves it that was acknowledged while its list waited.
        try f.sql(
            "INSERT INTO sync_record (entity, id, version, base) VALUES ('card', 'k', 8, '{\"deleted\":true,\"fields\":{}}')"
        )
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(9)))
        #expect(try await f.store.position().held == 0)
    }

    /// A list, and a card in it, that are held since their board is deleted here, unsent.
    private func heldBelowDeletedBoard() async throws -> Fixture {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("board", "b2", 5, ["name": "Other"]))
        try f.sql("DELETE FROM board WHERE id = 'b2'")
        try await f.apply(
            record("list", "l2", 6, ["name": "List", "idBoard": "b2"]),
            record("card", "k", 7, ["name": "Card", "idList": "l2", "pos": 1.0]))
        return f
    }

    @Test("Seed 30001: what came under a list that lives again waits on, though the repeated verdict says that it died")
    func revivedBeforeTheRepeatedVerdict() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("list", "l2", 5, ["name": "List", "idBoard": "b1"]))
        try f.sql("DELETE FROM list WHERE id = 'l2'")
        let sent = try await f.claim()
        // Done at 6, and nobody heard of it; then another device's newer edit brought the list back, and a card with it.
        try await f.settle((sent.keys[0], .unanswered))
        try await f.apply(record("card", "k", 8, ["name": "Card", "idList": "l2", "pos": 1.0]))
        #expect(try await f.store.position().held == 1)
        let again = try await f.claim()
        _ = try await f.store.settle(
            Settlement(outcomes: [.init(changeID: again.keys[0], kind: .applied(6), isRepeated: true)]), claim: nil)
        // The list was edited once more; the card was not, and comes no second time.
        try await f.apply(record("list", "l2", 9, ["name": "Again", "idBoard": "b1"]))
        #expect(try f.text("SELECT name FROM card WHERE id = 'k'") == "Card")
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 62380: a delete that found nothing says nothing, when it is repeated, of what came to life since")
    func foundNothingAtFirst() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let sent = try await f.claim()
        // Dead with its list by then, and nobody heard of it; the list lives again, and the card with it.
        try await f.settle((sent.keys[0], .unanswered))
        try await f.apply(record("card", "c1", 8, ["name": "Back", "idList": "l1", "pos": 1.0]))
        let again = try await f.claim()
        let verdict = Settlement.Outcome.Kind.applied(version: nil, overwrote: [:], serverID: nil)
        _ = try await f.store.settle(
            Settlement(outcomes: [.init(changeID: again.keys[0], kind: verdict, isRepeated: true)]), claim: nil)
        #expect(try f.card("name") == "Back")
        #expect(try await f.store.queued().isEmpty)
    }

    @Test("Seed 3561: a list that was made and sent comes back with its board when the deletes of both are refused")
    func deletesRefusedOneByOne() async throws {
        let (f, keys) = try await sentAndDeletedWithItsBoard()
        try await f.settle(
            (keys[0], .applied(6)), (keys[1], .applied(7)), (keys[2], .applied(8)), (keys[4], .refused()))
        #expect(try f.text("SELECT name || idBoard FROM list WHERE id = 'n'") == "N2b2")
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 3561: a list that waits for its board is forgotten when it is given up")
    func givenUpWhileItWaits() async throws {
        let (f, keys) = try await sentAndDeletedWithItsBoard()
        try await f.settle((keys[0], .refused()))
        _ = try await f.store.discard(keys[0])
        #expect(try await f.store.position().held == 0)
        #expect(try f.int("SELECT count(*) FROM list WHERE id = 'n'") == 0)
    }

    /// A list of a board was made, edited, and deleted with the board; all of it was sent, and the delete of the list
    /// is refused while nothing else has a verdict.
    private func sentAndDeletedWithItsBoard() async throws -> (f: Fixture, keys: [String]) {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("board", "b2", 5, ["name": "Other"]))
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b2')")
        try f.sql("UPDATE board SET name = 'B2' WHERE id = 'b2'")
        try f.sql("UPDATE list SET name = 'N2' WHERE id = 'n'")
        let sent = try await f.claim()
        try f.sql("DELETE FROM board WHERE id = 'b2'")
        try await f.settle((sent.keys[0], .unanswered), (sent.keys[1], .unanswered), (sent.keys[2], .unanswered))
        let all = try await f.claim()
        #expect(
            all.told == [
                "create list n", "update board b2", "update list n", "delete list n", "delete board b2",
            ])
        try await f.settle(
            (all.keys[0], .unanswered), (all.keys[1], .unanswered), (all.keys[2], .unanswered),
            (all.keys[3], .refused()), (all.keys[4], .unanswered))
        #expect(try f.int("SELECT count(*) FROM list WHERE id = 'n'") == 0)
        #expect(try await f.store.position().held == 1)
        return (f, all.keys)
    }

    @Test("A restored copy sends the delete of what the device before it may have made; no word of it brings a row")
    func copysDeleteGoes() async throws {
        let words: [Settlement.Outcome.Kind] = [
            .applied(version: nil, overwrote: [:], serverID: nil), .applied(9), .refused("expired"),
            .refused("keyReused"), .refused("forbidden"),
        ]
        for (device, word) in [(nil, words[0])] + words.map({ ("restored-from", $0) }) as [(String?, _)] {
            let f = try Fixture()
            try await f.applyBoard()
            try f.insertCard("n")
            try f.sql("DELETE FROM card WHERE id = 'n'")
            if let device { try f.sql("UPDATE sync_change SET device = ?", [device]) }
            let claim = try await f.claim()
            #expect(claim.told == (device == nil ? [] : ["delete card n"]))
            guard device != nil else { continue }
            try await f.settle((claim.keys[0], word))
            #expect(try !f.hasCard("n"), "\(word)")
        }
    }

    /// A full pass brings the board, its list and these, and no tombstone; then the one change that is queued gets its verdict
    /// again.
    private func settleAfterFullPass(
        _ f: Fixture, _ others: [ServerRecord], _ verdict: Settlement.Outcome.Kind, confirmed: Bool, isThere: Bool
    ) async throws {
        try await f.store.beginFullPass(epoch: nil)
        let list = record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0])
        let live = [list] + others + [record("board", "b1", 9, ["name": "Board"])]
        _ = try await f.store.apply(PageSlice(records: live, from: 0, checkpoint: 9, epoch: Fixture.epoch))
        #expect(try await f.store.endFullPass(confirmed: confirmed) == .removed(0))
        let again = try await f.claim()
        _ = try await f.store.settle(
            Settlement(outcomes: [.init(changeID: again.keys[0], kind: verdict, isRepeated: true)]), claim: nil)
        #expect(try f.int("SELECT count(*) FROM sync_event WHERE kind = 'died'") == (isThere ? 0 : 1))
        #expect(try await f.store.queued().isEmpty)
    }

    @Test("Seed 42172: a create that was done once made a record that is dead by now where no page told of it")
    func forgottenTombstone() async throws {
        for (version, isThere) in [(5, false), (12, true)] as [(Int64, Bool)] {
            let f = try Fixture()
            try await f.applyBoard()
            try f.insertCard("n")
            let create = try await f.claim()
            try await f.settle((create.keys[0], .unanswered))
            // Somebody else deletes it; the server has forgotten that by now, and asks for a full pass.
            let card = record("card", "c1", 3, ["name": "Card", "idList": "l1", "pos": 1.0])
            try await settleAfterFullPass(f, [card], .applied(version), confirmed: false, isThere: isThere)
            #expect(try f.hasCard("n") == isThere)
            #expect(try await f.store.position().held == 0)
        }
    }

    @Test("Seed 2001453: the same for a create over what was dead here before")
    func forgottenTombstoneOfMadeAnew() async throws {
        for (version, isThere) in [(5, false), (12, true)] as [(Int64, Bool)] {
            let f = try Fixture()
            try await f.applyBoard()
            try f.sql("DELETE FROM card WHERE id = 'c1'")
            try await f.settle((try await f.claim().keys[0], .applied(4)))
            try f.insertCard()
            let create = try await f.claim()
            try #require(create.told == ["create card c1"])
            try await f.settle((create.keys[0], .unanswered))
            try await settleAfterFullPass(f, [], .applied(version), confirmed: true, isThere: isThere)
            #expect(try f.hasCard() == isThere)
        }
    }

    @Test("Seed 3697: a delete is refused that was taken back before: its inverse says what is there, and goes")
    func refusedAfterInverse() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let delete = try await f.claim()
        try await f.settle((delete.keys[0], .unanswered))
        guard case .inverse(let inverse) = try await f.store.cancel(delete.keys[0]) else {
            Issue.record("no inverse")
            return
        }
        try f.sql("UPDATE card SET name = 'Later' WHERE id = 'c1'")
        try await f.settle((delete.keys[0], .refused("forbidden")))
        let claim = try await f.claim()
        #expect(claim.told == ["update card c1"] && !claim.keys.contains(inverse))
        #expect(claim.changes.first?.change.fields["name"]?.old == "Card")
        #expect(try f.card("name") == "Later")
        #expect(try f.queued() == 2)
        #expect(try f.text("SELECT key FROM sync_event WHERE kind = 'cancelled'") == inverse)
    }

    @Test("Seed 2032: the same for an update that was done once; what came after the checkpoint is done to what lives")
    func forgottenTombstoneOfUpdated() async throws {
        func card(_ version: Int64) -> ServerRecord {
            record("card", "c1", version, ["name": "Mine", "idList": "l1", "pos": 1.0])
        }
        let verdicts: [(Settlement.Outcome.Kind, isThere: Bool)] = [
            (.applied(5), false), (.applied(12), true), (.merged(card(5)), false), (.merged(card(12)), true),
        ]
        for (verdict, isThere) in verdicts {
            let f = try Fixture()
            try await f.applyBoard()
            try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
            let update = try await f.claim()
            try await f.settle((update.keys[0], .unanswered))
            try await settleAfterFullPass(f, [], verdict, confirmed: true, isThere: isThere)
            #expect(try f.hasCard() == isThere)
        }
    }

    @Test("Seed 3984: the same for a delete that lost to what has died since; what is newer than the checkpoint shows")
    func forgottenTombstoneOfLostDelete() async throws {
        for (version, isThere) in [(5, false), (12, true)] as [(Int64, Bool)] {
            let f = try Fixture()
            try await f.applyBoard()
            try f.sql("DELETE FROM card WHERE id = 'c1'")
            let delete = try await f.claim()
            try await f.settle((delete.keys[0], .unanswered))
            try await f.store.beginFullPass(epoch: nil)
            let list = record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0])
            let live = [list, record("board", "b1", 9, ["name": "Board"])]
            _ = try await f.store.apply(PageSlice(records: live, from: 0, checkpoint: 9, epoch: Fixture.epoch))
            _ = try await f.store.endFullPass(confirmed: true)
            let again = try await f.claim()
            let theirs = record("card", "c1", version, ["name": "Theirs", "idList": "l1", "pos": 1.0])
            let outcome = Settlement.Outcome(changeID: again.keys[0], kind: .merged(theirs), isRepeated: true)
            _ = try await f.store.settle(Settlement(outcomes: [outcome]), claim: nil)
            #expect(try f.hasCard() == isThere)
            #expect(try f.int("SELECT count(*) FROM sync_event WHERE kind = 'deleteLost'") == 1)
            #expect(try f.int("SELECT count(*) FROM sync_event WHERE kind = 'died'") == (isThere ? 0 : 1))
            #expect(try await f.store.queued().isEmpty)
        }
    }

    @Test("Seed 2798: a record that waits for its parent is what it was when a refused change of it is given up")
    func givenUpWhileItsParentIsAway() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(
            record("list", "l2", 4, ["name": "Two", "idBoard": "b1", "pos": 2.0]),
            record("card", "c1", 5, ["name": "Card", "idList": "l2", "pos": 1.0]))
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        let delete = try await f.claim()
        try #require(delete.told == ["delete list l1"])
        try await f.settle((delete.keys[0], .refused("forbidden")))
        try await f.apply(record("card", "c1", 6, ["name": "Card", "idList": "l1", "pos": 1.0]))
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        let update = try await f.claim()
        try await f.settle((update.keys[0], .refused("forbidden")))
        // The delete goes again, and takes along what has come since.
        let again = try await f.store.retry(delete.keys[0])
        #expect(try !f.hasCard())
        _ = try await f.store.discard(update.keys[0])
        // What is in step is what waits, not a dead record.
        #expect(try f.text("SELECT base FROM sync_record WHERE id = 'c1'") == nil)
        let claim = try await f.claim()
        try #require(claim.keys == [again])
        try await f.settle(
            (again, .merged(record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]))))
        #expect(try f.card("idList") == "l1")
        #expect(try f.card("name") == "Card")
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 42267: what the server did just now is the last word, whatever later stamps there are here")
    func doneLater() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'First' WHERE id = 'c1'")
        let first = try await f.claim()
        try await f.settle((first.keys[0], .refused("forbidden")))
        // A refused update frees what comes after it.
        try f.sql("UPDATE card SET name = 'Second' WHERE id = 'c1'")
        let second = try await f.claim()
        try #require(second.told == ["update card c1"])
        try await f.settle((second.keys[0], .applied(9)))
        #expect(try f.card("name") == "Second")
        _ = try await f.store.retry(first.keys[0])
        let claim = try await f.claim()
        try #require(claim.told == ["update card c1"])
        // The stamp of the second was clamped to the server's time, which was before that of the first.
        try await f.settle((claim.keys[0], .applied(21)))
        #expect(try f.card("name") == "First")
    }

    @Test("Seed 59663: an edit that ended its create's refusal stays above an older one that is tried again")
    func endedRefusal() async throws {
        let f = try Fixture()
        let sent = try await f.refuseCardWithUnit(edited: "desc = 'first', due = '2026-11-21T08:00:00Z'")
        try f.sql("UPDATE card SET desc = 'second' WHERE id = 'n'")
        let mended = try await f.claim()
        try #require(mended.told == ["create card n"])
        _ = try await f.store.retry(sent[1])
        #expect(try f.card("desc", "n") == "second")
        // What the later edit does not name is as the older one has it.
        #expect(try f.card("due", "n") == "2026-11-21T08:00:00Z")
        try await f.settle((mended.keys[0], .applied(20)))
        let again = try await f.claim()
        try #require(again.told == ["update card n", "update list l1"])
        #expect(again.changes[0].change.fields["desc"]?.new == "second")
        try await f.settle((again.keys[0], .applied(21)), (again.keys[1], .applied(21)))
        #expect(try f.card("desc", "n") == "second")
    }

    @Test("SEC-11 a wipe leaves no byte of what had been deleted before it, either")
    func remnants() async throws {
        let f = try await scattered()
        try await f.store.wipe()
        try await f.store.close()
        #expect(try f.filesHold("SECRETWORD") == [])
    }

    @Test("PRC-20 killed between a wipe and the end of its traces, the next opening ends them")
    func remnantsAfterKill() async throws {
        let f = try await scattered()
        // What the wipe's transaction leaves where nothing comes after it.
        try await f.store.database.write { db in
            try RowWriter.applying(db) { try db.execute(sql: "DELETE FROM card; DELETE FROM list; DELETE FROM board") }
            try EngineTables.empty(db)
            try Remnants.mark(db)
        }
        try await f.store.close()
        #expect(try f.filesHold("SECRETWORD") != [])
        let again = try Fixture(file: f.file)
        try await again.store.close()
        #expect(try again.filesHold("SECRETWORD") == [])
        #expect(try Fixture(file: f.file).int("SELECT count(*) FROM sync_meta WHERE key = 'wiping' AND value = 1") == 0)
    }

    /// A file in which rows with a telling word came and went.
    private func scattered() async throws -> Fixture {
        let f = try Fixture()
        // Some builds of SQLite do it by themselves.
        try await f.store.database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA secure_delete = OFF") }
        try await f.applyBoard()
        for number in 0..<200 {
            try f.insertCard("x\(number)", name: "SECRETWORD \(number) \(String(repeating: "-", count: number * 7))")
        }
        try await f.drain()
        try f.sql("DELETE FROM card WHERE id LIKE 'x%' AND id NOT LIKE '%7'")
        try await f.drain(from: 5_000)
        return f
    }
}

extension Fixture {
    /// The files beside and with the database that hold a word.
    fileprivate func filesHold(_ word: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: file.folder.path).sorted().filter { name in
            try Data(contentsOf: file.folder.appendingPathComponent(name)).range(of: Data(word.utf8)) != nil
        }
    }
}
