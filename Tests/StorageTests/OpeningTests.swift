import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("Opening a file")
struct OpeningTests {
    @Test("I10 a file of another account is refused, untouched")
    func account() async throws {
        let file = try TestFile()
        let first = try Store(path: file.path, schema: boardSchema(), account: "ada")
        try await first.close()
        let failure = #expect(throws: StoreFailure.self) {
            try Store(path: file.path, schema: boardSchema(), account: "bob")
        }
        #expect(failure?.kind == .refused)
        let again = try Store(path: file.path, schema: boardSchema(), account: "ada")
        try await again.close()
    }

    @Test(
        "An SQLite that is too old is refused before the app's migrations run, in words that name it",
        arguments: ["3.37.2", "3.9.10", "2.8"])
    func oldSQLite(version: String) async throws {
        let file = try TestFile()
        var migrations = AppMigrations()
        migrations.register("made") { db in try db.execute(sql: "CREATE TABLE made (id TEXT)") }
        var configuration = StoreConfiguration(migrations: migrations)
        configuration.foundSQLite = version
        let failure = #expect(throws: StoreFailure.self) {
            try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        }
        #expect(failure?.kind == .refused)
        #expect(failure?.message == "SQLite 3.38.0 or newer is needed; this program runs with \(version).")
        let queue = try DatabaseQueue(path: file.path)
        let made = try await queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sqlite_master") }
        #expect(made == 0)
        try queue.close()
    }

    @Test("An SQLite that is new enough opens", arguments: ["3.38.0", "3.38.5", "3.100.1", "4.0.0"])
    func newSQLite(version: String) async throws {
        let file = try TestFile()
        var configuration = StoreConfiguration()
        configuration.foundSQLite = version
        try await Store(path: file.path, schema: boardSchema(), configuration: configuration).close()
    }

    @Test("D8 a file of a newer format is refused, untouched")
    func newerFormat() async throws {
        let f = try Fixture()
        try f.sql("UPDATE sync_meta SET value = 99 WHERE key = 'format'")
        let before = try f.rows("SELECT * FROM sync_meta ORDER BY key")
        try await f.store.close()
        let failure = #expect(throws: StoreFailure.self) { try Fixture(file: f.file) }
        #expect(failure?.kind == .refused)
        let queue = try DatabaseQueue(path: f.file.path)
        #expect(try queue.read { try Row.fetchAll($0, sql: "SELECT * FROM sync_meta ORDER BY key") } == before)
        try queue.close()
    }

    @Test("PRC-19 a copied file is another device; its unsent changes keep the earlier id, and no key is repeated")
    func copied() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        let device = try await f.store.position().deviceID
        try await f.store.close()
        let copy = try TestFile()
        try FileManager.default.copyItem(atPath: f.file.path, toPath: copy.path)
        let g = try Store(path: copy.path, schema: boardSchema())
        let other = try await g.position().deviceID
        #expect(other != device)
        try await g.database.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b2', 'B')") }
        let queued = try await g.queued().map(\.change)
        #expect(queued.map(\.deviceID) == [device, nil])
        #expect(queued.map(\.sequence) == [1, 3])
        #expect(Set(queued.map(\.id)).count == 2)
        #expect(try await g.events().map(\.kind) == ["newDevice"])
        try await g.close()
        let again = try Store(path: copy.path, schema: boardSchema())
        #expect(try await again.position().deviceID == other)
        try await again.close()
        let original = try Fixture(file: f.file)
        #expect(try await original.store.position().deviceID == device)
    }

    @Test("PRC-15, PRC-19 an older copy put back in the same place is noticed")
    func restoredInPlace() async throws {
        let f = try Fixture()
        let device = try await f.store.position().deviceID
        try await f.store.close()
        let backup = try Data(contentsOf: URL(fileURLWithPath: f.file.path))
        let g = try Fixture(file: f.file)
        #expect(try await g.store.position().deviceID == device)
        try g.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try await g.store.close()
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: f.file.path))
        try handle.truncate(atOffset: 0)
        try handle.write(contentsOf: backup)
        try handle.close()
        let h = try Fixture(file: f.file, seed: 8)
        #expect(try await h.store.position().deviceID != device)
        #expect(try await h.store.events().map(\.kind) == ["newDevice"])
        #expect(h.store.missingCommits == "The file is an older copy of itself; what was committed since is missing.")
    }

    @Test("PRC-13 a file that cannot be opened is no corruption: it stays where it is")
    func cannotOpen() throws {
        let file = try TestFile()
        try FileManager.default.createDirectory(atPath: file.path, withIntermediateDirectories: false)
        let failure = #expect(throws: StoreFailure.self) { try Store(path: file.path, schema: boardSchema()) }
        #expect(failure?.kind == .io)
        #expect(failure?.advice == .retry)
    }

    @Test("PRC-10 another process's lock is waited for, within bounds; then a typed error and nothing done")
    func busy() async throws {
        let f = try TestFile()
        let store = try Store(path: f.path, schema: boardSchema(), configuration: StoreConfiguration(busyTimeout: 0.05))
        var settings = Configuration()
        settings.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: f.path, configuration: settings)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        let failure = await #expect(throws: StoreFailure.self) {
            try await store.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
        }
        #expect(failure?.kind == .busy)
        #expect(failure?.advice == .retry)
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        #expect(try await store.queued().isEmpty)
        try other.close()
        try await store.close()
    }

    @Test("PRC-07 a full disk on a local write: a typed error, nothing changed, reads work")
    func full() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        let pages = try f.int("PRAGMA page_count") ?? 0
        try await f.store.database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = \(pages)") }
        let failure = await #expect(throws: StoreFailure.self) {
            try await f.store.write {
                try $0.execute(
                    sql: "INSERT INTO board (id, name) VALUES ('b2', ?)",
                    arguments: [String(repeating: "x", count: 1 << 20)])
            }
        }
        #expect(failure?.kind == .full)
        #expect(try f.int("SELECT count(*) FROM board") == 1)
        #expect(try f.changes().count == 1)
        let slice = (0..<200).map { n in
            record("board", "c\(n)", Int64(n + 1), ["name": .string(String(repeating: "y", count: 10_000))])
        }
        let failed = await #expect(throws: StoreFailure.self) {
            try await f.store.apply(PageSlice(records: slice, from: 0, checkpoint: 200, epoch: "e-1"))
        }
        #expect(failed?.kind == .full)
        #expect(try await f.store.position().checkpoint == 0)
        try await f.store.database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1000000") }
        _ = try await f.store.apply(PageSlice(records: slice, from: 0, checkpoint: 200, epoch: "e-1"))
        #expect(try await f.store.position().checkpoint == 200)
        #expect(try await f.store.integrityProblems().isEmpty)
    }

    @Test("PRC-11 one holder has the lease; a dead one is taken over when it runs out, and applies no page any more")
    func lease() async throws {
        let file = try TestFile()
        let clock = MovingClock()
        let configuration = StoreConfiguration(clock: clock)
        let a = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        let b = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        #expect(try await a.lease(holder: "a", seconds: 10))
        #expect(try await !b.lease(holder: "b", seconds: 10))
        #expect(try await a.lease(holder: "a", seconds: 10))
        try await a.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
        let claim = try await a.settle(Settlement(), claim: ClaimLimits())
        #expect(claim.changes.count == 1)
        clock.move(11_000)
        #expect(try await b.lease(holder: "b", seconds: 10))
        #expect(try await b.queued().map(\.state) == [.uncertain])
        let slice = PageSlice(records: [], from: 0, checkpoint: 5, epoch: "e-1")
        await #expect(throws: StoreFailure.self) { try await a.apply(slice) }
        let late = Settlement(outcomes: [
            .init(changeID: claim.changes[0].change.id, kind: .applied(version: 1, overwrote: [:], serverID: nil))
        ])
        _ = try await a.settle(late, claim: ClaimLimits())
        #expect(try await b.queued().isEmpty)
        try await b.release(holder: "b")
        #expect(try await a.lease(holder: "a", seconds: 10))
        _ = try await a.apply(slice)
        try await a.close()
        try await b.close()
    }

    @Test("PRC-11 SCH-08 a lease that was taken before the clock was set back does not keep others away for as long")
    func leaseFromTheFuture() async throws {
        let file = try TestFile()
        let clock = MovingClock()
        let configuration = StoreConfiguration(clock: clock)
        let a = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        let b = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        clock.move(86_400_000)
        #expect(try await a.lease(holder: "a", seconds: 30))
        clock.move(-86_400_000)
        #expect(try await b.isBeingSynced() == false)
        #expect(try await b.lease(holder: "b", seconds: 30))
        try await a.close()
        try await b.close()
    }

    @Test("PRC-11 who is at work keeps the lease, however long the cycle takes")
    func longCycle() async throws {
        let file = try TestFile()
        let clock = MovingClock()
        let configuration = StoreConfiguration(clock: clock)
        let a = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        let b = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        #expect(try await a.beginCycle(holder: "a", seconds: 30) != nil)
        for page in 0..<3 {
            clock.move(20_000)
            let slice = PageSlice(records: [], from: Int64(page), checkpoint: Int64(page + 1), epoch: "e-1")
            _ = try await a.apply(slice)
        }
        try await a.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
        for _ in 0..<3 {
            clock.move(20_000)
            _ = try await a.settle(Settlement(), claim: ClaimLimits())
        }
        clock.move(20_000)
        #expect(try await b.beginCycle(holder: "b", seconds: 30) == nil)
        clock.move(20_000)
        #expect(try await b.beginCycle(holder: "b", seconds: 30) != nil)
        try await a.close()
        try await b.close()
    }

    @Test("SEC-11, PRC-20 a wipe leaves nothing of the account in the file")
    func wipe() async throws {
        let file = try TestFile()
        let store = try Store(path: file.path, schema: boardSchema(), account: "ada")
        try await store.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'SECRETWORD')") }
        #expect(try await store.unsent().pending == 1)
        let device = try await store.position().deviceID
        try await store.wipe()
        #expect(try await store.queued().isEmpty)
        #expect(try await store.position().deviceID != device)
        try await store.close()
        for name in try FileManager.default.contentsOfDirectory(atPath: file.folder.path) {
            let data = try Data(contentsOf: file.folder.appendingPathComponent(name))
            #expect(data.range(of: Data("SECRETWORD".utf8)) == nil, "\(name)")
        }
        let bob = try Store(path: file.path, schema: boardSchema(), account: "bob")
        try await bob.close()
    }

    @Test("SEC-11, PRC-11 what another process has open of an account that signs out writes nothing more into the file")
    func signedOutElsewhere() async throws {
        let file = try TestFile()
        let app = try Store(path: file.path, schema: boardSchema(), account: "ada")
        let other = try Store(path: file.path, schema: boardSchema(), account: "ada")
        let unnamed = try Store(path: file.path, schema: boardSchema())
        #expect(try await other.beginCycle(holder: "other", seconds: 30) != nil)
        try await app.wipe()
        let late = PageSlice(
            records: [ServerRecord(key: RecordKey("board", "b1"), version: 1, fields: ["name": "hers"])],
            from: 0, checkpoint: 1, epoch: "e")
        for store in [app, other, unnamed] {
            await #expect(throws: StoreFailure.self) { try await store.apply(late) }
            await #expect(throws: StoreFailure.self) {
                try await store.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b2', 'hers')") }
            }
        }
        // Nobody waits for who is not at work any more.
        let bob = try Store(path: file.path, schema: boardSchema(), account: "bob")
        #expect(try await bob.beginCycle(holder: "bob", seconds: 30) != nil)
        let refused = await #expect(throws: StoreFailure.self) {
            _ = try await other.beginCycle(holder: "other", seconds: 30)
        }
        #expect(refused?.kind == .refused)
        try await bob.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b3', 'his')") }
        await #expect(throws: StoreFailure.self) { try await other.wipe() }
        #expect(try await bob.queued().map(\.change.record.id) == ["b3"])
        #expect(try bob.read { try String.fetchAll($0, sql: "SELECT id FROM board") } == ["b3"])
        for store in [app, other, unnamed, bob] { try await store.close() }
    }

    @Test("Rows that were there before the first trigger become creates; what a dropped trigger missed, too")
    func missed() async throws {
        let file = try TestFile()
        let queue = try DatabaseQueue(path: file.path)
        try await queue.write { db in
            try db.execute(sql: "CREATE TABLE board (id TEXT PRIMARY KEY, name TEXT, closed BOOLEAN)")
            try db.execute(sql: "INSERT INTO board VALUES ('b1', 'A', 1)")
        }
        try queue.close()
        let schema = try Schema([EntitySchema("board", fields: [.text("name"), .boolean("closed")])])
        let f = try Fixture(schema, file: file)
        #expect(try f.changes().map(\.operation) == [.create])
        #expect(try f.changes()[0].fields["closed"]?.new == true)
        try f.sql("DROP TRIGGER sync_capture_board_insert")
        try f.sql("INSERT INTO board VALUES ('b2', 'B', 0)")
        #expect(try f.changes().count == 1)
        try await f.store.close()
        let g = try Fixture(schema, file: file)
        #expect(try g.changes().map(\.record.id) == ["b1", "b2"])
        #expect(try await g.store.events().map(\.kind).contains("triggerRemade"))
        #expect(try await g.store.integrityProblems().isEmpty)
    }

    @Test("A table without a declared column is refused with what to write")
    func missingColumn() async throws {
        let file = try TestFile()
        let queue = try DatabaseQueue(path: file.path)
        try await queue.write { try $0.execute(sql: "CREATE TABLE board (id TEXT PRIMARY KEY)") }
        try queue.close()
        let schema = try Schema([EntitySchema("board", fields: [.text("name")])])
        let failure = #expect(throws: StoreFailure.self) {
            try Store(path: file.path, schema: schema, configuration: StoreConfiguration(createsTables: false))
        }
        #expect(failure?.kind == .invalid)
        #expect(failure?.message.contains("no column “name”") == true)
    }
}

/// A clock that a test moves.
final class MovingClock: WallClock, @unchecked Sendable {  // the lock guards the field
    private let lock = NSLock()
    private var now: Int64 = 1_000_000
    var nowMilliseconds: Int64 { lock.withLock { now } }
    func move(_ milliseconds: Int64) { lock.withLock { now += milliseconds } }
}
