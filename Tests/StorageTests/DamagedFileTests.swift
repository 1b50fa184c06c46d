import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// Damage of a kind that a file may have, and what its next openings make of it.
@Suite("A damaged file")
struct DamagedFileTests {
    /// A kind of damage.
    enum Damage: String, CaseIterable {
        case oneByteLess, half, onePage, freeList, freeListCount
    }

    private func queued(_ store: Store) async throws -> [String] { try await store.queued().map(\.change.id) }

    /// A closed file of boards that were downloaded, with two changes that wait, and room that was freed.
    private func closedFile(boards: Int) async throws -> (TestFile, [String], pageSize: Int) {
        let f = try Fixture()
        let text = FieldValue.string(String(repeating: "x", count: 1_000))
        for slice in stride(from: 0, to: boards, by: 500) {
            let records = (slice..<min(slice + 500, boards)).map { n in
                record("board", "b\(n)", Int64(n + 1), ["name": text])
            }
            let last = Int64(slice + records.count)
            _ = try await f.store.apply(
                PageSlice(records: records, from: Int64(slice), checkpoint: last, epoch: Fixture.epoch))
        }
        try f.sql("INSERT INTO board (id, name) VALUES ('mine', 'A')")
        try f.sql("UPDATE board SET closed = 1 WHERE id = 'b0'")
        let size = try f.int("PRAGMA page_size") ?? 0
        let keys = try await queued(f.store)
        try await f.store.close()
        return (f.file, keys, size)
    }

