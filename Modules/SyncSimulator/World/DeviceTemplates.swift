import Foundation
import GRDB
import Storage
import SyncCore
import SyncTesting

/// Files of devices on which the app was never opened by anybody: made once for each version of the app, and copied.
///
/// To make tables and triggers takes longer than many a seed's work on them, and is the same each time. Such a file has no
/// device id, no place and no owner: it gets them when it is opened, as one does that is new.
final class DeviceTemplates: @unchecked Sendable {
    // Sendable: `files` is used under `lock` alone.
    private let lock = NSLock()
    private var files: [(schema: Schema, contents: Data)] = []

    /// The file for a version of the app, which is made at the first call.
    /// - Throws: where no file can be made in the system's folder for such.
    func file(_ schema: Schema) throws -> Data {
        try lock.withLock {
            if let known = files.first(where: { $0.schema == schema }) { return known.contents }
            let contents = try Self.make(schema)
            files.append((schema, contents))
            return contents
        }
    }

    private static func make(_ schema: Schema) throws -> Data {
        let folder = NSTemporaryDirectory() + "/template-\(UUID().uuidString)"  // live: a name only
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer {
            do { try FileManager.default.removeItem(atPath: folder) } catch {
                // kept: somebody else removed it: nothing is left behind either way.
            }
        }
        let path = folder + "/template.sqlite"
        var configuration = StoreConfiguration()
        configuration.installToken = nil
        // It is opened and closed, and nothing runs on it.
        configuration.executor = SeededExecutor(seed: 0)
        try Store(path: path, schema: schema, configuration: configuration).database.close()
        let database = try DatabaseQueue(path: path)
        try database.write { db in
            try db.execute(
                sql: "DELETE FROM sync_meta WHERE key IN ('device', 'home', 'install', 'generation', 'account')")
            try db.execute(sql: "UPDATE sync_clock SET wall = NULL, seed = NULL")
        }
        try database.writeWithoutTransaction { db in
            // Small pages: most commits of a seed change a few rows, and each page that they touch is copied and summed.
            try db.execute(
                sql: "PRAGMA journal_mode = DELETE; PRAGMA page_size = 1024; VACUUM; PRAGMA journal_mode = WAL")
            _ = try db.checkpoint(.truncate)
        }
        try database.close()
        return try Data(contentsOf: URL(fileURLWithPath: path))
    }
}
