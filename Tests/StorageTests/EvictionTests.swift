import GRDB
import SyncCore
import Testing

@testable import Storage

/// What stays of a root that is not asked for any more, as the simulator found it missing.
@Suite("Dropped roots")
struct EvictionTests {
    private let one = RecordKey("board", "b1")
    private let two = RecordKey("board", "b2")

    /// Two boards; the first has a list with a card.
    private func fixture() async throws -> Fixture {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("board", "b2", 4, ["name": "Other"]))
        return f
    }

    @Test(
        "DL-21 a list that is moved, unsent, to a root that is dropped keeps its cards: the server has them where it was"
    )
    func movedIntoDropped() async throws {
        let f = try await fixture()
        try f.sql("UPDATE list SET idBoard = 'b2' WHERE id = 'l1'")
        try await f.store.setScopes([one])
        #expect(try f.int("SELECT count(*) FROM card") == 1)
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused("forbidden")))
        try await f.store.evictLeaving()
        #expect(try f.int("SELECT count(*) FROM board") == 1)
        #expect(try f.text("SELECT idBoard FROM list") == "b1")
        #expect(try f.int("SELECT count(*) FROM card") == 1)
    }

    @Test("DL-21 a list that is moved, unsent, out of a root that is dropped can go back to it, and goes with it")
    func movedOutOfDropped() async throws {
        let f = try await fixture()
        try f.sql("UPDATE list SET idBoard = 'b2' WHERE id = 'l1'")
        try await f.store.setScopes([two])
        #expect(try f.int("SELECT count(*) FROM board") == 2)
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused("forbidden")))
        // The user may still try it again.
        try await f.store.evictLeaving()
        #expect(try f.text("SELECT idBoard FROM list") == "b1")
        _ = try await f.store.discard(claim.keys[0])
        try await f.store.evictLeaving()
        #expect(try f.int("SELECT count(*) FROM board") == 1)
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        #expect(try f.int("SELECT count(*) FROM card") == 0)
    }

    @Test(
        "DL-21 what waits for a page of a root that is dropped goes, once all that is asked for is here; nothing else does"
    )
    func droppedBetweenPages() async throws {
        let f = try await fixture()
        try await f.store.setScopes([one])
        func page(_ records: ServerRecord..., upTo version: Int64) async throws {
            let asked = try await f.store.position().scopes ?? [:]
            _ = try await f.store.apply(
                PageSlice(
                    records: records, from: 0, checkpoint: version, epoch: Fixture.epoch, scopes: asked))
        }
        // Of lists that come on a later page, one of each root.
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('mine', 'Mine', 'b1')")
        try await page(
            record("card", "k1", 5, ["name": "Of one", "idList": "later1", "pos": 1.0]),
            record("card", "k2", 6, ["name": "Of two", "idList": "later2", "pos": 1.0]), upTo: 6)
        #expect(try await f.store.position().held == 2)
        try await f.store.evictLeaving()
        #expect(try await f.store.position().held == 2, "more is to come")
        try await page(record("list", "later1", 7, ["name": "Later", "idBoard": "b1"]), upTo: 8)
        // A root that was added since is not here yet.
        try await f.store.setScopes([one, two, RecordKey("board", "b3")])
        try await f.store.evictLeaving(caughtUpTo: 8)
        #expect(try await f.store.position().held == 1)
        try await f.store.setScopes([one])
        try await f.store.evictLeaving(caughtUpTo: 8)
        #expect(try await f.store.position().held == 0)
        #expect(try f.text("SELECT name FROM card WHERE id = 'k1'") == "Of one")
        #expect(try await f.store.queued().count == 1)
    }

    @Test("DL-21 what was set aside keeps its row in a root that is dropped, and is tried again over it")
    func setAside() async throws {
        let f = try await fixture()
        try f.sql("UPDATE board SET name = 'Mine' WHERE id = 'b1'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused("forbidden")))
        try await f.store.setScopes([two])
        #expect(try f.text("SELECT name FROM board WHERE id = 'b1'") == "Board")
        #expect(try f.int("SELECT count(*) FROM card") == 0)
        _ = try await f.store.retry(claim.keys[0])
        let again = try await f.claim()
        try await f.settle((again.keys[0], .applied(9)))
        try await f.store.evictLeaving()
        #expect(try f.text("SELECT group_concat(id) FROM board") == "b2")
    }
}
