import GRDB
import SyncCore
import Testing

@testable import Storage

/// What becomes of the changes of a record that leaves what the device holds (Decision 195): the record here, left, come back;
/// its change waiting, sent, set aside; done, merged, refused.
@Suite("Changes of records that leave")
struct LeavingTests {
    /// A board that is the only root asked for, with two lists and a card in the first, up to version 4.
    private func fixture(_ refusal: RefusalRule = .revert) async throws -> Fixture {
        let f = try Fixture(boardSchema(refusal: refusal))
        try await f.store.setScopes([RecordKey("board", "b1")])
        try await page(
            f,
            record("board", "b1", 1, ["name": "Board"]),
            record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0]),
            record("list", "l2", 3, ["name": "Other", "idBoard": "b1", "pos": 2.0]),
            record("card", "c1", 4, ["name": "Card", "idList": "l1", "pos": 1.0, "votes": 1, "desc": "text"]))
        return f
    }

    private func page(_ f: Fixture, _ records: ServerRecord..., upTo version: Int64? = nil) async throws {
        let position = try await f.store.position()
        let last = version ?? records.map(\.version).max() ?? 0
        let report = try await f.store.apply(
            PageSlice(
                records: records, from: position.checkpoint, checkpoint: last, epoch: Fixture.epoch,
                scopes: position.scopes))
        #expect(!report.wasDropped)
    }

    private func edit(_ f: Fixture, _ sql: String = "UPDATE card SET name = 'Mine' WHERE id = 'c1'") async throws
        -> String
    {
        try f.sql(sql)
        return try await f.claim().keys[0]
    }

    /// Nothing of the card is here, and nothing waits for it.
    private func expectNothing(_ f: Fixture, of id: String = "c1") async throws {
        #expect(try !f.hasCard(id))
        #expect(try f.int("SELECT count(*) FROM sync_record WHERE id = '\(id)'") == 0)
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
    }

    /// The card left with an edit that was never sent; it is set aside.
    private func setAside(_ f: Fixture, _ sql: String = "UPDATE card SET name = 'Mine' WHERE id = 'c1'") async throws
        -> String
    {
        try f.sql(sql)
        try await page(f, record("card", "c1", 9, [:], .gone))
        try await expectNothing(f)
        let failures = try await f.store.failures()
        #expect(failures.map(\.reason.code) == ["gone"])
        return try #require(failures.first).queued.change.id
    }

    // MARK: Sent

    @Test("DL-13 a leave counts although an edit, done after it, has raised the version held (seed 277)")
    func doneAfterLeave() async throws {
        let f = try await fixture()
        let key = try await edit(f)
        try await f.settle((key, .applied(26)))
        try await page(f, record("card", "c1", 13, [:], .gone), upTo: 26)
        try await expectNothing(f)
    }

    @Test("DL-13 IDS-10 in a restored copy, what the device before may have sent is decided before its record leaves")
    func leavesACopy() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET votes = votes + 3 WHERE id = 'c1'")
        try f.sql("UPDATE sync_change SET device = 'restored-from'")
        let key = try #require(f.changes().first?.id)
        try await f.apply(record("card", "c1", 9, [:], .gone))
        #expect(try await f.store.failures().isEmpty)
        // A new key would be a second effect.
        let claim = try await f.claim()
        #expect(claim.keys == [key])
        _ = try await f.store.settle(
            Settlement(outcomes: [.init(changeID: key, kind: .applied(5), isRepeated: true)]), claim: nil)
        #expect(try !f.hasCard())
        #expect(try await f.store.position().held == 0)
    }

    @Test("DL-13 a record whose change was sent leaves when it is decided, whatever is said of it")
    func sent() async throws {
        let elsewhere = record("card", "c1", 10, ["name": "Theirs", "idList": "far", "pos": 1.0])
        let verdicts: [Settlement.Outcome.Kind] = [
            .applied(10), .merged(elsewhere), .refused("forbidden"),
        ]
        for verdict in verdicts {
            let f = try await fixture()
            let key = try await edit(f)
            try await page(f, record("card", "c1", 9, [:], .gone))
            #expect(try f.card("name") == "Mine")
            #expect(try await f.store.failures().isEmpty)
            try await f.settle((key, verdict))
            try await expectNothing(f)
        }
    }

    @Test(
        "DL-13 what was never sent of a record that left goes with the change that was, and is set aside with what is refused"
    )
    func sentAndUnsent() async throws {
        let f = try await fixture()
        let key = try await edit(f)
        try f.sql("UPDATE card SET desc = 'later' WHERE id = 'c1'")
        try await page(f, record("card", "c1", 9, [:], .gone))
        try await f.settle((key, .refused("forbidden")))
        try await expectNothing(f)
        #expect(try await f.store.failures().map(\.reason.code) == ["forbidden", "gone"])
        #expect(try await f.store.summary().pending == 0)
    }

    @Test("DL-13 a record that came back before its sent change was decided stays where the page put it (seed 335)")
    func cameBack() async throws {
        let f = try await fixture()
        let key = try await edit(f, "UPDATE card SET idList = 'l2' WHERE id = 'c1'")
        try await page(f, record("card", "c1", 9, [:], .gone))
        try await f.settle((key, .unanswered))
        try await page(f, record("card", "c1", 10, ["name": "Card", "idList": "l2", "pos": 1.0]))
        _ = try await f.claim()
        _ = try await f.store.settle(
            Settlement(outcomes: [.init(changeID: key, kind: .applied(10), isRepeated: true)]), claim: nil)
        #expect(try f.card("idList") == "l2")
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
    }

    @Test("DL-13 a record that its own change moved back stays: no page need say so")
    func movedBack() async throws {
        let f = try await fixture()
        let key = try await edit(f, "UPDATE card SET idList = 'l2' WHERE id = 'c1'")
        try await page(f, record("card", "c1", 4, [:], .gone), upTo: 9)
        try await f.settle((key, .applied(10)))
        #expect(try f.card("idList") == "l2")
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
    }

    @Test("DL-13 QUE-02 a card that is made anew ends the refusal of the one that went with its list (seed 1044)")
    func madeAnewElsewhere() async throws {
        let f = try await fixture()
        try f.insertCard("n", name: "First", list: "l1")
        try await f.settle((try await f.claim().keys[0], .refused("idTaken")))
        try await page(f, record("list", "l1", 6, [:], .gone), record("card", "c1", 7, [:], .gone))
        #expect(try !f.hasCard("n"))
        try f.insertCard("n", name: "Second", list: "l2")
        let claim = try await f.claim()
        #expect(claim.told == ["create card n"])
        #expect(try await f.store.failures().isEmpty)
        #expect(try f.card("name", "n") == "Second")
        try await f.settle((claim.keys[0], .applied(8)))
        try f.sql("DELETE FROM card WHERE id = 'n'")
        #expect(try await f.claim().told == ["delete card n"])
    }

    // MARK: Moved, unsent, to where something left

    @Test(
        "DL-13 DAT-07 what was made of a taken id in a list that left, given up, is where the server has it (seed 2201)"
    )
    func madeWhereItLeft() async throws {
        let f = try await fixture()
        try f.insertCard("n", name: "Mine", list: "l1")
        let create = try await f.claim().keys[0]
        try await f.settle((create, .refused("idTaken")))
        try await page(f, record("card", "n", 5, ["name": "Theirs", "idList": "l2", "pos": 1.0]))
        #expect(try f.card("idList", "n") == "l1")
        try await page(f, record("list", "l1", 6, [:], .gone), record("card", "c1", 7, [:], .gone))
        #expect(try !f.hasCard("n"))
        _ = try await f.store.discard(create)
        #expect(try f.card("name", "n") == "Theirs")
        #expect(try f.card("idList", "n") == "l2")
        #expect(try await f.store.position().held == 0)
    }

    @Test("DL-13 a card that was moved, unsent, into a list that left stays where the server has it (seed 2108)")
    func movedIntoLeaving() async throws {
        for refusal in [RefusalRule.revert, .keep] {
            let f = try await fixture(refusal)
            try f.sql("UPDATE card SET idList = 'l2', votes = 5 WHERE id = 'c1'")
            try await page(f, record("list", "l2", 9, [:], .gone))
            #expect(try f.text("SELECT group_concat(id) FROM list") == "l1")
            #expect(try f.card("idList") == "l1" && f.card("votes") == "1")
            #expect(try f.int("SELECT version FROM sync_record WHERE id = 'c1'") == 4)
            #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
            let failure = try #require(try await f.store.failures().first)
            #expect(failure.reason.code == "gone" && failure.queued.change.fields["idList"]?.new == "l2")
            // What it wants is still to be had: the card goes with the list then.
            let key = try await f.store.retry(failure.queued.change.id)
            let claim = try await f.claim()
            #expect(claim.keys == [key])
            try await f.settle((key, .applied(12)))
            try await page(f, record("card", "c1", 12, [:], .gone))
            try await f.store.evictLeaving()
            try await expectNothing(f)
        }
    }

    @Test(
        "DL-13 an edit that refers to what leaves with a list, and moves nothing there, is not set aside with the move")
    func referringToLeaving() async throws {
        let f = try await fixture(.revert)
        try await page(f, record("card", "c2", 8, ["name": "Other", "idList": "l2", "pos": 1.0]))
        try f.sql("UPDATE card SET idList = 'l2' WHERE id = 'c1'")
        try f.sql("UPDATE card SET idTwin = 'c2', name = 'Mine' WHERE id = 'c1'")
        try await page(f, record("list", "l2", 9, [:], .gone))
        #expect(try await f.store.failures().map(\.queued.change.fields.keys.first) == ["idList"])
        #expect(try f.card("idList") == "l1" && f.card("name") == "Mine" && f.card("idTwin") == "c2")
        #expect(try await f.claim().told == ["update card c1"])
    }

    @Test("DL-13 a refused move that the row shows ends where its list leaves; other edits of the card go on")
    func shownMoveIntoLeaving() async throws {
        let f = try await fixture(.keep)
        let key = try await edit(f, "UPDATE card SET idList = 'l2' WHERE id = 'c1'")
        try await f.settle((key, .refused("forbidden")))
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        #expect(try f.card("idList") == "l2")
        try await page(f, record("list", "l2", 9, [:], .gone))
        #expect(try f.card("idList") == "l1" && f.card("name") == "Mine")
        #expect(try await f.store.failures().map(\.reason.code) == ["forbidden"])
        let next = try await f.claim()
        #expect(next.changes.map { Array($0.change.fields.keys) } == [["name"]])
    }

    @Test(
        "DL-13 a card that was moved, unsent, from one list that left to another leaves with them, whichever went first"
    )
    func movedBetweenLeaving() async throws {
        let lists = ["l1", "l2"]
        for order in [lists, lists.reversed()] {
            for card in 0...2 {
                let f = try await fixture()
                try f.sql("UPDATE card SET idList = 'l2' WHERE id = 'c1'")
                var left = order.map { ("list", $0) }
                left.insert(("card", "c1"), at: card)
                for (place, one) in left.enumerated() {
                    try await page(f, record(one.0, one.1, 9 + Int64(place), [:], .gone))
                }
                try await expectNothing(f)
                #expect(try await f.store.failures().map(\.reason.code) == ["gone"])
            }
        }
    }

    // MARK: Set aside, and tried again

    @Test("DL-13 an edit of a record that left is tried again as it was made, and shows nothing (seed 446)")
    func triedAgain() async throws {
        let elsewhere = record("card", "c1", 12, ["name": "Theirs", "idList": "far", "pos": 1.0])
        let verdicts: [Settlement.Outcome.Kind?] = [
            .applied(12), .merged(elsewhere), .refused("forbidden"), .conflict(elsewhere, successor: nil), nil,
        ]
        for verdict in verdicts {
            let f = try await fixture()
            let failed = try await setAside(
                f, "UPDATE card SET name = 'Mine', desc = 'mine', votes = 3 WHERE id = 'c1'")
            let key = try await f.store.retry(failed)
            #expect(try !f.hasCard())
            guard let verdict else {
                _ = try await f.store.cancel(key)
                try await expectNothing(f)
                continue
            }
            let claim = try await f.claim()
            #expect(claim.keys == [key])
            let change = claim.changes[0].change
            #expect(change.baseVersion == nil)
            #expect(change.fields["name"]?.new == "Mine")
            #expect(change.fields["desc"]?.old == "text" && change.fields["votes"]?.old == 1)
            try await f.settle((key, verdict))
            if case .setAside = verdict {
                #expect(try !f.hasCard())
                _ = try await f.store.discard(key)
            }
            try await expectNothing(f)
        }
    }

    @Test("DL-13 a delete of a record that left keeps its values, and makes no row when it is given up")
    func deleteTriedAgain() async throws {
        let f = try await fixture()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        try await page(f, record("card", "c1", 9, [:], .gone))
        let failed = try #require(try await f.store.failures().first).queued.change
        let key = try await f.store.retry(failed.id)
        #expect(try f.changes()[0].fields == failed.fields)
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused("forbidden")))
        #expect(try !f.hasCard())
        _ = try await f.store.discard(key)
        try await expectNothing(f)
    }

    @Test("DL-13 a record that comes back while its edit is tried again shows that over what the page says")
    func cameBackWhileTriedAgain() async throws {
        let f = try await fixture()
        let key = try await f.store.retry(setAside(f))
        try await page(f, record("card", "c1", 12, ["name": "Theirs", "idList": "l2", "pos": 2.0, "desc": "new"]))
        #expect(try f.card("name") == "Mine" && f.card("desc") == "new" && f.card("idList") == "l2")
        _ = try await f.claim()
        try await f.settle((key, .refused("forbidden")))
        #expect(try f.card("name") == "Theirs")
    }

    // MARK: Made under a record that left

    /// A card that was made in a list that left, and is tried again and done.
    private func stray() async throws -> Fixture {
        let f = try await fixture()
        try f.insertCard("c2")
        try await page(f, record("card", "c1", 9, [:], .gone), record("list", "l1", 9, [:], .gone))
        let failed = try #require(try await f.store.failures().first).queued.change.id
        let key = try await f.store.retry(failed)
        #expect(try !f.hasCard("c2"))
        _ = try await f.claim()
        try await f.settle((key, .applied(12)))
        return f
    }

    @Test("DL-13 a card that is made in a list that left is not this device's (seed 335)")
    func madeElsewhere() async throws {
        let f = try await stray()
        // The page of the verdict may bring the list.
        try await f.store.evictLeaving()
        try await f.store.evictLeaving(isPulled: false)
        #expect(try await f.store.held().map(\.reason) == [.stray])
        try await page(f, upTo: 12)
        try await f.store.evictLeaving()
        try await expectNothing(f, of: "c2")
    }

    @Test("DL-13 a card that is made in a list that left comes with it, where the page brings that back")
    func madeAndCameBack() async throws {
        let f = try await stray()
        try await page(f, record("list", "l1", 11, ["name": "List", "idBoard": "b1", "pos": 1.0]), upTo: 12)
        try await f.store.evictLeaving()
        #expect(try f.card("idList", "c2") == "l1")
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
    }

    @Test(
        "DL-13 a list that somebody moved, a verdict says, to where no page follows leaves with its cards (seed 3518)")
    func movedElsewhere() async throws {
        let f = try await fixture()
        let key = try await edit(f, "UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        try f.sql("UPDATE card SET desc = 'mine' WHERE id = 'c1'")
        try await f.settle((key, .merged(record("list", "l1", 12, ["name": "List", "idBoard": "far", "pos": 1.0]))))
        try await page(f, upTo: 12)
        try await f.store.evictLeaving(isPulled: false)
        #expect(try f.hasCard())
        try await f.store.evictLeaving()
        #expect(try f.text("SELECT group_concat(id) FROM list") == "l2")
        try await expectNothing(f)
        #expect(try await f.store.failures().map(\.reason.code) == ["gone"])
    }

    @Test("DL-13 a card that somebody moved to a list which the page brings stays")
    func movedToNew() async throws {
        let f = try await fixture()
        let key = try await edit(f)
        try await f.settle((key, .merged(record("card", "c1", 12, ["name": "Mine", "idList": "l3", "pos": 1.0]))))
        #expect(try f.card("idList") == "l1")
        try await page(f, record("list", "l3", 11, ["name": "New", "idBoard": "b1", "pos": 3.0]), upTo: 12)
        try await f.store.evictLeaving()
        #expect(try f.card("idList") == "l3")
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
    }
}
