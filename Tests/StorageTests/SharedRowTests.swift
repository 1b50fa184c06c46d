import GRDB
import Storage
import SyncCore
import Testing

/// Rows that stayed on their device, and are shared, by their user's word or since the server has them; drafts that are written again.
@Suite("Rows that stayed here, and are shared")
struct SharedRowTests {
    private static let board = RecordKey("board", "b1")

    /// A board that stays here.
    private func local(_ f: Fixture) async throws {
        try await f.store.write { [store = f.store] db in
            try db.execute(sql: "INSERT INTO board (id, name, closed) VALUES ('b1', 'Mine', 1)")
            try store.keepLocal([Self.board], in: db)
        }
    }

    @Test(
        "QUE-07, seeds 67 and 79 with `--drafts`: what was written of what needs the row comes behind it, as it was written"
    )
    func order() async throws {
        let f = try Fixture()
        try await local(f)
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
        #expect(try await f.claim().changes.isEmpty)
        // No claim has looked at these.
        try f.sql("UPDATE list SET name = 'L2' WHERE id = 'l1'")
        try f.sql("INSERT INTO card (id, idList, name) VALUES ('c1', 'l1', 'C')")
        try await f.store.release([Self.board])
        let claim = try await f.claim(ClaimLimits(merges: false))
        #expect(claim.told == ["create board b1", "create list l1", "update list l1", "create card c1"])
        #expect(claim.changes.map(\.change.sequence) == claim.changes.map(\.change.sequence).sorted())
        try await f.drain()
    }

