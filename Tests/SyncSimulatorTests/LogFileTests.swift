import Foundation
import GRDB
import SyncTesting
import Testing

@testable import SyncSimulator

/// What the simulator leaves of a write-ahead log when the power goes is what SQLite could find on a disk.
@Suite struct LogFileTests {
    /// A folder with a database in which four rows were committed one by one, the log not yet taken over; its files as
    /// they are while it is open, and the log's length after each commit, in frames.
    private func made() throws -> (folder: DeviceFolder, files: [String: Data], log: LogFile, ends: [Int]) {
        let folder = DeviceFolder(path: NSTemporaryDirectory() + "log-\(UUID().uuidString)")
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        var configuration = Configuration()
        configuration.journalMode = .wal
        let database = try DatabaseQueue(path: folder.databasePath, configuration: configuration)
        try database.write { try $0.execute(sql: "CREATE TABLE row (n INTEGER PRIMARY KEY, text TEXT)") }
        try database.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        var ends: [Int] = []
        for number in 1...4 {
            try database.write { db in
                try db.execute(
                    sql: "INSERT INTO row VALUES (?, ?)", arguments: [number, String(repeating: "x", count: 9_000)])
            }
            ends.append(try #require(LogFile(database: folder.databasePath)).frames)
        }
        let log = try #require(LogFile(database: folder.databasePath))
        let files = try folder.photograph()
        try database.close()
        return (folder, files, log, ends)
    }

    @Test("PRC-22 of a log that is cut anywhere, torn or filled up, exactly the commits before the cut are there")
    func cut() throws {
        let (folder, files, log, ends) = try made()
        defer {
            do { try FileManager.default.removeItem(atPath: folder.path) } catch { Issue.record(error) }
        }
        #expect(log.backfilled == 0)
        #expect(ends == ends.sorted() && ends[0] > 1)
        let name = DeviceFolder.database + "-wal"
        for kept in 0...log.frames {
            for seed in 1...6 as ClosedRange<UInt64> {
                var chance = SeededGenerator(seed: seed, stream: UInt64(kept))
                var left = files
                left[name] = log.cut(try #require(files[name]), keeping: kept, &chance)
                try folder.putBack(left)
                let database = try DatabaseQueue(path: folder.databasePath)
                let rows = try database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM row") }
                #expect(rows == ends.filter { $0 <= kept }.count, "\(kept) frames, seed \(seed)")
                let problems = try database.read { try String.fetchAll($0, sql: "PRAGMA integrity_check") }
                #expect(problems == ["ok"])
                try database.close()
            }
        }
    }

    @Test("PRC-22 of a database whose power went in a checkpoint, pages torn, every commit is there")
    func halfTakenOver() throws {
        let (folder, files, log, ends) = try made()
        defer {
            do { try FileManager.default.removeItem(atPath: folder.path) } catch { Issue.record(error) }
        }
        let database = try #require(files[DeviceFolder.database])
        let wal = try #require(files[DeviceFolder.database + "-wal"])
        var differing: Set<Data> = []
        for seed in 1...20 as ClosedRange<UInt64> {
            var chance = SeededGenerator(seed: seed)
            var left = files
            let half = log.halfTakenOver(database, wal, &chance)
            left[DeviceFolder.database] = half
            differing.insert(half)
            try folder.putBack(left)
            let database = try DatabaseQueue(path: folder.databasePath)
            let rows = try database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM row") }
            #expect(rows == ends.count, "seed \(seed)")
            let problems = try database.read { try String.fetchAll($0, sql: "PRAGMA integrity_check") }
            #expect(problems == ["ok"], "seed \(seed)")
            try database.close()
        }
        #expect(differing.count > 15 && !differing.contains(database))
        // Without the log some of these are no databases: it is the log that makes them whole.
        var broken = 0
        for half in differing {
            try folder.putBack([DeviceFolder.database: half])
            if !isWhole(folder.databasePath) { broken += 1 }
        }
        #expect(broken > 5)
    }

    /// A database that does not even open is not whole either.
    private func isWhole(_ path: String) -> Bool {
        do {
            let database = try DatabaseQueue(path: path)
            let problems = try database.read { try String.fetchAll($0, sql: "PRAGMA integrity_check") }
            try database.close()
            return problems == ["ok"]
        } catch { return false }
    }

    @Test("What a checkpoint took over counts as synced")
    func backfilled() throws {
        let folder = DeviceFolder(path: NSTemporaryDirectory() + "log-\(UUID().uuidString)")
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        defer {
            do { try FileManager.default.removeItem(atPath: folder.path) } catch { Issue.record(error) }
        }
        var configuration = Configuration()
        configuration.journalMode = .wal
        let database = try DatabaseQueue(path: folder.databasePath, configuration: configuration)
        try database.write { try $0.execute(sql: "CREATE TABLE row (n INTEGER PRIMARY KEY)") }
        try database.writeWithoutTransaction { _ = try $0.checkpoint(.passive) }
        let log = try #require(LogFile(database: folder.databasePath))
        #expect(log.frames > 0 && log.backfilled == log.frames)
        try database.close()
    }
}
