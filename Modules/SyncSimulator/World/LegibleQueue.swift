import Foundation
import GRDB

/// What plain SQLite reads of the queue in a damaged file, place by place: each of these rows is to be saved (PRC-14).
struct LegibleQueue {
    /// The rows as they stood in the sound file, by place; the values in the order of the columns.
    private let rows: [Int64: [DatabaseValue]]
    /// Their keys, in the queue's order.
    let keys: [String]

    /// - Parameter db: the sound file.
    init(_ db: Database) throws {
        let rows = try Row.fetchAll(db, sql: "SELECT position, * FROM sync_change ORDER BY position")
        keys = rows.map { $0["key"] }
        self.rows = Dictionary(
            rows.map { ($0[0] as Int64, Array($0.databaseValues.dropFirst())) }, uniquingKeysWith: { $1 })
    }

    /// The keys of those that stand in the damaged file as they stood in the sound one.
    /// - Parameter folder: the device's; nothing stays in it of what is looked at.
    func keys(in folder: DeviceFolder) throws -> Set<String> {
        let path = folder.path + "/legible"
        let files = FileManager.default
        defer { clear(path) }
        for suffix in ["", "-wal"] where files.fileExists(atPath: folder.databasePath + suffix) {
            try files.copyItem(atPath: folder.databasePath + suffix, toPath: path + suffix)
        }
        var keys: Set<String> = []
        do {
            let copy = try DatabaseQueue(path: path)
            for (place, row) in rows {  // any order
                do {
                    let found = try copy.read {
                        try Row.fetchOne($0, sql: "SELECT * FROM sync_change WHERE position = ?", arguments: [place])
                    }
                    if let found, Array(found.databaseValues) == row { keys.insert(found["key"]) }
                } catch { continue }  // kept: it is on a damaged page
            }
            try copy.close()
        } catch { return keys }  // kept: no more of it is legible
        return keys
    }

    private func clear(_ path: String) {
        for suffix in ["", "-wal", "-shm"] where FileManager.default.fileExists(atPath: path + suffix) {
            do {
                try FileManager.default.removeItem(atPath: path + suffix)
            } catch {
                // kept: the next look fails.
                continue
            }
        }
    }
}
