import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// Files that are broken, gone, or none: what is saved of them, and what begins anew.
@Suite("Opening a broken file")
struct BrokenFileTests {
    @Test("PRC-14 a file that is no database is moved aside, never deleted")
    func noDatabase() async throws {
        let file = try TestFile()
        try Data("this is not a database, whatever its name says".utf8).write(to: URL(fileURLWithPath: file.path))
        let store = try Store(path: file.path, schema: boardSchema())
        let old = try #require(store.movedAside)
        #expect(FileManager.default.fileExists(atPath: old))
        #expect(try await store.events().map(\.kind) == ["movedAside", "salvaged"])
        try await store.close()
    }

    @Test("PRC-14 a file of no bytes, or none, where one was before, is begun anew, as a new device; that is told once")
    func emptied() async throws {
        for isEmpty in [true, false] {
            let f = try Fixture()
            #expect(!f.store.isBegunAnew)
            let device = try await f.store.position().deviceID
            try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
            try await f.store.close()
            for suffix in ["-wal", "-shm", ""] where FileManager.default.fileExists(atPath: f.file.path + suffix) {
                try FileManager.default.removeItem(atPath: f.file.path + suffix)
            }
            if isEmpty { try Data().write(to: URL(fileURLWithPath: f.file.path)) }
            #expect(try Store(forReading: f.file.path, schema: boardSchema()) == nil)
            let store = try Store(path: f.file.path, schema: boardSchema())
            #expect(store.isBegunAnew && store.movedAside == nil)
            #expect(try await store.events().map(\.kind) == ["begunAnew"])
            #expect(try await store.position().deviceID != device)
            #expect(try await store.queued().isEmpty)
            try await store.close()
            let again = try Store(path: f.file.path, schema: boardSchema())
            #expect(!again.isBegunAnew)
            #expect(try await again.events().count == 1)
            try await again.close()
        }
    }

