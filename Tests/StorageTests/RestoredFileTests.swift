import Foundation
import GRDB
import GRDBSQLite
@testable import Storage
import SyncCore
import Testing

/// What a backup brings back to the very place it was taken from: the same path, and maybe the same inode.
@Suite("A file restored in its place")
struct RestoredFileTests {
    private func add(_ store: Store, _ id: String) async throws {
        try await store.database.write {
            try $0.execute(sql: "INSERT INTO board (id, name) VALUES (?, 'B')", arguments: [id])
        }
    }

    /// Everything that stands beside the file, and itself.
    private func picture(_ file: TestFile) throws -> [URL: Data] {
        let files = try FileManager.default.contentsOfDirectory(at: file.folder, includingPropertiesForKeys: nil)
        return try Dictionary(uniqueKeysWithValues: files.map { ($0, try Data(contentsOf: $0)) })
    }

    /// Writes over each file, which stays the same file to the system.
    private func putBack(_ picture: [URL: Data]) throws {
        for (url, data) in picture {
            let handle = try FileHandle(forWritingTo: url)
            try handle.truncate(atOffset: 0)
            try handle.write(contentsOf: data)
            try handle.close()
        }
    }

    #if !canImport(Darwin)
        @Test("PRC-19 the whole folder is put back over itself: a new device, and what was unsent keeps the earlier id")
        func wholeFolder() async throws {
            let file = try TestFile()
            let first = try Store(path: file.path, schema: boardSchema())
            let device = try await first.position().deviceID
            try await add(first, "b1")
            try await first.close()
            let backup = try picture(file)
            #expect(backup.keys.contains { $0.path.hasSuffix("-install") })

            let lived = try Store(path: file.path, schema: boardSchema())
            #expect(try await lived.position().deviceID == device)
            try await add(lived, "b2")
            try await lived.close()

            let place = Identity.home(of: file.path)
            try putBack(backup)
            #expect(Identity.home(of: file.path) == place)
            let restored = try Store(path: file.path, schema: boardSchema())
            let other = try await restored.position().deviceID
            #expect(other != device)
            #expect(try await restored.queued().map(\.change.deviceID) == [device])
            #expect(try await restored.events().map(\.kind) == ["newDevice"])
            try await restored.close()
            let again = try Store(path: file.path, schema: boardSchema())
            #expect(try await again.position().deviceID == other)
            try await again.close()
        }
    #endif

