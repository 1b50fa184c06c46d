import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("Drafts, and rows that stay here")
struct DraftTests {
    @Test("A draft is held back with what needs it, others go on; released, all of it goes in order")
    func hold() async throws {
        let f = try Fixture()
        let draft = RecordKey("board", "b1")
        try await f.store.write { [store = f.store] db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'Draft')")
            try store.hold([draft], in: db)
        }
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'under it', 'b1')")
        try f.sql("INSERT INTO board (id, name) VALUES ('b2', 'Free')")
        #expect(try await f.store.summary().blocked == 2)
        #expect(try await f.claim().told == ["create board b2"])
        // Written after the claim, and still held.
        try f.sql("UPDATE board SET name = 'Draft 2' WHERE id = 'b1'")
        #expect(try await f.claim().told == ["create board b2"])
        let summary = try await f.store.summary()
        #expect((summary.pending, summary.blocked, summary.inFlight) == (0, 3, 1))
        #expect(try await f.store.drafts() == [Draft(record: draft, isLocal: false)])
        try await f.store.release([draft])
        #expect(
            try await f.claim().told == ["create board b1", "create list l1", "create board b2", "update board b1"])
        #expect(try await f.store.drafts().isEmpty)
        try await f.drain()
    }

    @Test("A draft of a record that is in step: its edits wait, pages are applied under them")
    func holdKnown() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.store.hold([RecordKey("card", "c1")])
        try f.sql("UPDATE card SET name = 'mine' WHERE id = 'c1'")
        #expect(try await f.claim().changes.isEmpty)
        try await f.apply(record("card", "c1", 9, ["name": "theirs", "pos": 7.0]))
        #expect(try f.card("name") == "mine")
        #expect(try f.card("pos") == "7.0")
        try await f.store.release([RecordKey("card", "c1")])
        let claim = try await f.claim()
        #expect(claim.told == ["update card c1"])
        #expect(claim.changes[0].change.baseVersion == 9)
    }

    @Test("A unit with a draft among its members waits whole")
    func unit() async throws {
        let f = try Fixture()
        try await f.store.write(unit: true) { db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A'), ('b2', 'B')")
        }
        try await f.store.hold([RecordKey("board", "b2")])
        #expect(try await f.claim().changes.isEmpty)
        try await f.store.release([RecordKey("board", "b2")])
        #expect(try await f.claim().told == ["create board b1", "create board b2"])
        try await f.drain()
    }

    @Test("A draft survives a restart")
    func restart() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try await f.store.hold([RecordKey("board", "b1")])
        try await f.store.close()
        let again = try Fixture(file: f.file)
        #expect(try await again.claim().changes.isEmpty)
        #expect(try await again.states() == ["create board b1 blocked"])
        try await again.store.close()
    }

    @Test("A local row is never sent; what refers to it waits; shared, it goes first, as it is then")
    func local() async throws {
        let f = try Fixture()
        let board = RecordKey("board", "b1")
        try await f.store.write { [store = f.store] db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'Mine')")
            try store.keepLocal([board], in: db)
        }
        try f.sql("UPDATE board SET name = 'Still mine' WHERE id = 'b1'")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
        try f.sql("UPDATE list SET name = 'L2' WHERE id = 'l1'")
        #expect(try await f.claim().changes.isEmpty)
        #expect(try await f.states() == ["create list l1 blocked", "update list l1 blocked"])
        #expect(try await f.store.queued().map(\.blockedBy) == ["local:board/b1", "local:board/b1"])
        try await f.store.release([board])
        let claim = try await f.claim(ClaimLimits(merges: false))
        #expect(claim.told == ["create board b1", "create list l1", "update list l1"])
        #expect(claim.changes[0].change.fields == ["name": FieldDelta(old: nil, new: "Still mine")])
        #expect(claim.changes.map(\.change.sequence) == claim.changes.map(\.change.sequence).sorted())
        // From now on it is like any other.
        try f.sql("UPDATE board SET closed = 1 WHERE id = 'b1'")
        #expect(try f.queue().last == #"update board b1 {"closed":{"old":null,"new":true}}"#)
        try await f.drain()
    }

    @Test("What the server knows cannot be kept local; an entity that is not declared always is")
    func refused() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        let failure = await #expect(throws: StoreFailure.self) {
            try await f.store.keepLocal([RecordKey("card", "c1")])
        }
        #expect(failure?.kind == .invalid)
        #expect(try await f.store.drafts().isEmpty)
        await #expect(throws: StoreFailure.self) { try await f.store.hold([RecordKey("note", "n1")]) }
        try f.sql("CREATE TABLE note (id TEXT PRIMARY KEY, text TEXT)")
        try f.sql("INSERT INTO note VALUES ('n1', 'x')")
        #expect(try await f.store.summary() == QueueSummary())
    }

    @Test(
        "A tombstone or a leave of the parent does not take a local row away",
        arguments: [ServerRecord.Presence.deleted, .gone])
    func localUnderTombstone(presence: ServerRecord.Presence) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.store.write { [store = f.store] db in
            try db.execute(sql: "INSERT INTO card (id, name, idList) VALUES ('x', 'mine', 'l1')")
            try store.keepLocal([RecordKey("card", "x")], in: db)
        }
        try await f.apply(record("list", "l1", 8, [:], presence))
        #expect(try f.hasCard("x"))
        #expect(try await f.store.held().map(\.reason) == [.unsent])
        try f.sql("DELETE FROM card WHERE id = 'x'")
        #expect(try await f.store.summary() == QueueSummary())
    }
}
