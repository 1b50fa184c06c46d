import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// What the queue of a damaged file says of records of which nothing is here before the download (PRC-14, Decision 493).
@Suite("PRC-14 saved edits and deletes of records that are to come")
struct SavedEditsTests {
    @Test(
        "Seed 76 with --damage: saved edits and deletes of a record that the server does not have any more leave no row",
        arguments: ["UPDATE card SET votes = 2 WHERE id = 'c1'", "DELETE FROM card WHERE id = 'c1'"])
    func ofNothing(_ second: String) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let first = try await f.claim()
        try f.sql(second)
        try await f.settle((first.keys[0], .refused("notFound")))
        try await f.store.close()
        try f.file.breakHeader()
        let g = try Fixture(file: f.file, seed: 8)
        // A board is all that the server has.
        try await g.apply(
            record("board", "b1", 1, ["name": "Board"]), record("list", "l1", 2, ["name": "List", "idBoard": "b1"]))
        #expect(try g.int("SELECT count(*) FROM card") == 0)
        _ = try await g.store.retry(first.keys[0])
        let sent = try await g.claim()
        try #require(sent.keys.count == 2)
        try await g.settle((sent.keys[0], .refused("notFound")), (sent.keys[1], .refused("notFound")))
        for key in sent.keys { _ = try await g.store.discard(key) }
        #expect(try g.int("SELECT count(*) FROM card") == 0)
        #expect(try g.int("SELECT count(*) FROM sync_record WHERE entity = 'card'") == 0)
        try await g.store.close()
    }

    @Test(
        "A saved edit whose record came under the server's id shows with it, and all that is under it",
        arguments: [nil, "b1", "S1"] as [String?])
    func namedLate(root: String?) async throws {
        let f = try Fixture()
        if root != nil { try await f.store.setScopes([RecordKey("board", "b1")]) }
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        let made = try await f.claim()
        try await f.settle((made.keys[0], .applied(version: 1, overwrote: [:], serverID: "S1")))
        try f.sql("UPDATE board SET name = 'B' WHERE id = 'b1'")
        try f.sql("DELETE FROM sync_identity")
        try await f.store.close()
        try f.file.breakHeader()
        let g = try Fixture(file: f.file, seed: 8)
        let page = [
            record("board", "S1", 1, ["name": "A"]), record("list", "l1", 2, ["name": "L", "idBoard": "S1"]),
            record("card", "c1", 3, ["name": "C", "idList": "l1"]),
        ]
        // As from a link: nobody here knows that it is the same.
        if let root { try await g.store.setScopes([RecordKey("board", root)]) }
        let scopes = try await g.store.position().scopes?.keys.sorted()
        #expect((scopes != nil) == (root != nil))
        _ = try await g.store.apply(
            PageSlice(
                records: page, from: 0, checkpoint: 3, epoch: Fixture.epoch,
                scopes: scopes.map { Dictionary(uniqueKeysWithValues: $0.map { ($0, 0) }) }))
        let sent = try await g.claim()
        try #require(sent.keys.count == 1)
        try await g.settle((sent.keys[0], .applied(version: 4, overwrote: [:], serverID: "S1")))
        #expect(try g.rows("SELECT id, name FROM board").map { "\($0[0] as String) \($0[1] as String)" } == ["b1 B"])
        #expect(try g.text("SELECT idBoard FROM list WHERE id = 'l1'") == "b1")
        #expect(try g.text("SELECT idList FROM card WHERE id = 'c1'") == "l1")
        #expect(try g.int("SELECT count(*) FROM sync_held") == 0)
        if root != nil {
            #expect(try await g.store.scopes() == [RecordKey("board", "b1")])
            // Nor is it another root later.
            #expect(try await g.store.setScopes([RecordKey("board", "S1")]) == 0)
            #expect(try await g.store.evictLeaving() == 0)
            #expect(try await g.store.scopes() == [RecordKey("board", "b1")])
        }
        try await g.store.close()
    }

    @Test(
        "Seed 2288 with --damage --server-ids: what waits for its deleted parent is not dead by a repeated verdict that lets it live"
    )
    func livesUnderDeleted() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO sync_identity (entity, id, serverID) VALUES ('card', 'c1', 'S1')")
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let sent = try await f.claim()
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        try await f.store.close()
        try f.file.breakHeader()
        let g = try Fixture(file: f.file, seed: 8)
        try await g.applyBoard()
        #expect(try g.int("SELECT count(*) FROM sync_held") == 1)
        let again = try await g.claim()
        try #require(again.keys.count == 2)
        let present = record("card", "c1", 3, ["name": "Card", "idList": "l1", "pos": 1.0, "votes": 1, "desc": "text"])
        _ = try await g.store.settle(
            Settlement(outcomes: [
                .init(changeID: sent.keys[0], kind: .merged(present), isRepeated: true),
                .init(
                    changeID: again.keys[1],
                    kind: .setAside(.init(code: "forbidden", message: "no"), staysUncertain: false)),
            ]), claim: nil)
        #expect(try g.text("SELECT idList FROM card WHERE id = 'c1'") == "l1")
        try await g.store.close()
    }

    @Test(
        "Seed 3255 with --damage --roots: what a saved delete was made over is not the server's word where its record says nothing of it"
    )
    func overOwnValues() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET due = '2027-01-01T00:00:00.000Z' WHERE id = 'c1'")
        _ = try await f.claim()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        // On a page that is lost.
        try f.sql("DELETE FROM sync_change WHERE operation = 1")
        try await f.store.close()
        try f.file.breakHeader()
        let g = try Fixture(file: f.file, seed: 8)
        try await g.applyBoard()
        let sent = try await g.claim()
        try #require(sent.keys.count == 1)
        try await g.settle((sent.keys[0], .refused("forbidden")))
        #expect(
            try g.rows("SELECT name, due FROM card").map { [$0[0] as String?, $0[1] as String?] } == [["Card", nil]])
        try await g.store.close()
    }

    @Test("A saved change was made over no version that is here, also where it was sent before")
    func overNothing() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        #expect(try await f.claim().changes.map(\.change.baseVersion) == [3])
        try await f.store.close()
        try f.file.breakHeader()
        let g = try Fixture(file: f.file, seed: 8)
        #expect(try await g.claim().changes.map(\.change.baseVersion) == [nil])
        try await g.store.close()
    }

    /// A card that was downloaded, with an edit that was not sent, in a file that was damaged.
    private func savedEdit(_ sql: String) async throws -> Fixture {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql(sql)
        try await f.store.close()
        try f.file.breakHeader()
        return try Fixture(file: f.file, seed: 8)
    }

    @Test(
        "A saved edit is on top of its record once that is downloaded, also where it was done before",
        arguments: [true, false])
    func editFindsRow(_ isDoneFirst: Bool) async throws {
        let f = try await savedEdit("UPDATE card SET name = 'B' WHERE id = 'c1'")
        if isDoneFirst {
            let sent = try await f.claim()
            try await f.settle((sent.keys[0], .applied(9)))
            #expect(try f.int("SELECT count(*) FROM card") == 0)
        }
        try await f.applyBoard()
        if isDoneFirst {
            try await f.apply(
                record("card", "c1", 9, ["name": "B", "idList": "l1", "pos": 1.0, "votes": 1, "desc": "text"]))
        }
        #expect(try f.text("SELECT name FROM card WHERE id = 'c1'") == "B")
        #expect(try f.text("SELECT idList FROM card WHERE id = 'c1'") != nil)
        try await f.store.close()
    }
}
