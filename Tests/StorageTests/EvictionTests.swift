import GRDB
import SyncCore
import Testing

@testable import Storage

/// What stays of a root that is not asked for any more, as the simulator found it missing.
@Suite("Dropped roots")
struct EvictionTests {
    private let one = RecordKey("board", "b1")
    private let two = RecordKey("board", "b2")

    @Test(
        "DL-21 a list that is moved, unsent, to a root that is dropped keeps its cards: the server has them where it was"
    )
    func movedIntoDropped() async throws {
        let f = try await Fixture.twoBoards()
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

    /// Two boards, and the list of the first deleted and made anew in the second, unsent.
    private func madeAnew() async throws -> Fixture {
        let f = try await Fixture.twoBoards()
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'List', 'b2')")
        return f
    }

    /// All of that is refused, and given up.
    private func refuse(_ f: Fixture) async throws {
        let claim = try await f.claim()
        try #require(claim.told == ["delete card c1", "delete list l1", "create list l1"])
        let refused = Settlement.Outcome.Kind.refused("forbidden")
        try await f.settle((claim.keys[0], refused), (claim.keys[1], refused), (claim.keys[2], refused))
        for key in claim.keys { _ = try await f.store.discard(key) }
        try await f.store.evictLeaving()
    }

    @Test(
        "DL-21 seed 42255: nor does one that was deleted, and made anew in the root that is dropped, lose what came under it"
    )
    func madeAnewInDropped() async throws {
        let f = try await madeAnew()
        // The server still has the list where it was.
        try await f.apply(record("card", "c9", 5, ["name": "Other", "idList": "l1", "pos": 1.0]))
        try await f.store.setScopes([one])
        #expect(try f.text("SELECT group_concat(id) FROM card") == "c9")
        try await refuse(f)
        #expect(try f.text("SELECT group_concat(id) FROM board") == "b1")
        #expect(try f.text("SELECT idBoard FROM list") == "b1")
        #expect(try f.int("SELECT count(*) FROM card WHERE id = 'c9'") == 1)
    }

    @Test(
        "DL-21 one that was deleted, and made anew out of the root that is dropped, keeps what it was in until that is decided"
    )
    func madeAnewOutOfDropped() async throws {
        let f = try await madeAnew()
        try await f.store.setScopes([two])
        #expect(try f.int("SELECT count(*) FROM board") == 2)
        try await refuse(f)
        #expect(try f.text("SELECT group_concat(id) FROM board") == "b2")
        #expect(try f.int("SELECT count(*) FROM list") == 0)
    }