    private func edit(_ file: TestFile, at offset: Int, _ change: (Data) -> Data, count: Int) throws {
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: file.path))
        try handle.seek(toOffset: UInt64(offset))
        let bytes = try #require(try handle.read(upToCount: count))
        try handle.seek(toOffset: UInt64(offset))
        try handle.write(contentsOf: change(bytes))
        try handle.close()
    }

    private func size(_ file: TestFile) throws -> UInt64 {
        let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
        return try #require(attributes[.size] as? UInt64)
    }

    private func truncate(_ file: TestFile, to size: UInt64) throws {
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: file.path))
        try handle.truncate(atOffset: size)
        try handle.close()
    }

    @Test("PRC-14 a page of a large file is damaged: who meets it says so, the next opening moves the file aside, once")
    func large() async throws {
        let (file, keys, pageSize) = try await closedFile(boards: 5_000)
        #expect(try size(file) > 4 << 20)
        // The leaf that holds this row of the table.
        let bytes = try Data(contentsOf: URL(fileURLWithPath: file.path))
        let place = try #require(bytes.firstRange(of: Data("b2500xxx".utf8))).lowerBound
        let page = place / pageSize * pageSize
        #expect(bytes[page] == 13)
        try edit(file, at: page, { Data(repeating: 0xff, count: $0.count) }, count: 64)

        let f = try Fixture(file: file)
        #expect(f.store.movedAside == nil)
        let all = (0..<5_000).map { record("board", "b\($0)", Int64($0 + 6_000), ["name": "new"]) }
        let failure = await #expect(throws: StoreFailure.self) {
            try await f.store.apply(
                PageSlice(records: all, from: 5_000, checkpoint: 11_000, epoch: Fixture.epoch))
        }
        #expect(failure?.kind == .corrupt)
        #expect(FileManager.default.fileExists(atPath: file.path + "-corrupt"))
        #expect(try await queued(f.store) == keys)
        do { try await f.store.close() } catch {}  // whatever it meets: the next opening decides

        let next = try Fixture(file: file, seed: 8)
        let old = try #require(next.store.movedAside)
        #expect(FileManager.default.fileExists(atPath: old))
        #expect(try await queued(next.store) == keys)
        #expect(!FileManager.default.fileExists(atPath: file.path + "-corrupt"))
        #expect(try await next.store.integrityProblems().isEmpty)
        try await next.store.close()

        let third = try Fixture(file: file, seed: 9)
        #expect(third.store.movedAside == nil)
        #expect(try await queued(third.store) == keys)
        let asideFiles = try FileManager.default.contentsOfDirectory(atPath: file.folder.path).filter {
            $0.contains(".corrupt-") && !$0.contains("-wal") && !$0.contains("-shm") && !$0.hasSuffix("-corrupt")
        }
        #expect(asideFiles.count == 1)
        try await third.store.close()
    }

    @Test(
        "PRC-14 an index lacks a row of its table: a small file's next opening finds it, a large one's once somebody met it",
        arguments: [10, 5_000])
    func index(boards: Int) async throws {
        let (file, keys, pageSize) = try await closedFile(boards: boards)
        let root = try await DatabaseQueue(path: file.path).read { db in
            try Int.fetchOne(db, sql: "SELECT rootpage FROM sqlite_schema WHERE name = 'sync_change_record'") ?? 0
        }
        let start = (root - 1) * pageSize
        let page = try Data(contentsOf: URL(fileURLWithPath: file.path))[start..<start + pageSize]
        let place = try #require(page.firstRange(of: Data("mine".utf8))).lowerBound
        try edit(file, at: place, { Data([$0[$0.startIndex] ^ 1]) }, count: 1)

        let isLarge = try size(file) > 4 << 20
        #expect(isLarge == (boards > 1_000))
        if isLarge {
            let f = try Fixture(file: file)
            #expect(f.store.movedAside == nil)
            try await f.store.close()
            CorruptionMark(database: file.path).set()
        }
        let next = try Fixture(file: file, seed: 8)
        let old = try #require(next.store.movedAside)
        #expect(FileManager.default.fileExists(atPath: old))
        #expect(try await queued(next.store) == keys)
        #expect(try await next.store.integrityProblems().isEmpty)
        #expect(next.store.standing == .inPlace)
        try await next.store.close()
    }

    @Test(
        "PRC-14 a store whose file was moved, removed or replaced says so, and begins no cycle in it",
        arguments: [true, false])
    func replaced(hasAnother: Bool) async throws {
        let f = try Fixture()
        #expect(f.store.standing == .inPlace)
        #expect(try await f.store.beginCycle(holder: "h", seconds: 30) != nil)
        CorruptionMark(database: f.file.path).set()
        #expect(f.store.standing == .foundCorrupt)
        CorruptionMark(database: f.file.path).remove()
        for suffix in ["-wal", "-shm", ""] {
            try FileManager.default.moveItem(atPath: f.file.path + suffix, toPath: f.file.path + "-old" + suffix)
        }
        let other = hasAnother ? try Fixture(file: f.file, seed: 8) : nil
        #expect(f.store.standing == .replaced)
        let failure = await #expect(throws: StoreFailure.self) {
            try await f.store.beginCycle(holder: "h", seconds: 30)
        }
        #expect(failure?.kind == .refused && failure?.message.contains("open it anew") == true)
        try other?.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try await f.store.close()
        // What closes there takes nothing of the other's along.
        if let other {
            #expect(other.store.standing == .inPlace)
            try await other.store.close()
            let last = try Fixture(file: f.file, seed: 9)
            #expect(try await queued(last.store).count == 1)
            #expect(last.store.missingCommits == nil)
            try await last.store.close()
        }
    }

    @Test(
        "PRC-14 a file that is cut, or whose list of free pages is damaged: never refused twice, moved and not deleted",
        arguments: Damage.allCases)
    func cutOrBent(_ damage: Damage) async throws {
        let (file, keys, pageSize) = try await closedFile(boards: 300)
        if damage == .freeList || damage == .freeListCount {
            let raw = try DatabaseQueue(path: file.path)
            try await raw.writeWithoutTransaction { db in
                try db.execute(sql: "CREATE TABLE large AS SELECT zeroblob(100000) AS x FROM board LIMIT 20")
                try db.execute(sql: "DROP TABLE large")
                _ = try db.checkpoint(.truncate)
            }
            try raw.close()
        }
        let whole = try size(file)
        switch damage {
        case .oneByteLess: try truncate(file, to: whole - 1)
        case .half: try truncate(file, to: whole / UInt64(pageSize) / 2 * UInt64(pageSize))
        case .onePage: try truncate(file, to: UInt64(pageSize))
        case .freeList, .freeListCount:
            let header = try Data(contentsOf: URL(fileURLWithPath: file.path))[32..<36]
            let trunk = header.reduce(0) { $0 << 8 | Int($1) }
            #expect(trunk > 0)
            // One bit: of a free page's number, or of how many there are.
            let place = damage == .freeList ? 8 : 4
            try edit(file, at: (trunk - 1) * pageSize + place, { Data([$0[$0.startIndex] ^ 0x40]) }, count: 1)
        }
        let bytes = try Data(contentsOf: URL(fileURLWithPath: file.path))

        let store: Store
        do { store = try Store(path: file.path, schema: boardSchema()) } catch {
            store = try Store(path: file.path, schema: boardSchema())
        }
        let old = try #require(store.movedAside)
        #expect(try Data(contentsOf: URL(fileURLWithPath: old)) == bytes)
        let saved = try await queued(store)
        let told = try await store.events().first { $0.kind == "salvaged" }?.detail
        #expect(told == "\(saved.count) changes")
        // Nothing but the table of tables is left of a file that is cut so short.
        #expect(saved == (damage == .onePage ? [] : keys))
        try await store.database.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('after', 'B')") }
        #expect(try await store.integrityProblems().isEmpty)
        try await store.close()
        let again = try Store(path: file.path, schema: boardSchema())
        #expect(again.movedAside == nil)
        #expect(try await queued(again).count == saved.count + 1)
        try await again.close()
    }

    @Test("PRC-13 a file that cannot be opened for a while is as it was when it can: nothing moved, told or begun anew")
    func cannotOpenForAWhile() async throws {
        let (file, keys, _) = try await closedFile(boards: 3)
        let first = try Store(path: file.path, schema: boardSchema())
        let device = try await first.position().deviceID
        let events = try await first.events().count
        try await first.close()
        func names() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: file.folder.path).sorted()
        }
        let before = (try Data(contentsOf: URL(fileURLWithPath: file.path)), try names())
        // SQLite cannot open its shared memory: to who opens that is a file that the system does not show.
        try FileManager.default.createSymbolicLink(atPath: file.path + "-shm", withDestinationPath: "no/where")
        for _ in 0..<3 {
            let failure = #expect(throws: StoreFailure.self) { try Store(path: file.path, schema: boardSchema()) }
            #expect(failure?.kind == .io)
            #expect(failure?.advice == .retry)
        }
        try FileManager.default.removeItem(atPath: file.path + "-shm")
        #expect(try Data(contentsOf: URL(fileURLWithPath: file.path)) == before.0)
        #expect(try names().filter { !$0.hasSuffix("-wal") } == before.1)
        let store = try Store(path: file.path, schema: boardSchema())
        #expect(store.movedAside == nil && !store.isBegunAnew)
        #expect(try await store.position().deviceID == device)
        #expect(try await queued(store) == keys)
        #expect(try await store.events().count == events)
        try await store.close()
    }
}