    @Test(
        "PRC-15 a file without its log, which sent a change that only the log had: a new device",
        arguments: [true, false])
    func withoutLog(isSent: Bool) async throws {
        let file = try TestFile()
        let store = try Store(path: file.path, schema: boardSchema())
        let device = try await store.position().deviceID
        try await add(store, "b1")
        // From here on all is in the log; the number of openings is in the file.
        try await store.database.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        let main = try Data(contentsOf: URL(fileURLWithPath: file.path))
        try await add(store, "b2")
        if isSent { #expect(try await store.settle(Settlement(), claim: ClaimLimits()).changes.count == 2) }
        let left = try picture(file)
        try await store.close()
        // As a killed process leaves it, but for the log.
        try putBackAll(left)
        try FileManager.default.removeItem(atPath: file.path + "-wal")
        try putBack([URL(fileURLWithPath: file.path): main])

        #expect(try Store(forReading: file.path, schema: boardSchema()) == nil)
        let again = try Store(path: file.path, schema: boardSchema())
        let other = try await again.position().deviceID
        #expect(other != device)
        #expect(again.missingCommits?.contains("missing") == true || isSent && again.missingCommits != nil)
        #expect(try await again.events().map(\.kind) == ["newDevice"])
        #expect(try await again.queued().map(\.change.deviceID) == [device])
        try await add(again, "b3")
        #expect(try await again.queued().map(\.change.deviceID) == [device, nil])
        try await again.close()
        let last = try Store(path: file.path, schema: boardSchema())
        #expect(try await last.position().deviceID == other)
        #expect(last.missingCommits == nil)
        try await last.close()
    }

    @Test("PRC-15 an opening that fails over a file without its log says nothing of it, and the next one does")
    func withoutLogTwice() async throws {
        let file = try TestFile()
        let store = try Store(path: file.path, schema: boardSchema(), account: "ada")
        try await store.database.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        let main = try Data(contentsOf: URL(fileURLWithPath: file.path))
        try await add(store, "b1")
        let left = try picture(file)
        try await store.close()
        try putBackAll(left)
        try FileManager.default.removeItem(atPath: file.path + "-wal")
        try putBack([URL(fileURLWithPath: file.path): main])

        #expect(throws: StoreFailure.self) { try Store(path: file.path, schema: boardSchema(), account: "bob") }
        let next = try Store(path: file.path, schema: boardSchema(), account: "ada")
        #expect(next.missingCommits != nil)
        try await next.close()
        let last = try Store(path: file.path, schema: boardSchema(), account: "ada")
        #expect(last.missingCommits == nil)
        try await last.close()
    }

    @Test(
        "PRC-15 a folder that was copied without the log is told as such; a whole copy says nothing",
        arguments: [true, false])
    func copiedWithoutLog(isWhole: Bool) async throws {
        let file = try TestFile()
        let store = try Store(path: file.path, schema: boardSchema())
        let device = try await store.position().deviceID
        try await add(store, "b1")
        try await store.database.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try await add(store, "b2")
        let copy = try TestFile()
        for ending in ["", "-log", "-device"] + (isWhole ? ["-wal"] : []) {
            try FileManager.default.copyItem(atPath: file.path + ending, toPath: copy.path + ending)
        }
        try await store.close()

        let other = try Store(path: copy.path, schema: boardSchema())
        #expect(try await other.position().deviceID != device)
        #expect(try await other.queued().count == (isWhole ? 2 : 1))
        #expect((other.missingCommits == nil) == isWhole)
        let told = try #require(try await other.events().first { $0.kind == "newDevice" }?.detail)
        #expect(told.hasPrefix("The file is a copy."))
        #expect(told.contains("missing") == !isWhole)
        try await other.close()
        let again = try Store(path: copy.path, schema: boardSchema())
        #expect(again.missingCommits == nil)
        try await again.close()
    }

    @Test(
        "PRC-15 an older log beside a file that was closed: told, sound, and nothing is given twice",
        arguments: [true, false])
    func olderLog(isSent: Bool) async throws {
        let file = try TestFile()
        let store = try Store(path: file.path, schema: boardSchema())
        let device = try await store.position().deviceID
        try await add(store, "b1")
        let log = URL(fileURLWithPath: file.path + "-wal")
        let older = try Data(contentsOf: log)
        try await add(store, "b2")
        try await store.database.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try await add(store, "b3")
        let before = try await store.queued().map(\.change)
        if isSent { #expect(try await store.settle(Settlement(), claim: ClaimLimits()).changes.count == 3) }
        try await store.close()
        try older.write(to: log)

        let again = try Store(path: file.path, schema: boardSchema())
        let other = try await again.position().deviceID
        #expect(other != device)
        #expect(try await again.events().map(\.kind).contains("newDevice"))
        #expect(try await again.integrityProblems().isEmpty)
        let left = try await again.queued().map(\.change)
        #expect(left.allSatisfy { $0.deviceID == device && before.map(\.id).contains($0.id) })
        try await add(again, "b4")
        let new = try #require(try await again.queued().last?.change)
        #expect(new.deviceID == nil && !before.map(\.id).contains(new.id))
        try await again.close()
        let last = try Store(path: file.path, schema: boardSchema())
        #expect(try await last.position().deviceID == other)
        try await last.close()
    }

    @Test("PRC-15 in a file that was not closed, an older log in place of its own is told as well")
    func olderLogOfKilled() async throws {
        let file = try TestFile()
        let store = try Store(path: file.path, schema: boardSchema())
        try await add(store, "b1")
        let log = URL(fileURLWithPath: file.path + "-wal")
        let older = try Data(contentsOf: log)
        try await store.database.writeWithoutTransaction { _ = try $0.checkpoint(.restart) }
        try await add(store, "b2")
        let left = try picture(file)
        try await store.close()
        try putBackAll(left)
        let killed = try Store(path: file.path, schema: boardSchema())
        #expect(try await killed.events().isEmpty)
        #expect(try await killed.queued().count == 2)
        try await killed.close()
        try putBackAll(left)
        try older.write(to: log)
        let again = try Store(path: file.path, schema: boardSchema())
        #expect(try await again.events().map(\.kind) == ["newDevice"])
        #expect(try await again.integrityProblems().isEmpty)
        try await again.close()
    }

    /// As a killed process leaves them; the log is there again, and the token has not moved.
    private func putBackAll(_ picture: [URL: Data]) throws {
        for (url, data) in picture where !url.path.hasSuffix("-shm") && !url.path.hasSuffix("-install") {
            try data.write(to: url)
        }
    }

    @Test(
        "PRC-15 a store that nobody closed, an emptied log, another connection that closes last: nothing is told",
        arguments: 0..<5)
    func noFalseAlarm(_ way: Int) async throws {
        let file = try TestFile()
        do {
            let store = try Store(path: file.path, schema: boardSchema())
            try await add(store, "b1")
            switch way {
            case 0: break  // let go of
            case 1:
                // Emptied, and let go of.
                try await store.database.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
            case 2:
                // Another has it open still, and writes.
                let other = try DatabaseQueue(path: file.path)
                try await store.close()
                try await other.write { try $0.execute(sql: "UPDATE board SET name = 'C'") }
                try other.close()
            case 3:
                // Two of them, the first of which goes.
                let other = try Store(path: file.path, schema: boardSchema())
                try await store.close()
                for n in 0..<50 { try await add(other, "c\(n)") }
                try await other.close()
            default:
                // Logs that begin anew again and again.
                for n in 0..<20 {
                    try await add(store, "c\(n)")
                    let mode = n % 2 == 0 ? Database.CheckpointMode.restart : .truncate
                    try await store.database.writeWithoutTransaction { _ = try $0.checkpoint(mode) }
                }
                try await add(store, "d")
                let left = try picture(file)
                try await store.close()
                try putBackAll(left)
            }
        }
        for _ in 0..<2 {
            let again = try Store(path: file.path, schema: boardSchema())
            #expect(try await again.events().isEmpty)
            try await again.close()
        }
    }

    /// Looks at what a process would leave that ended as SQLite lets go of a connection's functions: its files are closed by then.
    private final class LastLook: @unchecked Sendable {  // one thread at a time
        let path: String
        var mark: String?
        var hasLog = false

        init(_ path: String) { self.path = path }

        func look() {
            mark = try? String(contentsOfFile: path + "-log", encoding: .utf8)
            hasLog = FileManager.default.fileExists(atPath: path + "-wal")
        }
    }

    @Test(
        "PRC-15 a process that ends between the end of the log and the note of that makes no alarm",
        arguments: [true, false])
    func endsWhileClosing(isLetGo: Bool) async throws {
        let file = try TestFile()
        let last = LastLook(file.path)
        do {
            let store = try Store(path: file.path, schema: boardSchema())
            try await add(store, "b1")
            try await store.database.writeWithoutTransaction { db in
                // The later function goes first: before that by which the store notes the end.
                let code = sqlite3_create_function_v2(
                    db.sqliteConnection, "last_look", 0, SQLITE_UTF8, Unmanaged.passRetained(last).toOpaque(),
                    { context, _, _ in sqlite3_result_null(context) }, nil, nil,
                    { last in if let last { Unmanaged<LastLook>.fromOpaque(last).takeRetainedValue().look() } })
                #expect(code == SQLITE_OK)
            }
            if !isLetGo { try await store.close() }
        }
        #expect(!last.hasLog)
        try #require(last.mark).write(toFile: file.path + "-log", atomically: false, encoding: .utf8)
        let again = try Store(path: file.path, schema: boardSchema())
        #expect(try await again.events().isEmpty, "the mark was \(last.mark ?? "none")")
        try await again.close()
    }

    @Test("PRC-15 where another store has the log still, the one that closes notes it again")
    func closesBesideAnother() async throws {
        let file = try TestFile()
        let configuration = StoreConfiguration(busyTimeout: 0.05)
        let store = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        let other = try Store(path: file.path, schema: boardSchema())
        try await add(store, "b1")
        let noted = try String(contentsOfFile: file.path + "-log", encoding: .utf8).prefix(8)
        try await add(other, "b2")
        // Somebody reads, so that the log is not brought in.
        var settings = Configuration()
        settings.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: file.path, configuration: settings)
        try await reader.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN; SELECT count(*) FROM board")
        }
        try await store.close()
        #expect(try String(contentsOfFile: file.path + "-log", encoding: .utf8).prefix(8) == noted)
        try reader.close()
        try await other.close()
        #expect(try String(contentsOfFile: file.path + "-log", encoding: .utf8).prefix(8).hasPrefix("none"))
    }

    @Test(
        "PRC-19 a note of an earlier program, or none that can be read, changes nothing",
        arguments: ["3\n", "", "x", "3\nd\n"])
    func otherNotes(_ text: String) async throws {
        let file = try TestFile()
        let first = try Store(path: file.path, schema: boardSchema())
        let device = try await first.position().deviceID
        for _ in 0..<3 {
            let again = try Store(path: file.path, schema: boardSchema())
            try await again.close()
        }
        try await first.close()
        try Data(text.utf8).write(to: URL(fileURLWithPath: file.path + "-device"))
        let store = try Store(path: file.path, schema: boardSchema())
        #expect(try await store.position().deviceID == device)
        try await store.close()
        #expect(DeviceNote(database: file.path).read().openings == 5)
    }
}
