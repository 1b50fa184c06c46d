import GRDB

/// A copy of a broken file whose table of tables has sound texts of the engine's tables (PRC-14).
///
/// A table whose text is damaged is none to SQLite, or one of another name or with other columns; its rows are as they were. What the texts
/// say is the same in every file of this module.
struct MendedTables {
    let copy: BrokenCopy

    /// - Returns: `nil` where no copy can be made, or that table cannot be written.
    init?(of broken: String) {
        do {
            copy = try BrokenCopy(of: broken, suffix: "-tables", mend: Self.mend)
        } catch {
            // kept: without a copy, what can be read of the file as it is must do.
            return nil
        }
    }

    private static func mend(_ path: String) throws {
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
    }
}
