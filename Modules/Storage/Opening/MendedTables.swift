import Foundation
import GRDB

/// A copy of a broken file whose table of tables has sound texts of the engine's tables (PRC-14).
///
/// A table whose text is damaged is none to SQLite, or one of another name or with other columns; its rows are as they were. What the texts
/// say is the same in every file of this module. The broken file itself stays as it is.
struct MendedTables {
    /// Where the copy is.
    let path: String

    /// - Returns: `nil` where no copy can be made, on a full disk for one, or that table cannot be written.
    init?(of broken: String) {
        path = broken + "-tables"
        do {
            for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: broken + suffix) {
                try FileManager.default.copyItem(atPath: broken + suffix, toPath: path + suffix)
            }
            var settings = Configuration()
            settings.prepareDatabase { try $0.execute(sql: "PRAGMA writable_schema = ON") }
            let copy = try DatabaseQueue(path: path, configuration: settings)
            try copy.writeWithoutTransaction { db in
                for (name, text) in EngineTables.texts {  // any order
                    try db.execute(
                        sql: "UPDATE sqlite_schema SET type = 'table', sql = ?2 WHERE name = ?1 AND sql <> ?2",
                        arguments: [name, text])
                }
            }
            try copy.close()
        } catch {
            // Without a copy, what can be read of the file as it is must do.
            remove()
            return nil
        }
    }

    /// Takes the copy away, and what SQLite made beside it.
    func remove() {
        for suffix in ["", "-wal", "-shm"] where FileManager.default.fileExists(atPath: path + suffix) {
            do {
                try FileManager.default.removeItem(atPath: path + suffix)
            } catch {
                // kept: it takes room beside the file that was moved aside, and nothing else.
                continue
            }
        }
    }
}