    @Test("PRC-14 of a broken file the unsent queue is saved, and its new rows are there again")
    func salvaged() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try f.sql("UPDATE board SET closed = 1")
        let keys = try await f.store.queued().map(\.change.id)
        let device = try await f.store.position().deviceID
        let root = try f.int("SELECT rootpage FROM sqlite_master WHERE name = 'board'") ?? 0
        let size = try f.int("PRAGMA page_size") ?? 0
        try await f.store.database.barrierWriteWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try await f.store.close()
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: f.file.path))
        try handle.seek(toOffset: UInt64((root - 1) * size))
        try handle.write(contentsOf: Data(repeating: 0xff, count: 200))
        try handle.close()
        let store = try Store(path: f.file.path, schema: boardSchema())
        #expect(store.movedAside != nil)
        let queued = try await store.queued()
        #expect(queued.map(\.change.id) == keys)
        #expect(queued.allSatisfy { $0.change.deviceID == device })
        let row = try store.database.read { try Row.fetchOne($0, sql: "SELECT name, closed FROM board") }
        #expect(row == ["name": "A", "closed": 1])
        try await store.database.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b2', 'B')") }
        let all = try await store.queued()
        #expect(Set(all.map(\.change.id)).count == 3)
        #expect(try await store.integrityProblems().isEmpty)
        try await store.close()
    }

    /// A closed file of a queue with a create and an update; with the keys of both.
    private func closedQueue() async throws -> (TestFile, [String]) {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        try f.sql("INSERT INTO board (id, name) VALUES ('b2', 'B')")
        let keys = try await f.store.queued().map(\.change.id)
        try await f.store.database.barrierWriteWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try await f.store.close()
        return (f.file, keys)
    }

    @Test(
        "PRC-14 a saved create whose parent comes with the download shows as soon as that is here, or its verdict after it",
        arguments: [true, false])
    func parentLater(_ isDecidedFirst: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("new")
        try f.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let keys = try await f.store.queued().map(\.change.id)
        try await f.store.database.barrierWriteWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try await f.store.close()
        try overwrite(f.file, at: 0, [UInt8](repeating: 0x55, count: 16))
        let g = try Fixture(file: f.file, seed: 8)
        #expect(g.store.movedAside != nil)
        #expect(try await g.store.queued().map(\.change.id) == keys)
        #expect(try !g.hasCard("new"))
        if isDecidedFirst {
            #expect(try await g.claim().keys == keys)
            try await g.settle((keys[0], .applied(4)), (keys[1], .applied(5)))
        }
        try await g.apply(
            record("board", "b1", 1, ["name": "Board"]), record("list", "l1", 2, ["name": "List", "idBoard": "b1"]))
        #expect(try g.card("name", "new") == "A")
        if isDecidedFirst {
            try await g.apply(record("card", "c1", 5, ["name": "B", "idList": "l1"]))
        } else {
            try await g.apply(record("card", "c1", 3, ["name": "Card", "idList": "l1"]))
            try await g.drain()
        }
        #expect(try g.card("name", "new") == "A" && g.card("name", "c1") == "B")
        #expect(try g.int("SELECT version FROM sync_record WHERE id = 'new'") ?? 0 > 0)
        #expect(try g.int("SELECT count(*) FROM sync_held") == 0)
        #expect(try await g.store.integrityProblems().isEmpty)
        try await g.store.close()
    }

    @Test(
        "PRC-14 a note beside the file that is damaged stops no opening",
        arguments: ["9223372036854775807\nd 9223372036854775807\n", "-9223372036854775808\n", "\n\n", "x"])
    func damagedNote(_ text: String) async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        let device = try await f.store.position().deviceID
        try await f.store.close()
        try Data(text.utf8).write(to: URL(fileURLWithPath: f.file.path + "-device"))
        for _ in 0..<3 {
            let store = try Store(path: f.file.path, schema: boardSchema())
            #expect(try await store.position().deviceID == device)
            #expect(try await store.queued().count == 1)
            try await store.close()
        }
    }

    private func overwrite(_ file: TestFile, at offset: UInt64, _ bytes: [UInt8]) throws {
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: file.path))
        try handle.seek(toOffset: offset)
        try handle.write(contentsOf: Data(bytes))
        try handle.close()
    }

    @Test("PRC-14 the app makes its tables itself: the queue is saved when they are there, and not before")
    func savedLater() async throws {
        let (file, keys) = try await closedQueue()
        try overwrite(file, at: 0, [UInt8](repeating: 0x55, count: 16))
        let own = StoreConfiguration(createsTables: false)
        let failure = #expect(throws: StoreFailure.self) {
            try Store(path: file.path, schema: boardSchema(), configuration: own)
        }
        #expect(failure?.kind == .invalid)
        let app = try DatabaseQueue(path: file.path)
        try await app.write { db in try AppTables.create(db, boardSchema()) }
        try app.close()
        let store = try Store(path: file.path, schema: boardSchema(), configuration: own)
        #expect(store.movedAside != nil)
        #expect(try await store.queued().map(\.change.id) == keys)
        try await store.close()
        let again = try Store(path: file.path, schema: boardSchema(), configuration: own)
        #expect(again.movedAside == nil)
        #expect(try await again.queued().map(\.change.id) == keys)
        try await again.close()
    }

    @Test("PRC-14 the app makes its tables as the file opens: the queue of the damaged one is saved at once")
    func savedAtOnce() async throws {
        let (file, keys) = try await closedQueue()
        try overwrite(file, at: 0, [UInt8](repeating: 0x55, count: 16))
        let own = StoreConfiguration(createsTables: false, makesTables: { try AppTables.create($0, boardSchema()) })
        let store = try Store(path: file.path, schema: boardSchema(), configuration: own)
        #expect(store.movedAside != nil)
        #expect(try await store.queued().map(\.change.id) == keys)
        try await store.close()
    }

    @Test("PRC-14 a new file that is damaged, too, before the first one's queue is saved: both are saved")
    func damagedTwice() async throws {
        let (file, keys) = try await closedQueue()
        try overwrite(file, at: 0, [UInt8](repeating: 0x55, count: 16))
        // As a process leaves it that is killed between the two.
        try Recovery.moveAside(file.path, now: 1)
        try Data(repeating: 0x55, count: 4_096).write(to: URL(fileURLWithPath: file.path))
        let store = try Store(path: file.path, schema: boardSchema())
        #expect(store.movedAside != nil)
        #expect(try await store.queued().map(\.change.id) == keys)
        #expect(try await store.events().count { $0.kind == "movedAside" } == 2)
        let rows = try await store.database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM board") }
        #expect(rows == 2)
        try await store.close()
        let again = try Store(path: file.path, schema: boardSchema())
        #expect(again.movedAside == nil)
        try await again.close()
    }

    @Test("PRC-14 a header that is overwritten costs nothing of the queue", arguments: [0, 16, 18, 20, 21])
    func header(from first: Int) async throws {
        let (file, keys) = try await closedQueue()
        try overwrite(file, at: UInt64(first), [UInt8](repeating: 0x55, count: 24 - first))
        let store = try Store(path: file.path, schema: boardSchema())
        let old = try #require(store.movedAside)
        #expect(try await store.queued().map(\.change.id) == keys)
        #expect(!FileManager.default.fileExists(atPath: old + "-mended"))
        try await store.close()
    }

    @Test(
        "PRC-14 a file with pages of another size than a new one has is read by its own, also where its header is gone",
        arguments: [512, 1_024, 8_192, 65_536], [true, false])
    func otherPageSize(_ size: Int, isHeaderGone: Bool) async throws {
        let file = try TestFile()
        let own = try DatabaseQueue(path: file.path)
        try await own.writeWithoutTransaction {
            try $0.execute(sql: "PRAGMA page_size = \(size); CREATE TABLE other (a TEXT)")
        }
        try own.close()
        let f = try Fixture(file: file)
        try #require(try f.int("PRAGMA page_size") == size)
        for n in 0..<3 { try f.sql("INSERT INTO board (id, name) VALUES (?, 'A')", ["b\(n)"]) }
        let keys = try await f.store.queued().map(\.change.id)
        let root = try f.int("SELECT rootpage FROM sqlite_schema WHERE name = 'sync_change_record'") ?? 0
        try await f.store.close()
        // Without its header; or with an index that lacks a row.
        if isHeaderGone {
            try overwrite(file, at: 0, [UInt8](repeating: 0x55, count: 100))
        } else {
            let bytes = try Data(contentsOf: URL(fileURLWithPath: file.path))
            let page = bytes[(root - 1) * size..<root * size]
            let place = try #require(page.firstRange(of: Data("b1".utf8))).lowerBound
            try overwrite(file, at: UInt64(place), Array("x".utf8))
        }
        let g = try Fixture(file: file, seed: 8)
        try #require(g.store.movedAside != nil)
        #expect(try await g.store.queued().map(\.change.id) == keys)
        try await g.store.close()
    }

    @Test("PRC-14 of a queue with two broken pages, what is between them is saved row by row")
    func between() async throws {
        let f = try Fixture()
        let text = String(repeating: "x", count: 300)
        for n in 100..<300 { try f.sql("INSERT INTO board (id, name) VALUES (?, ?)", ["b\(n)", text]) }
        let all = try await f.store.queued().map(\.change)
        let size = try f.int("PRAGMA page_size") ?? 0
        try await f.store.database.barrierWriteWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try await f.store.close()
        let bytes = try Data(contentsOf: URL(fileURLWithPath: f.file.path))
        var lost: Set<String> = []
        for n in [150, 250] {
            let key = try #require(all.first { $0.record.id == "b\(n)" }).id
            let place = try #require(bytes.firstRange(of: Data(key.utf8))).lowerBound
            let page = place / size * size
            #expect(bytes[page] == 13)
            lost.formUnion(all.map(\.id).filter { bytes[page..<page + size].firstRange(of: Data($0.utf8)) != nil })
            try overwrite(f.file, at: UInt64(page), [UInt8](repeating: 0xff, count: size))
        }
        #expect(lost.count > 2 && lost.count < 40)
        let g = try Fixture(file: f.file, seed: 8)
        #expect(try await g.store.queued().map(\.change.id) == all.map(\.id).filter { !lost.contains($0) })
        try await g.store.close()
    }
}