    @Test("DL-21 a list that is moved, unsent, out of a root that is dropped can go back to it, and goes with it")
    func movedOutOfDropped() async throws {
        let f = try await Fixture.twoBoards()
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

    @Test("DL-21 what was set aside keeps its row in a root that is dropped, and is tried again over it")
    func setAside() async throws {
        let f = try await Fixture.twoBoards()
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

    @Test(
        "DL-21 a list, made here, that somebody moved from a root that is dropped keeps its cards before its verdict comes (seed 2096)"
    )
    func movedBeforeItsVerdict() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'Board')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'List', 'b1')")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .unanswered))
        try await f.store.setScopes([two])
        let report = try await f.store.apply(
            PageSlice(
                records: [
                    record("board", "b2", 3, ["name": "Other"]),
                    record("list", "l1", 4, ["name": "List", "idBoard": "b2"]),
                    record("card", "c1", 5, ["name": "Card", "idList": "l1", "pos": 1.0]),
                ], from: 0, checkpoint: 5, epoch: Fixture.epoch, scopes: ["board:b2": 0]))
        #expect(!report.wasDropped)
        try await f.store.evictLeaving()
        #expect(try f.hasCard())
        let again = try await f.claim()
        _ = try await f.store.settle(
            Settlement(
                outcomes: [
                    .init(changeID: again.keys[0], kind: .applied(1), isRepeated: true),
                    .init(changeID: again.keys[1], kind: .applied(2), isRepeated: true),
                ]), claim: nil)
        try await f.store.evictLeaving()
        #expect(try f.text("SELECT group_concat(id) FROM board") == "b2")
        #expect(try f.text("SELECT idBoard FROM list") == "b2")
        #expect(try f.hasCard())
    }

    @Test(
        "DL-21 seeds 2155 and 14136: what stayed, and comes under another root with a move, stays there if that root has it",
        arguments: [true, false]
    )
    func stayedAndMoved(isThere: Bool) async throws {
        let f = try await Fixture.twoBoards()
        try f.sql("UPDATE list SET idBoard = 'b2' WHERE id = 'l1'")
        try await f.store.setScopes([two])
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(9)))
        try await f.store.evictLeaving()
        #expect(try f.hasCard())
        // Nobody says of the card that it was moved before, within the root that was dropped; or that it was not.
        let list = record("list", "l1", 9, ["name": "List", "idBoard": "b2", "pos": 1.0])
        var asked = try await f.store.position().scopes
        let report = try await f.store.apply(
            PageSlice(records: [list], from: 4, checkpoint: 10, epoch: Fixture.epoch, scopes: asked))
        #expect(report.asksAgain)
        #expect(try f.hasCard())
        asked = try await f.store.position().scopes
        #expect(asked == ["board:b2": 0])
        let card = record("card", "c1", 10, ["name": "Card", "idList": "l1", "pos": 1.0])
        let again = try await f.store.apply(
            PageSlice(
                records: [record("board", "b2", 4, ["name": "Other"]), list] + (isThere ? [card] : []), from: 0,
                checkpoint: 10, epoch: Fixture.epoch, scopes: asked))
        #expect(!again.asksAgain)
        #expect(try f.hasCard() == isThere)
        #expect(try await f.store.position().scopes == ["board:b2": 10])
    }

    @Test(
        "DL-21 seed 10665: what somebody moved under a root that is deleted here, unsent, does not go with the one it was in"
    )
    func movedUnderDeleted() async throws {
        let f = try await Fixture.twoBoards()
        try f.sql("DELETE FROM board WHERE id = 'b2'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered))
        try await f.apply(record("list", "l1", 5, ["name": "List", "idBoard": "b2"]))
        #expect(try f.hasCard())
        try await f.store.setScopes([two])
        #expect(try !f.hasCard())
        #expect(try f.int("SELECT count(*) FROM list") == 0)
        let again = try await f.claim()
        try await f.settle((again.keys[0], .merged(record("board", "b2", 6, ["name": "Theirs"]))))
        let asked = try await f.store.position().scopes
        _ = try await f.store.apply(
            PageSlice(records: [], from: 6, checkpoint: 6, epoch: Fixture.epoch, scopes: asked))
        #expect(try f.text("SELECT idBoard FROM list") == "b2")
        #expect(try f.hasCard())
        #expect(try await f.store.position().held == 0)
    }

    @Test(
        "DL-21 what is under it goes with it to where it waits, also where a newer word of it does not fit its table"
    )
    func movedUnderDeletedWithUnfit() async throws {
        let f = try await Fixture.twoBoards()
        try f.sql("DELETE FROM board WHERE id = 'b2'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered))
        let card: [String: FieldValue] = ["name": "Theirs", "idList": "l1", "pos": "high"]
        try await f.apply(
            record("list", "l1", 5, ["name": "List", "idBoard": "b2"]), record("card", "c1", 6, card))
        #expect(try f.hasCard())
        try await f.store.setScopes([two])
        #expect(try !f.hasCard())
        let again = try await f.claim()
        try await f.settle((again.keys[0], .merged(record("board", "b2", 7, ["name": "Theirs"]))))
        let asked = try await f.store.position().scopes
        _ = try await f.store.apply(
            PageSlice(records: [], from: 7, checkpoint: 7, epoch: Fixture.epoch, scopes: asked))
        #expect(try f.text("SELECT idBoard FROM list") == "b2")
        #expect(try await f.store.held().map(\.record) == [RecordKey("card", "c1")], "its word is kept")
    }

    @Test("DL-21 seed 10665: nor does what stands beside something unsent under it")
    func movedUnderDeletedWithUnsent() async throws {
        let f = try await Fixture.twoBoards()
        try f.insertCard("c2")
        try await f.drain()
        try f.sql("DELETE FROM board WHERE id = 'b2'")
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c2'")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .unanswered), (claim.keys[1], .unanswered))
        try await f.apply(record("list", "l1", 5_000, ["name": "List", "idBoard": "b2"]))
        try await f.store.setScopes([two])
        #expect(try f.hasCard() && f.hasCard("c2"))
    }

    @Test(
        "DL-21, DAT-19 what waits under nothing and is of an entity that an older program does not know is looked at once"
    )
    func undeclared() async throws {
        let file = try TestFile()
        let f = try Fixture(file: file)
        try await f.apply(record("board", "b1", 1, ["name": "Board"]))
        try await f.apply(record("card", "c9", 2, ["name": "Card", "idList": "elsewhere"]))
        #expect(try await f.store.held().map(\.reason) == [.parent])
        try await f.store.close()
        let known = ["board", "list"]
        let older = try Schema(boardSchema().entities.filter { known.contains($0.name) })
        let g = try Fixture(older, file: file)
        try await g.store.setScopes([one])
        let asked = try await g.store.position().scopes
        let slice = PageSlice(records: [], from: 0, checkpoint: 3, epoch: Fixture.epoch, scopes: asked)
        #expect(try await g.store.apply(slice).deleted == 0)
        #expect(try await g.store.held().map(\.record) == [RecordKey("card", "c9")], "kept for who knows what it is")
        try await g.store.close()
    }
}
