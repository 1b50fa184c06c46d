import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// What a broken file's tables have that no download brings, beside the queue (PRC-14).
@Suite("PRC-14 rows that stand nowhere but in a broken file")
struct SavedRowsTests {
    private func schema() throws -> Schema {
        try Schema([
            EntitySchema(
                "note", capture: .dirtyFlag, fields: [.text("text"), .integer("stars", rule: .sum), .json("tags")])
        ])
    }

    /// The file of a store that was closed, broken and opened again.
    private func opened(_ f: Fixture) async throws -> Fixture {
        let schema = f.store.schema
        try await f.store.close()
        try f.file.breakHeader()
        let g = try Fixture(schema, file: f.file, seed: 8)
        try #require(g.store.movedAside != nil)
        return g
    }

    @Test("What a dirty flag marks, and nobody collected yet, is in the queue: what was made, edited and deleted")
    func marked() async throws {
        let f = try Fixture(schema())
        try await f.apply(
            record("note", "n1", 1, ["text": "a", "stars": 1]), record("note", "n2", 2, ["text": "b"]),
            record("note", "n3", 3, ["text": "c"]))
        try f.sql("UPDATE note SET text = 'mine', stars = 3 WHERE id = 'n1'")
        try f.sql("DELETE FROM note WHERE id = 'n2'")
        try f.sql("INSERT INTO note (id, text) VALUES ('n4', 'new')")
        try f.sql("UPDATE note SET text = 'newer' WHERE id = 'n4'")
        try #require(try f.int("SELECT count(*) FROM sync_change") == 0)
        let g = try await opened(f)
        #expect(try await g.store.events().last { $0.kind == "salvaged" }?.detail == "3 changes")
        let claim = try await g.claim()
        #expect(claim.told == ["delete note n2", "update note n1", "create note n4"])
        #expect(
            claim.changes.map(\.change.fields) == [
                [:],
                ["text": FieldDelta(old: "a", new: "mine"), "stars": FieldDelta(old: 1, new: 3, rule: .sum)],
                ["text": FieldDelta(old: nil, new: "newer")],
            ])
        #expect(try g.text("SELECT text FROM note WHERE id = 'n4'") == "newer")
        try await g.settle((claim.keys[0], .applied(4)), (claim.keys[1], .applied(5)), (claim.keys[2], .applied(6)))
        try await g.apply(
            record("note", "n1", 5, ["text": "mine", "stars": 3]), record("note", "n3", 3, ["text": "c"]))
        #expect(try g.int("SELECT count(*) FROM note WHERE is_dirty = 0") == 3)
        #expect(try await g.store.queued().isEmpty)
        #expect(try await g.store.integrityProblems().isEmpty)
        // An edit of one that was saved is found as any other.
        try g.sql("UPDATE note SET text = 'again' WHERE id = 'n4'")
        #expect(try await g.claim().told == ["update note n4"])
        try await g.store.close()
    }

    @Test("What was saved is not saved again by who finds the note still there: the process was killed before it went")
    func savedOnce() async throws {
        let f = try Fixture(schema())
        try f.sql("INSERT INTO note (id, text) VALUES ('n1', 'a')")
        try await f.store.close()
        try Recovery.moveAside(f.file.path, now: 1)
        let targets = AsideNote(database: f.file.path).targets
        try #require(targets.count == 1)
        for seed in 8...9 {
            let g = try Fixture(schema(), file: f.file, seed: Int64(seed))
            #expect(g.store.movedAside != nil)
            #expect(try await g.store.queued().map(\.change.record.id) == ["n1"])
            #expect(try await g.store.events().count { $0.kind == "movedAside" } == 1)
            try await g.store.close()
            try AsideNote(database: f.file.path).set(targets: targets)
        }
    }

    @Test("A mark whose row cannot be read as it is declared is told, and holds nothing up")
    func markedWrong() async throws {
        let f = try Fixture(schema())
        try f.sql("INSERT INTO note (id, text) VALUES ('n1', 'a'), ('n2', 'b')")
        try f.sql("UPDATE sync_clock SET applying = 1")
        try f.sql("UPDATE note SET tags = '{' WHERE id = 'n1'")
        try f.sql("UPDATE sync_clock SET applying = 0")
        let g = try await opened(f)
        #expect(try await g.claim().told == ["create note n2"])
        let told = try await g.store.events().filter { $0.kind == "quarantined" }
        #expect(told.map(\.record) == [RecordKey("note", "n1")])
        try await g.store.close()
    }

    @Test("Rows that are kept on this device are there again, and stay; what waited for them waits on")
    func keptLocal() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('own', 'Mine alone'), ('b2', 'B')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'own'), ('l2', 'L', 'own')")
        try await f.store.keepLocal([RecordKey("board", "own"), RecordKey("list", "l1")])
        try #require(try await f.store.queued().map(\.state) == [.pending, .blocked])
        let g = try await opened(f)
        #expect(try g.text("SELECT name FROM board WHERE id = 'own'") == "Mine alone")
        #expect(try g.text("SELECT idBoard FROM list WHERE id = 'l1'") == "own")
        #expect(try await g.store.drafts().count { $0.isLocal } == 2)
        // Seed 1015 with `--damage --drafts`: what is written of them from now on stays here as well.
        try g.sql("UPDATE board SET closed = 1 WHERE id = 'own'")
        #expect(try await g.claim().told == ["create board b2"])
        try await g.store.release([RecordKey("board", "own"), RecordKey("list", "l1")])
        #expect(
            Set(try await g.claim().told) == [
                "create board b2", "create board own", "create list l1", "create list l2",
            ])
        try await g.drain()
        try await g.store.close()
    }

    @Test(
        "A kept row whose parent is to come with the download is a draft from then on: nothing of it is sent, and it shows then"
    )
    func keptUnderOther() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("k")
        try await f.store.keepLocal([RecordKey("card", "k")])
        let g = try await opened(f)
        #expect(try await g.store.drafts() == [Draft(record: RecordKey("card", "k"), isLocal: false)])
        #expect(try await g.claim().changes.isEmpty)
        try await g.applyBoard()
        #expect(try g.hasCard("k"))
        #expect(try await g.claim().changes.isEmpty)
        try await g.store.release([RecordKey("card", "k")])
        #expect(try await g.claim().told == ["create card k"])
        try await g.drain()
        try await g.store.close()
    }
}
