import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

#if canImport(Glibc)
    import Glibc
#endif

/// A file on which other connections are at work: what they do to its log and its locks makes no alarm, and no loss.
@Suite("A log beside others")
struct LogBesideOthersTests {
    private func add(_ store: Store, _ ids: [String], name: String = "B") async throws {
        try await store.database.write { db in
            for id in ids {
                try db.execute(sql: "INSERT INTO board (id, name) VALUES (?, ?)", arguments: [id, name])
            }
        }
    }

    @Test("PRC-15 another one empties the log, and a commit of many pages begins it anew: that is noted")
    func emptiedByAnother() async throws {
        let file = try TestFile()
        let store = try Store(path: file.path, schema: boardSchema())
        let device = try await store.position().deviceID
        let other = try DatabaseQueue(path: file.path)
        try await other.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try await add(store, ["b1"])
        let before = FileEnd.size(file.path + "-wal")
        try await other.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try other.close()
        try await add(store, (2..<40).map { "b\($0)" }, name: String(repeating: "x", count: 5_000))
        try #require(FileEnd.size(file.path + "-wal") > before)
        // Another process comes while this one is at work.
        let again = try Store(path: file.path, schema: boardSchema())
        #expect(try await again.events().isEmpty)
        #expect(try await again.position().deviceID == device)
        try await again.close()
        try await store.close()
    }

    @Test(
        "PRC-15 a store whose statements are watched is the same device when it was closed and is opened again",
        arguments: ["by a test", "by the app"])
    func watched(by whom: String) async throws {
        let file = try TestFile()
        var configuration = StoreConfiguration()
        if whom == "by a test" { configuration.statementHook = { _ in true } }
        let store = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        let device = try await store.position().deviceID
        if whom == "by the app" { try await store.database.writeWithoutTransaction { db in db.trace { _ in } } }
        try await add(store, ["b1"])
        try await store.close()
        let again = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        #expect(try await again.events().isEmpty)
        #expect(try await again.position().deviceID == device)
        try await again.close()
    }

    #if os(Linux)
        @Test("PRC-14 the queue of a file whose header was damaged is saved, and the new file keeps its locks")
        func savedQueueKeepsLocks() async throws {
            let f = try Fixture()
            try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
            try await f.store.close()
            try f.file.breakHeader()
            let g = try Fixture(file: f.file, seed: 8)
            #expect(try await g.store.queued().count == 1)
            // Closing it would take the locks away; a lock of the descriptor's own meets those of this process.
            let descriptor = open(g.file.path, O_RDWR)
            try #require(descriptor >= 0)
            var lock = flock()
            (lock.l_type, lock.l_whence) = (Int16(F_WRLCK), Int16(SEEK_SET))
            // SQLite's shared lock; without it whoever closes the file next takes the log for nobody's, and away.
            (lock.l_start, lock.l_len) = (0x4000_0002, 510)
            let asked = fcntl(descriptor, 36, &lock)  // F_OFD_GETLK
            #expect(asked == 0)
            #expect(lock.l_type == Int16(F_RDLCK))
            try await g.store.close()
            close(descriptor)
        }
    #endif
}
