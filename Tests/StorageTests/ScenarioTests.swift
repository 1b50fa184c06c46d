import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// Situations of FAILURES.md that concern the store and have no place elsewhere.
@Suite("Situations of the local store")
struct ScenarioTests {
    private func reopened(_ f: Fixture, schema: Schema? = nil) async throws -> Fixture {
        try await f.store.close()
        return try Fixture(schema, file: f.file)
    }

    @Test("PRC-02, PRC-05 killed after the commit, or between taking and the answer: still queued, the same key")
    func killedBeforeSending() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        let key = try await f.store.queued()[0].change.id
        let second = try await reopened(f)
        #expect(try await second.store.queued().map(\.state) == [.pending])
        #expect(try await second.claim().keys == [key])
        let third = try await reopened(second)
        #expect(try await third.store.queued().map(\.state) == [.uncertain])
        #expect(try await third.claim().keys == [key])
        try await third.drain()
        try await third.store.close()
    }

    @Test("PRC-03 the server did it and the answer was lost with the process: the stored outcome ends the same key")
    func killedBeforeAnswer() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        let sent = try await f.claim().changes[0].change
        let again = try await reopened(f)
        let resent = try await again.claim().changes[0].change
        #expect(resent == sent)
        try await again.settle((resent.id, .applied(4)))
        #expect(try await again.store.summary() == QueueSummary())
        #expect(try again.int("SELECT version FROM sync_record WHERE id = 'b1'") == 4)
        try await again.store.close()
    }

    @Test("PRC-02 killed while a wish is fetched: the next process fetches it, whoever asks for it again or not")
    func killedWhileFetching() async throws {
        let f = try Fixture()
        try await f.store.ask(DownloadRequest(scope: "board:a", priority: 1))
        #expect(try await f.store.claim()?.scope == "board:a")
        #expect(try await f.store.claim() == nil)
        let again = try await reopened(f)
        #expect(try await again.store.claim()?.scope == "board:a")
        try await again.store.finish("board:a")
        #expect(try await again.store.claim() == nil)
        try await again.store.close()
    }

    @Test("PRC-11 what another process wishes for while a wish is fetched is fetched once more")
    func wishedByAnother() async throws {
        let f = try Fixture()
        try await f.store.ask(DownloadRequest(scope: "board:a", priority: 1))
        #expect(try await f.store.claim()?.scope == "board:a")
        let other = try Fixture(nil, file: f.file)
        try await other.store.ask(DownloadRequest(scope: "board:a", priority: 1))
        try await f.store.finish("board:a")
        #expect(try await f.store.claim()?.scope == "board:a")
        try await f.store.finish("board:a")
        #expect(try await other.store.claim() == nil)
        try await other.store.close()
        try await f.store.close()
    }

    @Test(
        "PRC-08 a disk that is full while a page is applied: rolled back, the checkpoint stays; goes on without restart"
    )
    func fullWhileApplying() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        let pages = try f.int("PRAGMA page_count") ?? 0
        try await f.store.database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = \(pages)") }
        let slice = (0..<200).map { n in
            record("board", "n\(n)", Int64(n + 10), ["name": .string(String(repeating: "y", count: 10_000))])
        }
        let page = PageSlice(records: slice, from: 3, checkpoint: 209, epoch: Fixture.epoch)
        let failure = await #expect(throws: StoreFailure.self) { try await f.store.apply(page) }
        #expect(failure?.kind == .full)
        #expect(failure?.advice == .askUser)
        #expect(try await f.store.position().checkpoint == 3)
        #expect(try f.int("SELECT count(*) FROM board") == 1)
        #expect(try f.int("SELECT applying FROM sync_clock") == 0)
        try await f.store.database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1000000") }
        #expect(try await f.store.apply(page).applied == 200)
        #expect(try await f.store.integrityProblems().isEmpty)
    }

    @Test("PRC-09 a disk that is full during the app's migration: the old file, whole; the migration runs again")
    func fullWhileMigrating() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try await f.store.close()
        let migrations = { (room: Int?) -> AppMigrations in
            var migrations = AppMigrations()
            migrations.register("large") { db in
                if let room { try db.execute(sql: "PRAGMA max_page_count = \(room)") }
                try db.execute(sql: "CREATE TABLE large AS SELECT randomblob(1000000) AS bytes FROM board")
            }
            return migrations
        }
        let open = { (room: Int?) in
            try Store(
                path: f.file.path, schema: boardSchema(),
                configuration: StoreConfiguration(clock: FixedClock(), migrations: migrations(room)))
        }
        let failure = #expect(throws: StoreFailure.self) { try open(1) }
        #expect(failure?.kind == .full)
        let store = try open(nil)
        #expect(store.movedAside == nil)
        #expect(try await store.queued().count == 1)
        #expect(try await store.database.read { try $0.tableExists("large") })
        #expect(try await store.integrityProblems().isEmpty)
        try await store.close()
    }

    @Test(
        "PRC-18 a file of the format before with a full queue, creates that name every field among it: all of it goes")
    func oldFormat() async throws {
        let f = try Fixture()
        for n in 0..<250 {
            try f.sql("INSERT INTO board (id, name) VALUES ('b\(n)', 'A')")
            try f.sql("UPDATE board SET closed = 1 WHERE id = 'b\(n)'")
        }
        var sent = try await f.claim(ClaimLimits(maxChanges: 1, merges: false)).changes[0].change
        // As format 1 had it, and sent it.
        sent.fields["closed"] = FieldDelta(old: nil, new: .null)
        try f.sql(
            """
            UPDATE sync_change SET fields = '{"name":{"new":"A"},"closed":{"new":null}}' WHERE operation = 0
            """)
        for table in ["sync_draft", "sync_dirty"] { try f.sql("DROP TABLE \(table)") }
        try f.sql("DROP VIEW sync_enqueue")
        try f.sql("DELETE FROM sync_meta WHERE key = 'highest'")
        try f.sql("UPDATE sync_meta SET value = 1 WHERE key = 'format'")
        let again = try await reopened(f)
        #expect(try again.int("SELECT value FROM sync_meta WHERE key = 'format'") == Int(EngineTables.format))
        #expect(try await again.store.summary().pending == 499)
        let claim = try await again.claim(ClaimLimits(maxChanges: 1_000, merges: false))
        #expect(claim.changes.count == 500)
        #expect(claim.changes[0].change == sent)
        #expect(claim.changes[1].change.fields["closed"]?.new == true)
        // Sent by this version for the first time, and then for ever as it was then.
        #expect(claim.changes[2].change.fields.keys.sorted() == ["name"])
        let last = try await reopened(again)
        let repeated = try await last.claim(ClaimLimits(maxChanges: 1_000, merges: false))
        #expect(repeated.changes.map(\.change) == claim.changes.map(\.change))
        try await last.drain()
        try await last.store.close()
    }

    @Test(
        "PRC-23 a callback that throws leaves nothing behind; a listener that does not take its notices holds nothing up"
    )
    func throwingCallbacks() async throws {
        struct Oops: Error {}
        let f = try Fixture()
        let unread = (f.store.notices(), f.store.applied(), f.store.appliedNotices(), f.store.stateChanges())
        await #expect(throws: StoreFailure.self) {
            try await f.store.write(unit: true, intent: "x") { db in
                try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')")
                throw Oops()
            }
        }
        #expect(try f.int("SELECT count(*) FROM sync_change") == 0)
        #expect(try f.int("SELECT applying FROM sync_clock WHERE \"unit\" IS NULL AND intent IS NULL") == 0)
        for n in 0..<300 {
            try await f.apply(record("board", "b\(n)", Int64(n + 1), ["name": "A"]))
        }
        #expect(try f.int("SELECT count(*) FROM board") == 300)
        withExtendedLifetime(unread) {}
    }

    @Test("PRC-23 a merge rule of the app's that throws away everything is its own business; the store stays whole")
    func oddMerge() async throws {
        let file = try TestFile()
        let store = try Store(
            path: file.path, schema: boardSchema(),
            configuration: StoreConfiguration(deltas: NothingDeltas(), clock: FixedClock()))
        _ = try await store.apply(
            PageSlice(records: [record("board", "b1", 1, ["name": "A"])], from: 0, checkpoint: 1, epoch: "e-1"))
        try await store.write { try $0.execute(sql: "UPDATE board SET closed = 1") }
        _ = try await store.apply(
            PageSlice(records: [record("board", "b1", 2, ["name": "B"])], from: 1, checkpoint: 2, epoch: "e-1"))
        #expect(try await store.queued().count == 1)
        #expect(try await store.integrityProblems().isEmpty)
        try await store.close()
    }

    @Test("DL-19 the schema changes between two pages: what came before it is taken up, the next goes on from there")
    func schemaBetweenPages() async throws {
        let old = try Schema([EntitySchema("board", fields: [.text("name", required: true), .boolean("closed")])])
        let f = try Fixture(old)
        try await f.apply(
            record("board", "b1", 1, ["name": "A", "color": "red"]), record("label", "x", 2, ["text": "L"]))
        #expect(try await f.store.held().map(\.reason) == [.unknownEntity])
        try f.sql("UPDATE board SET closed = 1")
        let new = try Schema([
            EntitySchema(
                "board", version: 2, fields: [.text("name", required: true), .boolean("closed"), .text("color")]),
            EntitySchema("label", fields: [.text("text")]),
        ])
        let again = try await reopened(f, schema: new)
        #expect(try await again.store.position().checkpoint == 2)
        try await again.apply(
            record("board", "b2", 3, ["name": "B", "color": "blue"]), record("label", "y", 4, ["text": "M"]))
        #expect(try again.rows("SELECT color FROM board ORDER BY id").map { $0[0] as String? } == ["red", "blue"])
        #expect(try again.rows("SELECT id FROM label ORDER BY id").map { $0[0] as String } == ["x", "y"])
        #expect(try await again.store.held().isEmpty)
        #expect(try await again.claim().told == ["update board b1"])
        try await again.drain()
        try await again.store.close()
    }

    @Test("DL-22 writes between the slices of a page are neither lost nor overwritten")
    func writesWhileApplying() async throws {
        let f = try Fixture()
        let (store, slices, size) = (f.store, 20, 100)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for slice in 0..<slices {
                    let first = slice * size
                    let records = (first..<first + size).map { n in
                        record("board", "b\(n)", Int64(n + 1), ["name": "server", "closed": false])
                    }
                    _ = try await store.apply(
                        PageSlice(
                            records: records, from: Int64(first), checkpoint: Int64(first + size), epoch: Fixture.epoch)
                    )
                }
            }
            group.addTask {
                for n in 0..<200 {
                    try await store.database.write { db in
                        try db.execute(sql: "INSERT OR IGNORE INTO board (id, name) VALUES ('mine\(n)', 'mine')")
                        try db.execute(sql: "UPDATE board SET name = 'edited' WHERE id = 'b\(n * 10)'")
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try f.int("SELECT count(*) FROM board WHERE name = 'mine'") == 200)
        let edited = try f.int("SELECT count(*) FROM board WHERE name = 'edited'")
        #expect(try f.int("SELECT count(*) FROM sync_change WHERE operation = 1") == edited)
        #expect(try f.int("SELECT count(*) FROM board") == slices * size + 200)
        // The same page again, over the edits: the device reads its own.
        for slice in 0..<slices {
            let first = slice * size
            let records = (first..<first + size).map { record("board", "b\($0)", Int64($0 + 3_000), ["name": "newer"]) }
            let last = Int64(first + size + 2_999)
            _ = try await store.apply(PageSlice(records: records, from: 2_000, checkpoint: last, epoch: Fixture.epoch))
        }
        #expect(try f.int("SELECT count(*) FROM board WHERE name = 'edited'") == edited)
        try await f.drain(from: 10_000)
        #expect(try await f.store.integrityProblems().isEmpty)
    }

    @Test("DAT-14 a field of 10 MB is kept here and goes into the queue as it is")
    func largeField() async throws {
        let f = try Fixture()
        let text = String(repeating: "0123456789", count: 1 << 20)
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', ?)", [text])
        let claim = try await f.claim()
        #expect(claim.changes.first?.change.fields["name"]?.new == .string(text))
        try await f.settle((claim.keys[0], .refused("tooLarge")))
        #expect(try await f.store.failures().map(\.reason.code) == ["tooLarge"])
        #expect(try f.text("SELECT name FROM board") == text)
    }

    @Test(
        "DAT-16 dates come back as they went",
        arguments: [
            "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "2026-03-29T01:30:00.120Z",
            "2016-12-31T23:59:60.000Z",
        ])
    func dates(date: String) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("card", "c1", 9, ["due": .string(date), "idList": "l1"]))
        #expect(try f.card("due") == date)
        try f.sql("UPDATE card SET due = NULL")
        try f.sql("UPDATE card SET due = ?", [date])
        #expect(try await f.claim().changes.first?.change.fields["due"]?.new == .string(date))
    }
}

/// A merge rule that gives nothing back.
private struct NothingDeltas: DeltaCalculation {
    func compose(_ first: FieldDelta, _ second: FieldDelta) -> FieldDelta { FieldDelta(old: nil, new: .null) }
    func rebase(_ delta: FieldDelta, onto base: FieldValue) -> FieldValue { .null }
    func successor(of change: Change, over record: ServerRecord, conflicts: Int) -> [String: FieldDelta]? { nil }
}