    @Test(
        "QUE-07, seed 20183 with `--drafts`: what the row has come to need was written after what needs it, and goes first"
    )
    func needed() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "B"]))
        let list = RecordKey("list", "l")
        try await f.store.write { [store = f.store] db in
            try db.execute(sql: "INSERT INTO list (id, name, idBoard) VALUES ('l', 'Mine', 'b1')")
            try store.keepLocal([list], in: db)
        }
        try f.sql("INSERT INTO card (id, idList, name) VALUES ('c', 'l', 'on mine')")
        #expect(try await f.claim().changes.isEmpty)
        try f.sql("INSERT INTO board (id, name) VALUES ('new', 'New')")
        try f.sql("UPDATE list SET idBoard = 'new' WHERE id = 'l'")
        try await f.store.release([list])
        let claim = try await f.claim()
        #expect(claim.told == ["create board new"])
        try await f.settle((claim.keys[0], .applied(20)))
        let next = try await f.claim()
        #expect(next.told == ["create list l", "create card c"])
        #expect(next.changes.first?.change.fields["idBoard"]?.new == "new")
        try await f.drain(from: 20)
    }

    @Test(
        "OBS-02, seed 46068 with `--roots --drafts`: a local row that its user deletes holds nothing up, and is local still if he takes that back"
    )
    func deleted() async throws {
        let f = try Fixture()
        try await local(f)
        let list = RecordKey("list", "l1")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
        #expect(try await f.claim().changes.isEmpty)
        #expect(try await f.store.summary().blocked == 1)
        #expect(try await f.store.fate(of: list) != .waiting)
        try f.sql("DELETE FROM board WHERE id = 'b1'")
        // The list goes with it, and both of its changes may go: they come to nothing.
        let summary = try await f.store.summary()
        #expect(summary.pending == 2 && summary.blocked == 0)
        #expect(try await f.store.drafts().isEmpty)
        #expect(try await f.store.fate(of: list) == .waiting)
        #expect(try await f.claim().changes.isEmpty)
        #expect(try await f.store.summary().isEmpty)
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'Mine again')")
        #expect(try await f.store.drafts().map(\.isLocal) == [true])
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l2', 'L', 'b1')")
        #expect(try await f.store.queued().map(\.change.record.id) == ["l2"])
        #expect(try await f.store.queued().last?.blockedBy == "local:board/b1")
        try await f.drain()
    }

    @Test("Seed 102 with `--drafts`: a unit of which a part waits for the row stays together")
    func unit() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b2", 1, ["name": "B2"]))
        try await local(f)
        try await f.store.write(unit: true) { db in
            try db.execute(sql: "INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
            try db.execute(sql: "UPDATE board SET name = 'New' WHERE id = 'b2'")
        }
        try f.sql("UPDATE board SET name = 'Newer' WHERE id = 'b2'")
        #expect(try await f.claim().changes.isEmpty)
        try await f.store.release([Self.board])
        let claim = try await f.claim(ClaimLimits(merges: false))
        #expect(claim.told == ["create board b1", "create list l1", "update board b2", "update board b2"])
        #expect(claim.changes.map { $0.change.unit != nil } == [false, true, true, false])
        try await f.drain()
    }

    @Test(
        "IDS-01, seeds 31 and 40 with `--drafts`: a record of the row's id takes it over; what it said is kept, and it is sent since"
    )
    func taken() async throws {
        let f = try Fixture()
        try await local(f)
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
        #expect(try await f.claim().changes.isEmpty)
        try await f.apply(record("board", "b1", 7, ["name": "Theirs"]))
        #expect(try f.text("SELECT name FROM board") == "Theirs")
        #expect(try f.int("SELECT closed FROM board") == nil)
        #expect(try await f.store.drafts().isEmpty)
        #expect(try await f.claim().told == ["create list l1"])
        try f.sql("UPDATE board SET closed = 0 WHERE id = 'b1'")
        #expect(try f.changes().map(\.record.id) == ["l1", "b1"])
        let entry = try #require(try await f.store.conflicts().first)
        #expect(entry.kind == "localRow" && entry.mine == .object(["name": "Mine", "closed": true]))
        #expect(try await f.store.restoreLoser(entry.number) == Self.board)
        #expect(try f.text("SELECT name FROM board") == "Mine")
        #expect(try f.changes().map(\.record.id) == ["l1", "b1", "b1"])
    }

    @Test("A record of the row's id that says the same takes it over without a word")
    func takenSilently() async throws {
        let f = try Fixture()
        try await local(f)
        try await f.apply(record("board", "b1", 7, ["name": "Mine", "closed": true]))
        #expect(try await f.store.drafts().isEmpty)
        #expect(try await f.store.conflicts().isEmpty)
        #expect(try f.changes().isEmpty)
    }

    @Test("A tombstone of the row's id takes nothing away: nobody else has the row")
    func dead() async throws {
        let f = try Fixture()
        try await local(f)
        try await f.apply(record("board", "b1", 7, [:], .deleted))
        #expect(try f.text("SELECT name FROM board") == "Mine")
        #expect(try await f.store.drafts() == [Draft(record: Self.board, isLocal: true)])
    }

    @Test("Seed 1041 with `--rest --drafts`: what was held of a record of the row's id goes with its tombstone")
    func heldAndDead() async throws {
        let f = try Fixture()
        try await local(f)
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'Mine', 'b1')")
        try await f.store.keepLocal([RecordKey("list", "l1")])
        try await f.apply(record("list", "l1", 7, ["name": "Theirs", "idBoard": "nowhere"]))
        #expect(try await f.store.held().map(\.reason) == [.parent])
        try await f.apply(record("list", "l1", 9, [:], .deleted))
        #expect(try await f.store.held().isEmpty)
        #expect(try f.text("SELECT name FROM list") == "Mine")
    }

    @Test(
        "I2, seeds 33 and 190 with `--drafts`: what was sent, or may have been by a device that this is a copy of, keeps its number"
    )
    func number() async throws {
        let f = try Fixture()
        try await local(f)
        for n in 1...3 { try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l\(n)', 'L', 'b1')") }
        #expect(try await f.claim().changes.isEmpty)
        try f.sql("UPDATE sync_change SET state = 5 WHERE id = 'l1'")
        try f.sql("UPDATE sync_change SET device = 'before' WHERE id = 'l2'")
        let before = try f.changes().map(\.sequence)
        try await f.store.release([Self.board])
        let after = try f.changes()
        #expect(after.map(\.record.id) == ["b1", "l1", "l2", "l3"])
        #expect(after[1].sequence == before[0] && after[2].sequence == before[1])
        #expect(after[3].sequence > after[0].sequence)
    }

    @Test(
        "Seed 1015 with `--single --drafts`: who waits for word of the queue hears that a page has set something free")
    func freed() async throws {
        let f = try Fixture()
        try await local(f)
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
        #expect(try await f.claim().changes.isEmpty)
        var notices = f.store.notices().makeAsyncIterator()
        try await f.apply(record("board", "b1", 7, ["name": "Theirs"]))
        // The stream ends for who has heard nothing.
        try await f.store.close()
        #expect(await notices.next() != nil)
    }

    @Test("A row that stays is none that a dropped trigger has missed")
    func missed() async throws {
        let f = try Fixture()
        try await local(f)
        try f.sql("INSERT INTO board (id, name) VALUES ('b2', 'Sent')")
        try f.sql("DELETE FROM sync_change")
        try f.sql("DROP TRIGGER sync_capture_board_insert")
        try await f.store.close()
        let again = try Fixture(file: f.file)
        #expect(try again.changes().map(\.record.id) == ["b2"])
        #expect(try await again.store.events().filter { $0.kind == "missedChange" }.map(\.record?.id) == ["b2"])
        try await again.store.close()
    }

    @Test(
        "OBS-02, seed 195 with `--drafts`: what is written of a draft, and what needs that, is told as waiting at once")
    func told() async throws {
        let f = try Fixture()
        try await f.store.hold([Self.board])
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
        let queued = try await f.store.queued()
        #expect(queued.map(\.state) == [.blocked, .blocked])
        #expect(queued.map(\.blockedBy) == ["held:board/b1", "held:board/b1"])
        #expect(try await f.store.summary().blocked == 2)
        #expect(try await f.claim().changes.isEmpty)
        #expect(try await f.store.queued().map(\.blockedBy) == ["held:board/b1", "held:board/b1"])
        try await f.store.release([Self.board])
        #expect(try await f.claim().told == ["create board b1", "create list l1"])
        try await f.drain()
    }
}
