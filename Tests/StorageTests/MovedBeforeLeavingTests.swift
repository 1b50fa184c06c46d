import SyncCore
import Testing

@testable import Storage

/// A list leaves the roots asked for, after one of its cards was moved to another list that stays (Decision 360).
@Suite("Moved before what it was under left")
struct MovedBeforeLeavingTests {
    /// A board that is the only root asked for, two lists, and a card with a comment in the first, up to version 5.
    private func fixture(ofRoots: Bool = true) async throws -> Fixture {
        let f = try Fixture(
            Schema([
                EntitySchema("board", fields: [.text("name")]),
                EntitySchema("list", fields: [.text("name"), .parent("idBoard", "board")]),
                EntitySchema("card", fields: [.text("name"), .parent("idList", "list")]),
                EntitySchema("comment", fields: [.text("text"), .parent("idCard", "card")]),
            ]))
        if ofRoots { try await f.store.setScopes([RecordKey("board", "b1")]) }
        try await page(
            f,
            [
                record("board", "b1", 1, ["name": "Board"]),
                record("list", "l1", 2, ["name": "List", "idBoard": "b1"]),
                record("list", "l2", 3, ["name": "Other", "idBoard": "b1"]),
                record("card", "c1", 4, ["name": "Card", "idList": "l1"]),
                record("comment", "k1", 5, ["text": "Text", "idCard": "c1"]),
            ])
        return f
    }

    private func page(_ f: Fixture, _ records: [ServerRecord], upTo version: Int64? = nil, more: Bool = false)
        async throws
    {
        let position = try await f.store.position()
        let report = try await f.store.apply(
            PageSlice(
                records: records, from: position.checkpoint, checkpoint: version ?? records.map(\.version).max() ?? 0,
                epoch: Fixture.epoch, scopes: position.scopes, hasMore: more))
        #expect(!report.wasDropped)
    }

    private let left = record("list", "l1", 19, [:], .gone)
    private let moved = record("card", "c1", 21, ["name": "Card", "idList": "l2"])

    private func expectMoved(_ f: Fixture, text: String = "Text") throws {
        #expect(try f.text("SELECT idList FROM card") == "l2")
        #expect(try f.text("SELECT text FROM comment") == text)
        #expect(try f.int("SELECT count(*) FROM list") == 1)
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'k1'") == 5)
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
    }

    @Test("DL-13 seed 71333: what is under the card stays with it, where one page tells of both")
    func onePage() async throws {
        let f = try await fixture()
        try await page(f, [left, moved])
        try expectMoved(f)
    }

    @Test("DL-13 it comes back with the card, where a later page tells of that one")
    func twoPages() async throws {
        let f = try await fixture()
        try await page(f, [left], more: true)
        #expect(try f.int("SELECT count(*) FROM card") == 0)
        try await page(f, [moved])
        try expectMoved(f)
    }

    @Test("DL-13 what was not sent of the card goes on, where one page tells of both")
    func unsent() async throws {
        let f = try await fixture()
        try f.sql("UPDATE card SET name = 'Mine'")
        try f.sql("UPDATE comment SET text = 'Mine'")
        try await page(f, [left, moved])
        try expectMoved(f, text: "Mine")
        #expect(try f.text("SELECT name FROM card") == "Mine")
        #expect(try await f.store.failures().isEmpty)
        #expect(try await f.claim().told == ["update card c1", "update comment k1"])
    }

    @Test("DL-13 what was not sent is set aside, where a later page tells of the card, and rows are the server's again")
    func unsentInTwoPages() async throws {
        let f = try await fixture()
        try f.sql("UPDATE comment SET text = 'Mine'")
        try await page(f, [left], more: true)
        #expect(try await f.store.failures().map(\.reason.code) == ["gone"])
        try await page(f, [moved])
        try expectMoved(f)
    }

    @Test("DL-13 the same where the leave waited for a verdict that comes between the two pages")
    func decidedBetween() async throws {
        let f = try await fixture()
        try f.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        let key = try await f.claim().keys[0]
        try await f.settle((key, .unanswered))
        try await page(f, [left], more: true)
        #expect(try f.int("SELECT count(*) FROM list") == 2)
        #expect(try await f.claim().keys == [key])
        try await f.settle((key, .refused()))
        #expect(try f.int("SELECT count(*) FROM list") == 1)
        try await page(f, [moved])
        try expectMoved(f)
    }

    @Test("DL-13 what no page tells of goes, and nothing waits for it")
    func untold() async throws {
        let f = try await fixture()
        try await page(f, [left], more: true)
        try await page(f, [], upTo: 30)
        #expect(try f.int("SELECT (SELECT count(*) FROM card) + (SELECT count(*) FROM comment)") == 0)
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
        #expect(try f.int("SELECT count(*) FROM sync_record WHERE id IN ('c1', 'k1')") == 0)
    }

    @Test("DL-13 the card leaves, too, and what is under it, in a later page")
    func allLeave() async throws {
        let f = try await fixture()
        try await page(f, [left], more: true)
        try await page(f, [record("card", "c1", 20, [:], .gone)], more: true)
        try await page(f, [record("comment", "k1", 22, [:], .gone)])
        #expect(try f.int("SELECT (SELECT count(*) FROM card) + (SELECT count(*) FROM comment)") == 0)
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
    }

    // MARK: Made here of an id that the server has in the other list

    /// A card was made in the first list, of an id that somebody's card in the other has; that is refused.
    private func taken(ofRoots: Bool = true) async throws -> (f: Fixture, failed: String) {
        let f = try await fixture(ofRoots: ofRoots)
        try f.sql("INSERT INTO card (id, name, idList) VALUES ('c2', 'Mine', 'l1')")
        let create = try await f.claim().keys[0]
        try await page(
            f,
            [
                record("card", "c2", 7, ["name": "Theirs", "idList": "l2"]),
                record("comment", "k2", 8, ["text": "Text", "idCard": "c2"]),
            ])
        try await f.settle((create, .refused("idTaken")))
        #expect(try f.text("SELECT name FROM card WHERE id = 'c2'") == "Mine")
        return (f, create)
    }

    /// The first list left with what the server has in it, and the other card shows once the one made here is given up.
    private func expectTheirs(_ f: Fixture, failed: String) async throws {
        #expect(try f.text("SELECT group_concat(id) FROM list") == "l2")
        #expect(try f.int("SELECT (SELECT count(*) FROM card) + (SELECT count(*) FROM comment)") == 0)
        #expect(try await f.store.discard(failed) == [failed])
        #expect(try f.text("SELECT id || ' ' || name || ' ' || idList FROM card") == "c2 Theirs l2")
        #expect(try f.text("SELECT id || ' ' || idCard FROM comment") == "k2 c2")
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'c2'") == 7)
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
    }

    @Test(
        "DL-13 a card made of an id that the server has elsewhere shows that once given up, where a verdict took its list away (seed 69941)"
    )
    func madeInMovedList() async throws {
        let (f, failed) = try await taken()
        try f.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        let edit = try await f.claim().keys[0]
        try await f.settle((edit, .merged(record("list", "l1", 12, ["name": "List", "idBoard": "far"]))))
        try await page(f, [], upTo: 12)
        try await f.store.evictLeaving()
        try await expectTheirs(f, failed: failed)
    }

    @Test("DL-13 the same where everything is asked for, and the page says that the list left")
    func madeInLeftList() async throws {
        let (f, failed) = try await taken(ofRoots: false)
        try await page(f, [left])
        try await expectTheirs(f, failed: failed)
    }
}
