import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// What is saved of a broken file's queue when some of its pages are gone (PRC-14).
@Suite("PRC-14 a saved queue of which something is missing")
struct SavedQueueTests {
    /// A list whose create was refused, and a card in it that waits for that. `lost` is what the broken pages had.
    private func saved(without lost: String) async throws -> (f: Fixture, keys: [String]) {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'New', 'b1')")
        try f.insertCard("k", list: "n")
        let sent = try await f.claim(ClaimLimits(maxChanges: 1))
        try await f.settle((sent.keys[0], .refused("forbidden")))
        let waiting = try await f.store.queued()
        try #require(waiting.map(\.state) == [.blocked])
        try f.sql(lost)
        try await f.store.database.barrierWriteWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try await f.store.close()
        try f.file.breakHeader()
        let g = try Fixture(file: f.file, seed: 8)
        try #require(g.store.movedAside != nil)
        return (g, sent.keys + waiting.map(\.change.id))
    }

    @Test("A change that waits for one that is lost waits no longer")
    func blockerLost() async throws {
        let (f, keys) = try await saved(without: "DELETE FROM sync_change WHERE entity = 'list'")
        #expect(try await f.store.queued().map(\.state) == [.pending])
        #expect(try await f.claim().keys == [keys[1]])
        try await f.store.close()
    }

    @Test("A change that waits for one that is there waits on")
    func blockerSaved() async throws {
        let (f, keys) = try await saved(without: "DELETE FROM sync_event")
        #expect(try await f.store.queued().map(\.blockedBy) == [keys[0]])
        #expect(try await f.claim().keys == [])
        #expect(try await f.store.failures().map(\.queued.change.id) == [keys[0]])
        try await f.store.close()
    }

    /// An app that makes its tables itself, with a board in each new file.
    private func openOwn(_ file: TestFile, seed: Int64) throws -> Store {
        var migrations = AppMigrations()
        migrations.register("one") { db in
            try db.execute(
                sql: """
                    CREATE TABLE user (team TEXT, name TEXT, PRIMARY KEY (team, name));
                    CREATE TABLE board (
                      id TEXT PRIMARY KEY, name TEXT, team TEXT, owner TEXT, twin TEXT REFERENCES board (id),
                      FOREIGN KEY (team, owner) REFERENCES user (team, name) ON DELETE CASCADE);
                    INSERT INTO board (id, name) VALUES ('inbox', 'Inbox')
                    """)
        }
        let schema = try Schema([
            EntitySchema("board", fields: [.text("name"), .text("team"), .text("owner"), .reference("twin", "board")])
        ])
        let configuration = StoreConfiguration(
            clock: FixedClock(), keySeed: seed, fixesTriggerClock: true, createsTables: false, migrations: migrations)
        return try Store(path: file.path, schema: schema, configuration: configuration)
    }

    private func write(_ sql: String, in store: Store) async throws {
        try await store.database.write { try $0.execute(sql: sql) }
    }

    @Test("What the app puts into each new file stands behind what is saved, under other numbers, and is nobody else's")
    func ownRows() async throws {
        let file = try TestFile()
        let old = try openOwn(file, seed: 7)
        // The board of the new file is sent and done; another one waits at its place in the queue of the next file.
        let sent = try #require(try await old.settle(Settlement(), claim: ClaimLimits()).changes.first)
        let done = Settlement.Outcome(changeID: sent.change.id, kind: .applied(1))
        _ = try await old.settle(Settlement(outcomes: [done]), claim: nil)
        try await write("UPDATE sync_clock SET sequence = 0", in: old)
        try await write("INSERT INTO board (id, name) VALUES ('mine', 'A')", in: old)
        let waiting = try await old.queued().map(\.change)
        try #require(waiting.map(\.sequence) == [1])
        let device = try await old.position().deviceID
        try await old.close()
        try file.breakHeader()

        let store = try openOwn(file, seed: 8)
        #expect(store.movedAside != nil)
        let queued = try await store.queued().map(\.change)
        #expect(queued.map(\.record.id) == ["mine", "inbox"])
        #expect(queued[0].id == waiting[0].id && queued[0].sequence == 1 && queued[0].deviceID == device)
        #expect(queued[1].sequence > 1 && queued[1].deviceID == nil)
        try await write("INSERT INTO board (id, name) VALUES ('next', 'B')", in: store)
        let all = try await store.queued().map(\.change)
        #expect(all.map(\.record.id) == ["mine", "inbox", "next"])
        #expect(Set(all.map(\.sequence)).count == 3)
        #expect(try await store.integrityProblems().isEmpty)
        try await store.close()
    }

    @Test("Of what the app puts into each new file the user's own word counts, where that is saved")
    func ownRowEdited() async throws {
        let file = try TestFile()
        let old = try openOwn(file, seed: 7)
        try await write("UPDATE board SET name = 'Renamed'", in: old)
        let keys = try await old.queued().map(\.change.id)
        try await old.close()
        try file.breakHeader()
        let store = try openOwn(file, seed: 8)
        #expect(try await store.queued().map(\.change.id) == keys)
        let names = try await store.database.read { try String.fetchAll($0, sql: "SELECT name FROM board") }
        #expect(names == ["Renamed"])
        try await store.close()
    }

    @Test("A saved create that refers to what is not here by a foreign key of the app's own is held; the file opens")
    func foreignKey() async throws {
        let file = try TestFile()
        let old = try openOwn(file, seed: 7)
        _ = try await old.apply(
            PageSlice(
                records: [record("board", "known", 1, ["name": "K"])], from: 0, checkpoint: 1, epoch: Fixture.epoch))
        try await write("INSERT INTO board (id, name, twin) VALUES ('mine', 'A', 'known')", in: old)
        let keys = try await old.queued().map(\.change.id)
        try await old.close()
        try file.breakHeader()
        let store = try openOwn(file, seed: 8)
        #expect(try await store.queued().map(\.change.id) == keys)
        func boards() async throws -> [String] {
            try await store.database.read { try String.fetchAll($0, sql: "SELECT id FROM board ORDER BY id") }
        }
        #expect(try await boards() == ["inbox"])
        _ = try await store.apply(
            PageSlice(
                records: [record("board", "known", 1, ["name": "K"])], from: 0, checkpoint: 1, epoch: Fixture.epoch))
        #expect(try await boards() == ["inbox", "known", "mine"])
        try await store.close()
    }

    @Test(
        "The queues of two broken files come one behind the other, the older one first, and none takes another's place")
    func twoFiles() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('a1', 'A'), ('a2', 'A')")
        let first = try await f.store.queued().map(\.change)
        try await f.store.close()
        let g = try Fixture(seed: 9)
        try g.sql("INSERT INTO board (id, name) VALUES ('b1', 'B'), ('b2', 'B'), ('b3', 'B')")
        let second = try await g.store.queued().map(\.change)
        try await g.store.close()
        try Recovery.moveAside(f.file.path, now: 1)
        try FileManager.default.copyItem(atPath: g.file.path, toPath: f.file.path)
        try f.file.breakHeader()
        let h = try Fixture(file: f.file, seed: 8)
        let queued = try await h.store.queued().map(\.change)
        #expect(queued.map(\.id) == (first + second).map(\.id))
        #expect(queued.map(\.sequence) == [1, 2, 1, 2, 3])
        #expect(Set(queued.map(\.deviceID)).count == 2 && !queued.contains { $0.deviceID == nil })
        #expect(try h.int("SELECT count(*) FROM board") == 5)
        try await h.store.close()
    }

    @Test("A broken file that has the queue of an older one already brings none of it twice")
    func savedInBoth() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('a1', 'A')")
        try await f.store.close()
        try Recovery.moveAside(f.file.path, now: 1)
        let note = AsideNote(database: f.file.path)
        let targets = note.targets
        let g = try Fixture(file: f.file, seed: 9)
        try g.sql("INSERT INTO board (id, name) VALUES ('b1', 'B')")
        let keys = try await g.store.queued().map(\.change.id)
        try #require(keys.count == 2)
        try await g.store.close()
        // The note had not gone as the process was killed, and the new file breaks, too.
        try note.set(targets: targets)
        try f.file.breakHeader()
        let h = try Fixture(file: f.file, seed: 8)
        #expect(try await h.store.queued().map(\.change.id) == keys)
        try await h.store.close()
    }

    @Test("An entry of the journal whose number the new file gave to another one is kept under the next")
    func journal() async throws {
        let f = try Fixture()
        try await f.store.database.write { db in
            for name in ["one", "two"] { try Journal.event(db, .released, detail: name, at: 5) }
        }
        try await f.store.close()
        try Recovery.moveAside(f.file.path, now: 1)
        let note = AsideNote(database: f.file.path)
        let targets = note.targets
        try note.remove()
        let g = try Fixture(file: f.file, seed: 8)
        try await g.store.database.write { db in try Journal.event(db, .released, detail: "own", at: 6) }
        try await g.store.close()
        try note.set(targets: targets)
        for _ in 0..<2 {
            let h = try Fixture(file: f.file, seed: 8)
            let details = try await h.store.events().filter { $0.kind == "released" }.compactMap(\.detail)
            #expect(details.sorted() == ["one", "own", "two"])
            try await h.store.close()
            // As a process leaves it that is killed before the note goes.
            try note.set(targets: targets)
        }
    }

    @Test("The text of a trigger is damaged, which nothing can be read behind: the whole queue is saved all the same")
    func brokenTrigger() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A'), ('b2', 'B')")
        let keys = try await f.store.queued().map(\.change.id)
        try await f.store.close()
        let trigger = "TRIGGER \"sync_capture_board_update\" AFTER"
        try replace("CREATE \(trigger)", by: "CROATE \(trigger)", in: f.file)
        let g = try Fixture(file: f.file, seed: 8)
        #expect(g.store.movedAside != nil)
        #expect(try await g.store.queued().map(\.change.id) == keys)
        #expect(try g.int("SELECT count(*) FROM board") == 2)
        try await g.store.close()
    }

    /// Damages the file's bytes where they say this for the first time.
    private func replace(_ old: String, by new: String, in file: TestFile) throws {
        let path = URL(fileURLWithPath: file.path)
        var bytes = try Data(contentsOf: path)
        let place = try #require(bytes.firstRange(of: Data(old.utf8)))
        try #require(old.utf8.count == new.utf8.count)
        bytes.replaceSubrange(place, with: Data(new.utf8))
        try bytes.write(to: path)
    }

    @Test(
        "One letter of a table's text is damaged: the whole queue is saved all the same, and what was set aside",
        arguments: [
            ("CREATE TABLE \"board\"", "CREATE TABLF \"board\""),
            ("CREATE TABLE \"card\"", "CREATE\u{0}TABLE \"card\""),
            ("CREATE TABLE sync_meta", "CREATE TABLE sync_meti"), ("CREATE TABLE sync_meta", "CREATE TABLE sync(meta"),
            ("CREATE TABLE sync_change", "CREATE TABLE sync_chance"),
            ("position INTEGER PRIMARY", "pisition INTEGER PRIMARY"),
            ("CREATE TABLE sync_change", "CRIATE TABLE sync_change"),
            ("CREATE INDEX sync_change_record", "CREATE INDEK sync_change_record"),
            ("CREATE TABLE sync_failure", "CREATE TABLE sync+failure"),
            ("CREATE TABLE sync_event", "CREATE TABLE sync_evend"),
            ("CREATE VIEW sync_enqueue", "CREATE VIEV sync_enqueue"),
        ])
    func brokenTable(_ old: String, _ new: String) async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A'), ('b2', 'B')")
        let sent = try await f.claim(ClaimLimits(maxChanges: 1))
        try await f.settle((sent.keys[0], .refused("forbidden")))
        let queued = try await f.store.queued().map(\.change.id)
        let failures = try await f.store.failures()
        try #require(queued.count == 1 && failures.count == 1)
        try await f.store.close()
        try replace(old, by: new, in: f.file)
        let g = try Fixture(file: f.file, seed: 8)
        #expect(g.store.movedAside != nil)
        #expect(try await g.store.queued().map(\.change.id) == queued)
        #expect(try await g.store.failures().map(\.reason) == failures.map(\.reason))
        #expect(try g.int("SELECT count(*) FROM board") == 2)
        let left = try FileManager.default.contentsOfDirectory(atPath: f.file.folder.path)
        #expect(!left.contains { $0.contains("-mended") || $0.contains("-tables") })
        try await g.store.close()
    }

    @Test(
        "A process that was killed over a copy of the broken file left it: the next one makes another, and saves the queue",
        arguments: ["-mended", "-mended-tables"])
    func staleCopy(_ suffix: String) async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A'), ('b2', 'B')")
        let keys = try await f.store.queued().map(\.change.id)
        try await f.store.close()
        try f.file.breakHeader()
        try replace("CREATE TABLE sync_change", by: "CRIATE TABLE sync_change", in: f.file)
        try Recovery.moveAside(f.file.path, now: 1)
        let aside = try #require(AsideNote(database: f.file.path).targets.first)
        for ending in ["", "-wal", "-shm"] {
            try Data("torn".utf8).write(to: URL(fileURLWithPath: aside + suffix + ending))
        }
        let g = try Fixture(file: f.file, seed: 8)
        #expect(try await g.store.queued().map(\.change.id) == keys)
        let left = try FileManager.default.contentsOfDirectory(atPath: f.file.folder.path)
        #expect(!left.contains { $0.contains("-mended") || $0.contains("-tables") })
        try await g.store.close()
    }

    @Test(
        "A row of the queue with values that it cannot have stays in the old file; the others are saved, and it opens",
        arguments: [
            "operation = 9", "operation = 'x'", "state = x'00'", "state = 77", "position = 9223372036854775807",
            "sequence = 9223372036854775807", "fields = '{'", "fields = 7", "entity = x'ff'", "stamp = 'x'",
            "key = x'05'", "stamp = 9223372036854775807",
        ])
    func wrongValues(_ damage: String) async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A'), ('b2', 'B'), ('b3', 'C')")
        let keys = try await f.store.queued().map(\.change.id)
        try f.sql("UPDATE sync_change SET \(damage) WHERE id = 'b2'")
        try f.sql("UPDATE sync_clock SET sequence = 9223372036854775807, stamp = 9223372036854775807")
        try await f.store.close()
        try f.file.breakHeader()
        let g = try Fixture(file: f.file, seed: 8)
        #expect(try await g.store.queued().map(\.change.id) == [keys[0], keys[2]])
        try g.sql("INSERT INTO board (id, name) VALUES ('b4', 'D')")
        #expect(try await g.claim().told == ["create board b1", "create board b3", "create board b4"])
        try await g.store.close()
    }

    @Test("DL-21 the roots that were held are asked for again, each from 0, and nothing else")
    func roots() async throws {
        for isLegible in [true, false] {
            let f = try await Fixture.twoBoards()
            try await f.store.setScopes([RecordKey("board", "b1")])
            if !isLegible { try f.sql("UPDATE sync_meta SET value = '{\"asked\":' WHERE key = 'scopes'") }
            try f.sql("UPDATE board SET name = 'mine' WHERE id = 'b1'")
            try await f.store.close()
            try f.file.breakHeader()
            let g = try Fixture(file: f.file, seed: 8)
            #expect(try await g.store.scopes() == (isLegible ? [RecordKey("board", "b1")] : nil))
            #expect(try await g.store.position().scopes == (isLegible ? ["board:b1": 0] : nil))
            #expect(try await g.store.queued().count == 1)
            try await g.store.close()
        }
    }

    @Test("A draft's change waits on, unless it is forgotten that it is one")
    func draft() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("k")
        try await f.store.hold([RecordKey("card", "k")])
        try #require(try await f.store.queued().map(\.state) == [.blocked])
        for (lost, state) in [("", QueuedChange.State.blocked), ("DELETE FROM sync_draft", .pending)] {
            try f.sql(lost.isEmpty ? "SELECT 1" : lost)
            try await f.store.database.write { try Recovery.freeOfLost($0, now: 1) }
            #expect(try await f.store.queued().map(\.state) == [state])
        }
    }

    @Test("What was set aside for a reason that is lost is told still, and can be tried again by its key, or given up")
    func reasonLost() async throws {
        for retries in [true, false] {
            let (f, keys) = try await saved(without: "DELETE FROM sync_failure")
            let failures = try await f.store.failures()
            try #require(failures.map(\.queued.change.id) == [keys[0]])
            #expect(failures[0].reason.code == "reasonLost" && failures[0].isUncertain)
            if retries {
                #expect(try await f.store.retry(keys[0]) == keys[0])
                #expect(try await f.claim().keys == keys)
            } else {
                _ = try await f.store.discard(keys[0])
                #expect(try await f.store.queued().isEmpty)
            }
            try await f.store.close()
        }
    }

    @Test(
        "What was decided for a reason that is lost, and the server forgot, is set aside with its values for a new key")
    func reasonLostAndForgotten() async throws {
        let (f, keys) = try await saved(without: "DELETE FROM sync_failure")
        _ = try await f.store.retry(keys[0])
        try #require(try await f.claim(ClaimLimits(maxChanges: 1)).keys == [keys[0]])
        try await f.settle((keys[0], .refused("expired")))
        let failure = try #require(try await f.store.failures().first)
        #expect(failure.queued.change.id == keys[0] && failure.reason.code == "expired" && !failure.isUncertain)
        #expect(failure.queued.change.fields["name"]?.new == "New")
        #expect(try await f.store.queued().map(\.blockedBy) == [keys[0]])
        let next = try await f.store.retry(keys[0])
        let claim = try await f.claim()
        try #require(claim.keys == [next, keys[1]] && next != keys[0])
        #expect(claim.changes[0].change.fields["name"]?.new == "New")
        // That one is as any other: decided, and nobody knows how.
        try await f.settle((next, .refused("expired")))
        #expect(try await f.store.failures().isEmpty)
        try await f.store.close()
    }
}
