import Foundation
import GRDB
import SyncTesting
import Testing

@testable import SyncSimulator

/// What plain SQLite reads of a damaged file's queue (PRC-14).
@Suite struct LegibleQueueTests {
    @Test("PRC-14 of a damaged file those changes are legible that stand on whole pages as they stood")
    func pages() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("legible-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { do { try FileManager.default.removeItem(at: folder) } catch { Issue.record(error) } }
        let place = DeviceFolder(path: folder.path)
        let database = try DatabaseQueue(path: place.databasePath)
        let queue = try database.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA page_size = 512;
                    CREATE TABLE sync_change (position INTEGER PRIMARY KEY, key TEXT, fields TEXT)
                    """)
            for n in 1...20 {
                try db.execute(
                    sql: "INSERT INTO sync_change VALUES (?, ?, ?)",
                    arguments: [n, "key-\(n + 100)", String(repeating: "x", count: 150)])
            }
            return try LegibleQueue(db)
        }
        #expect(queue.keys.count == 20)
        // One is not as it was.
        try database.write { try $0.execute(sql: "UPDATE sync_change SET fields = 'y' WHERE position = 20") }
        try database.close()
        #expect(try queue.keys(in: place) == Set((101...119).map { "key-\($0)" }))

        var file = DamagedFile(
            path: place.databasePath, damage: .pages, keys: ["key-105"], chance: SeededGenerator(seed: 5))
        #expect(try !file.write())
        let legible = try queue.keys(in: place)
        #expect(!legible.isEmpty && legible.count < 19)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == [DeviceFolder.database])

        var gone = DamagedFile(path: place.databasePath, damage: .rubbish, keys: [], chance: SeededGenerator(seed: 6))
        #expect(try !gone.write())
        #expect(try queue.keys(in: place).isEmpty)
    }
}
