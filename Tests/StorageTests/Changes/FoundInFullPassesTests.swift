import GRDB
@testable import Storage
import SyncCore
import Testing

/// What the simulator found in full passes and in other histories, each in its smallest form.
@Suite("Found by the simulator: full passes and other histories")
struct FoundInFullPassesTests {
    @Test("Seed 46: what a full pass does not bring, and a card under it held up, goes when that is decided")
    func heldByPass() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("board", "b2", 4, ["name": "Other"]))
        try f.insertCard("n")
        try await f.store.beginFullPass(epoch: nil)
        _ = try await f.store.apply(
            PageSlice(
                records: [record("board", "b1", 1, ["name": "Board"]), record("board", "b2", 4, ["name": "Other"])],
                from: 0, checkpoint: 5, epoch: Fixture.epoch))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.int("SELECT count(*) FROM list") == 1)
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .merged(record("card", "n", 9, [:], .deleted))))
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 4: in a new epoch a dead board goes when the refused list under it is given up")
    func heldInNewEpoch() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "Board"]), record("board", "b2", 2, ["name": "B"]))
        try f.sql("UPDATE board SET name = 'Mine' WHERE id = 'b1'")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'N', 'b1')")
        try await f.store.beginFullPass(epoch: "e-2")
        _ = try await f.store.apply(
            PageSlice(records: [record("board", "b2", 1, ["name": "B"])], from: 0, checkpoint: 1, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused("notFound")), (claim.keys[1], .refused("missingReference")))
        #expect(try f.int("SELECT count(*) FROM board WHERE id = 'b1'") == 1)
        for failure in try await f.store.failures() { _ = try await f.store.discard(failure.queued.change.id) }
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try f.int("SELECT count(*) FROM board WHERE id = 'b1'") == 0)
        #expect(try await f.store.position().held == 0)
    }

    @Test("Seed 252: in another history a record's page tells what is lost, whatever verdict came before it")
    func verdictBeforePage() async throws {
        for kind in ["merged", "applied", "conflict"] {
            let f = try Fixture()
            try await f.applyBoard()
            try f.sql("UPDATE card SET closed = 1 WHERE id = 'c1'")
            try await f.drain(from: 3)
            try f.sql("UPDATE card SET name = 'Mine', desc = 'mine' WHERE id = 'c1'")
            try await f.store.beginFullPass(epoch: "e-2")
            let claim = try await f.claim()
            // This history never wrote `closed`, nor the votes as they were.
            var theirs = record(
                "card", "c1", 9, ["name": "Mine", "idList": "l1", "pos": 1.0, "votes": 5, "desc": "mine"])
            switch kind {
            case "merged":
                theirs.fields["name"] = "Theirs"
                try await f.settle((claim.keys[0], .merged(theirs)))
                #expect(try f.card("name") == "Theirs")
            case "conflict":
                theirs.fields["desc"] = "theirs"
                let next = FieldDelta(old: "theirs", new: "both", rule: .check)
                try await f.settle((claim.keys[0], .conflict(theirs, successor: ["desc": next])))
                #expect(try f.card("desc") == "both")
            default:
                try await f.settle((claim.keys[0], .applied(9)))
                // The next edit says no version either: else its page could leave the record out.
                try f.sql("UPDATE card SET name = 'More' WHERE id = 'c1'")
                let next = try await f.claim()
                #expect(next.changes.map(\.change.baseVersion) == [nil])
                theirs.fields["name"] = "More"
                theirs.version = 10
                try await f.settle((next.keys[0], .applied(10)))
            }
            #expect(try f.card("closed") == "1")
            _ = try await f.store.apply(
                PageSlice(
                    records: [
                        record("board", "b1", 1, ["name": "Board"]),
                        record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]), theirs,
                    ], from: 0, checkpoint: theirs.version, epoch: "e-2"))
            _ = try await f.store.endFullPass(confirmed: false)
            #expect(try f.card("closed") == nil)
            #expect(try f.card("votes") == "5")
            let lost = try await f.store.conflicts().filter { $0.kind == "lostByServer" }
            #expect(Set(lost.compactMap(\.field)) == ["closed", "votes"], "\(kind)")
            try await f.drain(from: 10)
            #expect(try f.card("desc") == (kind == "conflict" ? "both" : "mine"))
        }
    }

    @Test("In another history an acknowledged create stands for its page, which may leave it out")
    func createBeforePage() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try f.insertCard("c1", name: "New")
        try f.insertCard("n", name: "N")
        try await f.store.beginFullPass(epoch: "e-2")
        let claim = try await f.claim()
        #expect(claim.told == ["delete card c1", "create card c1", "create card n"])
        try await f.settle(
            (claim.keys[0], .applied(version: nil, overwrote: [:], serverID: nil)), (claim.keys[1], .applied(3)),
            (claim.keys[2], .applied(4)))
        _ = try await f.store.apply(
            PageSlice(
                records: [
                    record("board", "b1", 1, ["name": "Board"]),
                    record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]),
                ], from: 0, checkpoint: 4, epoch: "e-2"))
        #expect(try await f.store.endFullPass(confirmed: false) == .removed(0))
        #expect(try f.card("name", "c1") == "New")
        #expect(try f.card("name", "n") == "N")
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'c1'") == 3)
    }

    @Test("Seed 7376: a pass that waits for the app's word begins anew: what it brought may have died, unheard")
    func begunAnewWhileItWaits() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.store.beginFullPass(epoch: nil)
        let board = record("board", "b1", 1, ["name": "Board"])
        func page(_ records: ServerRecord..., upTo version: Int64) async throws {
            _ = try await f.store.apply(
                PageSlice(records: records, from: 0, checkpoint: version, epoch: Fixture.epoch))
        }
        try await page(board, upTo: 1)
        #expect(try await f.store.endFullPass(confirmed: false) == .awaitsConfirmation(missing: 2, of: 3))
        try await page(record("list", "l2", 5, ["name": "List", "idBoard": "b1"]), upTo: 5)
        try await f.store.beginFullPass(epoch: nil)
        let position = try await f.store.position()
        #expect(position.checkpoint == 0 && position.isInFullPass && !position.awaitsConfirmation)
        try await page(board, upTo: 9)
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.text("SELECT group_concat(id) FROM board") == "b1")
        #expect(try f.int("SELECT count(*) FROM list") == 0)
    }

    @Test("A pass that is begun while it runs begins anew: whoever asks was told not to go on from where it is")
    func begunAnewWhileItRuns() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.store.beginFullPass(epoch: "e-2")
        _ = try await f.store.apply(
            PageSlice(records: [record("board", "b1", 1, ["name": "Board"])], from: 0, checkpoint: 1, epoch: "e-2"))
        try await f.store.beginFullPass(epoch: "e-2")
        let position = try await f.store.position()
        #expect(position.checkpoint == 0 && position.isInFullPass)
        // What it had brought counts as not brought, and is lost once only.
        #expect(try await f.store.endFullPass(confirmed: false) == .awaitsConfirmation(missing: 3, of: 3))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.int("SELECT count(*) FROM sync_conflict WHERE kind = 'lostByServer' AND id = 'b1'") == 1)
    }

    @Test("What a pass brought longer ago than tombstones are surely kept may be dead by now, by the server's clock")
    func outlived() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        let day: Int64 = 86_400_000
        try await f.store.setClockOffset(milliseconds: -day)
        try await f.store.beginFullPass(epoch: nil)
        for (offset, isOutlived) in [(88 * day - 1, false), (88 * day + 1_001, true)] {
            // More than a second, for an offset to count as another one.
            try await f.store.setClockOffset(milliseconds: offset)
            let position = try await f.store.position()
            #expect(position.mayBeOutlived(atMilliseconds: FixedClock().nowMilliseconds) == isOutlived)
        }
        try await f.store.beginFullPass(epoch: nil)
        #expect(try await !f.store.position().mayBeOutlived(atMilliseconds: FixedClock().nowMilliseconds))
    }

    @Test("Seed 883: a repeated verdict does not stand for a full pass's page: the record may be long gone")
    func repeatedInPass() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        try f.insertCard("fresh")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .unanswered))
        // Its tombstone is forgotten by the time of the pass.
        try await f.store.beginFullPass(epoch: nil)
        let again = try await f.claim()
        _ = try await f.store.settle(
            Settlement(outcomes: [
                .init(changeID: again.keys[0], kind: .applied(4), isRepeated: true),
                .init(changeID: again.keys[1], kind: .applied(9)),
            ]), claim: nil)
        _ = try await f.store.apply(
            PageSlice(
                records: [
                    record("board", "b1", 1, ["name": "Board"]),
                    record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]),
                    record("card", "c1", 3, ["name": "Card", "idList": "l1", "pos": 1.0]),
                ], from: 0, checkpoint: 9, epoch: Fixture.epoch))
        #expect(try await f.store.endFullPass(confirmed: true) == .removed(1))
        #expect(try !f.hasCard("n"))
        // What was decided in this pass may be left out by its page.
        #expect(try f.hasCard("fresh"))
    }

    @Test("Seed 883: in a full pass, what goes with its parent and was not brought yet is not waited for")
    func goneInPass() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.store.beginFullPass(epoch: nil)
        // The card's tombstone is forgotten, the list's is not.
        _ = try await f.store.apply(
            PageSlice(
                records: [record("board", "b1", 1, ["name": "Board"]), record("list", "l1", 8, [:], .deleted)], from: 0,
                checkpoint: 8, epoch: Fixture.epoch))
        #expect(try await f.store.position().held == 0)
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try !f.hasCard())
        #expect(try f.int("SELECT count(*) FROM sync_record WHERE id = 'c1'") == 0)
    }

    @Test("Seed 883: in another history a repeated create waits for its page, too")
    func repeatedInAnotherHistory() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        try f.insertCard("gone")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .unanswered))
        try await f.store.beginFullPass(epoch: "e-2")
        let again = try await f.claim()
        _ = try await f.store.settle(
            Settlement(outcomes: again.keys.map { .init(changeID: $0, kind: .applied(4), isRepeated: true) }),
            claim: nil)
        try f.sql("UPDATE card SET name = 'More' WHERE id = 'n'")
        let next = try await f.claim()
        // With a base version its page could leave it out.
        #expect(next.changes.map(\.change.baseVersion) == [nil])
        try await f.settle((next.keys[0], .applied(9)))
        _ = try await f.store.apply(
            PageSlice(
                records: [
                    record("board", "b1", 1, ["name": "Board"]),
                    record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]),
                    record("card", "c1", 3, ["name": "Card", "idList": "l1", "pos": 1.0]),
                    record("card", "n", 9, ["name": "More", "idList": "l1", "pos": 1.0]),
                ], from: 0, checkpoint: 9, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.card("name", "n") == "More")
        #expect(try !f.hasCard("gone"))
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'n'") == 9)
    }

    @Test(
        "DL-09 another history in which a record lives that was dead in the old one has lost its delete, and no value")
    func aliveAgain() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(4)))
        try await f.store.beginFullPass(epoch: "e-2")
        _ = try await f.store.apply(
            PageSlice(
                records: [
                    record("board", "b1", 1, ["name": "Board"]),
                    record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]),
                    record("card", "c1", 3, ["name": "Card", "idList": "l1", "pos": 1.0]),
                ], from: 0, checkpoint: 3, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.hasCard())
        #expect(try f.card("name") == "Card")
        #expect(try await f.store.conflicts().map(\.mine) == [.null])
        #expect(try await f.store.restoreLost() == 1)
        #expect(try await f.claim().told == ["delete card c1"])
    }

    /// A card of this device's, edited here, comes with a full pass; `isNewer`: than it was here. It names neither `closed` nor `votes`:
    /// of these, `votes` has come before, and `closed` if another card has it.
    private func passWithout(isNewer: Bool, isNamed: Bool, isEdited: Bool = false) async throws -> Fixture {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET closed = 1 WHERE id = 'c1'")
        try await f.drain(from: 3)
        if isEdited { try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'") }
        try await f.store.beginFullPass(epoch: nil)
        var other: [String: FieldValue] = ["name": "Other", "idList": "l1"]
        if isNamed { other["closed"] = false }
        _ = try await f.store.apply(
            PageSlice(
                records: [
                    record("board", "b1", 1, ["name": "Board"]),
                    record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]),
                    record("card", "c2", 3, other),
                    record(
                        "card", "c1", isNewer ? 9 : 4, ["name": "Card", "idList": "l1", "pos": 1.0, "desc": "text"]),
                ], from: 0, checkpoint: 9, epoch: Fixture.epoch))
        #expect(try await f.store.endFullPass(confirmed: false) == .removed(0))
        return f
    }

    @Test(
        "Seeds 33849, 35793 and 44871: what died unheard and was made anew has no value of the life before in a field that the server knows",
        arguments: [false, true], [false, true])
    func madeAnewUnheard(isEdited: Bool, isNewer: Bool) async throws {
        let f = try await passWithout(isNewer: isNewer, isNamed: true, isEdited: isEdited)
        if isEdited {
            let claim = try await f.claim()
            try #require(claim.told == ["update card c1"])
            try await f.settle((claim.keys[0], .applied(10)))
        }
        #expect(try f.card("name") == (isEdited ? "Mine" : "Card"))
        #expect(try f.card("desc") == "text")
        #expect(try f.card("closed") == (isNewer ? nil : "1"))
        #expect(try f.card("votes") == (isNewer ? nil : "1"))
        // A server that was put back to an older program would look the same: nothing is lost without a trace.
        let lost = try await f.store.conflicts().filter { $0.kind == "leftOut" }
        #expect(lost.map(\.field).sorted { $0 ?? "" < $1 ?? "" } == (isNewer ? ["closed", "votes"] : []))
        guard let closed = lost.first(where: { $0.field == "closed" }) else { return }
        try await f.store.restoreLoser(closed.number)
        #expect(try f.card("closed") == "1")
    }

    @Test(
        "Seed 54081 with `--server-ids`: the verdict of an edit may come over another life, too, and its version says nothing of what the page leaves out",
        arguments: [false, true])
    func madeAnewUnderAnEdit(beginsAgain: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET closed = 1 WHERE id = 'c1'")
        try await f.drain(from: 3)
        try await f.store.beginFullPass(epoch: nil)
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        let claim = try await f.claim()
        try #require(claim.told == ["update card c1"])
        try await f.settle((claim.keys[0], .applied(11)))
        if beginsAgain { try await f.store.beginFullPass(epoch: nil) }
        _ = try await f.store.apply(
            PageSlice(
                records: [
                    record("board", "b1", 1, ["name": "Board"]),
                    record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]),
                    record("card", "c2", 3, ["name": "Other", "idList": "l1", "closed": false]),
                    record("card", "c1", 11, ["name": "Mine", "idList": "l1", "pos": 1.0]),
                ], from: 0, checkpoint: 11, epoch: Fixture.epoch))
        #expect(try await f.store.endFullPass(confirmed: false) == .removed(0))
        #expect(try f.card("name") == "Mine")
        #expect(try f.card("closed") == nil)
        #expect(try await f.store.conflicts().contains { $0.kind == "leftOut" && $0.field == "closed" })
    }

    @Test(
        "Seed 32421: what a full pass did not bring, and stays for what is unsent, is another life where it comes after that",
        arguments: [false, true])
    func madeAnewAfterThePass(isByVerdict: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET closed = 1 WHERE id = 'c1'")
        try await f.drain(from: 3)
        try f.sql(isByVerdict ? "DELETE FROM card WHERE id = 'c1'" : "UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        let other: [String: FieldValue] = ["name": "Other", "idList": "l1", "closed": false]
        try await f.store.beginFullPass(epoch: nil)
        _ = try await f.store.apply(
            PageSlice(
                records: [
                    record("board", "b1", 1, ["name": "Board"]),
                    record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]),
                    record("card", "c2", 3, other),
                ], from: 0, checkpoint: 5, epoch: Fixture.epoch))
        _ = try await f.store.endFullPass(confirmed: true)
        let anew = record("card", "c1", 9, ["name": "Card", "idList": "l1"])
        if isByVerdict {
            try await f.settle((f.claim().keys[0], .merged(anew)))
        } else {
            try await f.apply(anew)
            let claim = try await f.claim()
            try #require(claim.told == ["update card c1"])
            try await f.settle((claim.keys[0], .refused("forbidden")))
        }
        #expect(try f.card("name") == "Card")
        #expect(try f.card("closed") == nil)
    }

    @Test("DAT-21 a field that no record of the server's has named keeps its value in a full pass, too")
    func unknownToTheServer() async throws {
        let f = try await passWithout(isNewer: true, isNamed: false)
        #expect(try f.card("closed") == "1")
        #expect(try f.card("votes") == nil)
        #expect(try await f.store.conflicts().filter { $0.kind == "leftOut" }.map(\.field) == ["votes"])
        #expect(try await f.store.events().contains { $0.kind == "missingField" && $0.detail == "closed" })
    }

    @Test("DAT-21 what another history's records named says nothing of this one's server")
    func knownToAnotherHistory() async throws {
        let f = try await passWithout(isNewer: false, isNamed: true)
        let card: [String: FieldValue] = ["name": "Card", "idList": "l1", "pos": 1.0, "desc": "text"]
        func pass(_ epoch: String?, _ version: Int64) async throws {
            try await f.store.beginFullPass(epoch: epoch)
            _ = try await f.store.apply(
                PageSlice(
                    records: [
                        record("board", "b1", 1, ["name": "Board"]),
                        record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]),
                        record("card", "c1", version, card),
                    ], from: 0, checkpoint: 9, epoch: epoch ?? "e2"))
            _ = try await f.store.endFullPass(confirmed: true)
        }
        try await pass("e2", 3)
        try f.sql("UPDATE card SET closed = 1 WHERE id = 'c1'")
        try await f.drain(from: 10)
        try await pass(nil, 12)
        #expect(try f.card("closed") == "1")
    }
}
