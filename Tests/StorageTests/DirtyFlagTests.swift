import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("Capture by a dirty flag")
struct DirtyFlagTests {
    private func fixture(file: TestFile? = nil) throws -> Fixture {
        try Fixture(
            Schema([
                EntitySchema(
                    "note", capture: .dirtyFlag,
                    fields: [.text("text"), .integer("stars", rule: .sum), .boolean("done"), .json("tags")]),
                EntitySchema("tag", fields: [.text("name")]),
            ]), file: file)
    }

    private func flags(_ f: Fixture, _ id: String = "n1") throws -> [Int64?] {
        try f.rows("SELECT is_dirty, edits, updated_at, last_synced_at FROM note WHERE id = ?", [id])
            .flatMap { [$0[0], $0[1], $0[2], $0[3]] }
    }

    private func apply(_ f: Fixture, _ fields: [String: FieldValue], version: Int64) async throws {
        try await f.apply(record("note", "n1", version, fields))
    }

    @Test("An insert and many edits are one create; flag, counter and times stand in the row")
    func create() async throws {
        let f = try fixture()
        try f.sql("INSERT INTO note (id, text) VALUES ('n1', 'a')")
        try f.sql("UPDATE note SET text = 'b'")
        try f.sql("UPDATE note SET text = 'c', done = 1")
        #expect(try f.int("SELECT count(*) FROM sync_change") == 0)
        #expect(try flags(f) == [1, 3, 1_000_000, nil])
        let claim = try await f.claim()
        #expect(claim.told == ["create note n1"])
        #expect(
            claim.changes[0].change.fields == [
                "text": FieldDelta(old: nil, new: "c"), "done": FieldDelta(old: nil, new: true),
            ])
        #expect(try flags(f)[0] == 2)
        try await f.settle((claim.keys[0], .applied(5)))
        #expect(try flags(f).map { $0 ?? -1 } == [0, 3, 1_000_000, 1_000_000])
        #expect(try f.int("SELECT count(*) FROM sync_dirty") == 0)
    }

    @Test("An update says what differs, with the values before the first edit")
    func update() async throws {
        let f = try fixture()
        try await apply(f, ["text": "a", "stars": 1, "tags": ["x"]], version: 3)
        #expect(try flags(f)[0] == 0)
        try f.sql("UPDATE note SET text = 'b', tags = '[\"y\"]'")
        try f.sql("UPDATE note SET stars = 4, tags = '[\"x\"]'")
        let claim = try await f.claim()
        #expect(
            claim.changes.map(\.change.fields) == [
                ["text": FieldDelta(old: "a", new: "b"), "stars": FieldDelta(old: 1, new: 4, rule: .sum)]
            ])
        #expect(claim.changes[0].change.baseVersion == 3)
        try await f.settle((claim.keys[0], .applied(6)))
        #expect(try flags(f)[0] == 0)
    }

    @Test("The flag is cleared only where the counter is the one that was sent: a later edit keeps it")
    func counter() async throws {
        let f = try fixture()
        try await apply(f, ["text": "a"], version: 3)
        try f.sql("UPDATE note SET text = 'b'")
        let claim = try await f.claim()
        try f.sql("UPDATE note SET text = 'c'")
        try await f.settle((claim.keys[0], .applied(6)))
        #expect(try f.text("SELECT text FROM note") == "c")
        let next = try await f.claim()
        #expect(next.changes.map(\.change.fields) == [["text": FieldDelta(old: "b", new: "c")]])
        #expect(try flags(f)[0] == 2)
        try await f.settle((next.keys[0], .applied(7)))
        #expect(try flags(f)[0] == 0)
    }

    @Test("A deleted row leaves its mark until the delete is acknowledged; one never collected leaves nothing")
    func delete() async throws {
        let f = try fixture()
        try await apply(f, ["text": "a"], version: 3)
        try f.sql("UPDATE note SET text = 'b'")
        try f.sql("DELETE FROM note")
        try f.sql("INSERT INTO note (id, text) VALUES ('n2', 'x')")
        try f.sql("DELETE FROM note WHERE id = 'n2'")
        let claim = try await f.claim()
        #expect(claim.told == ["delete note n1"])
        #expect(try f.rows("SELECT id FROM sync_dirty").map { $0[0] as String } == ["n1"])
        try await f.settle((claim.keys[0], .applied(9)))
        #expect(try f.int("SELECT count(*) FROM sync_dirty") == 0)
    }

    @Test("DL-01 a page over an edit that was not collected yet: the edit stays, the server's value is the base")
    func pageOverEdit() async throws {
        let f = try fixture()
        try await apply(f, ["text": "a", "done": false], version: 3)
        try f.sql("UPDATE note SET text = 'mine'")
        try await apply(f, ["text": "theirs", "done": true], version: 4)
        #expect(try f.text("SELECT text FROM note") == "mine")
        #expect(try f.int("SELECT done FROM note") == 1)
        #expect(try await f.store.conflicts().map(\.theirs) == ["theirs"])
        let claim = try await f.claim()
        #expect(claim.changes.map(\.change.fields) == [["text": FieldDelta(old: "a", new: "mine")]])
        try await f.settle((claim.keys[0], .refused()))
        // Base plus what remains.
        #expect(try f.text("SELECT text FROM note") == "theirs")
        _ = try await f.store.discard(claim.keys[0])
        #expect(try flags(f)[0] == 0)
    }

    @Test("OBS-05 a row that is marked and not collected yet is not decided")
    func fate() async throws {
        let f = try fixture()
        #expect(try await f.store.fate(of: RecordKey("note", "n1")) == .decided)
        try f.sql("INSERT INTO note (id, text) VALUES ('n1', 'a')")
        #expect(try await f.store.fate(of: RecordKey("note", "n1")) == .waiting)
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .applied(9)))
        #expect(try await f.store.fate(of: RecordKey("note", "n1")) == .decided)
    }

    @Test("REPLACE, another id, a silent page: each is seen for what it is")
    func replace() async throws {
        let f = try fixture()
        try await apply(f, ["text": "a", "stars": 2], version: 3)
        try f.sql("INSERT OR REPLACE INTO note (id, text) VALUES ('n1', 'a')")
        let claim = try await f.claim()
        #expect(claim.changes.map(\.change.fields) == [["stars": FieldDelta(old: 2, new: .null, rule: .sum)]])
        try await f.settle((claim.keys[0], .applied(4)))
        try f.sql("UPDATE note SET id = 'n9'")
        #expect(try await f.claim().told == ["delete note n1", "create note n9"])
        try f.sql("UPDATE note SET text = text")
        #expect(try flags(f, "n9")[0] == 2)
        try await f.drain()
        #expect(try flags(f, "n9")[0] == 0)
        #expect(try f.int("SELECT count(*) FROM sync_dirty") == 0)
    }

    @Test("What is marked counts as waiting before anybody collects it, and survives a restart")
    func counts() async throws {
        let f = try fixture()
        try f.sql("INSERT INTO note (id, text) VALUES ('n1', 'a')")
        try await f.store.close()
        let again = try fixture(file: f.file)
        #expect(try await again.store.summary().pending == 1)
        #expect(try await again.store.counts(for: RecordKey("note", "n1")).waiting == 1)
        try await again.store.close()
    }

    @Test("A value without a form on the wire is refused at the write")
    func wrong() async throws {
        let f = try fixture()
        try f.sql("INSERT INTO note (id, text) VALUES ('n1', 'a')")
        #expect(throws: DatabaseError.self) { try f.sql("UPDATE note SET tags = '{'") }
        #expect(throws: DatabaseError.self) { try f.sql("INSERT INTO note (id, stars) VALUES ('n2', 'x')") }
        #expect(throws: DatabaseError.self) { try f.sql("INSERT INTO note (id) VALUES ('a b')") }
        #expect(try f.rows("SELECT id FROM note").count == 1)
    }

    @Test("A field with a flag's column, or a table without one, is refused with what to write")
    func columns() throws {
        let failure = #expect(throws: StoreFailure.self) {
            try Fixture(Schema([EntitySchema("note", capture: .dirtyFlag, fields: [.integer("edits")])]))
        }
        #expect(failure?.kind == .invalid)
    }

    @Test("A local row is not collected; shared, it is a create")
    func local() async throws {
        let f = try fixture()
        try f.sql("INSERT INTO note (id, text) VALUES ('n1', 'a')")
        try await f.store.keepLocal([RecordKey("note", "n1")])
        try f.sql("UPDATE note SET text = 'b'")
        #expect(try await f.claim().changes.isEmpty)
        try await f.store.release([RecordKey("note", "n1")])
        #expect(try await f.claim().changes.map(\.change.fields) == [["text": FieldDelta(old: nil, new: "b")]])
        try await f.drain()
        #expect(try flags(f)[0] == 0)
    }
}
