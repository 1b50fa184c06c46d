import Foundation
import GRDB

/// What a wiped account leaves besides its rows: freed pages, gaps in pages that are still in use, the log, files that were moved aside
/// (SEC-11).
///
/// SQLite zeroes what it frees only where it was built or told to (`secure_delete`), and even then not what it leaves behind when
/// it moves rows from page to page. So the file is written anew
/// (`VACUUM`), and the log emptied into it. That cannot be part of the transaction that takes the rows out, so a mark in it
/// says that it is still to be done; a process that is killed in between leaves that to the next opening, before anybody
/// reads (PRC-20).
enum Remnants {
    /// Part of the transaction that takes the rows out.
    static func mark(_ db: Database) throws { try Meta.set(db, .wiping, 1) }

    /// Outside of a transaction.
    /// - Parameter path: of the file; of a database in memory whatever it is called by.
    static func clear(_ db: Database, path: String) throws {
        try db.execute(sql: "VACUUM")
        _ = try db.checkpoint(.truncate)
        if Identity.home(of: path) != nil { try removeMovedAside(from: path) }
        try Meta.set(db, .wiping, nil as Int64?)
    }

    /// Damaged files that stood here were the account's, too (Decision 492).
    private static func removeMovedAside(from path: String) throws {
        let files = FileManager.default
        let url = URL(fileURLWithPath: path)
        let (folder, prefix) = (url.deletingLastPathComponent(), url.lastPathComponent + Recovery.suffix)
        for name in try files.contentsOfDirectory(atPath: folder.path).sorted() where name.hasPrefix(prefix) {
            try files.removeItem(at: folder.appendingPathComponent(name))
        }
    }

    /// Finishes what a process did not that was killed over a wipe.
    static func finish(_ read: Reading) throws {
        guard try read({ try Meta.integer($0, .wiping) }) != nil else { return }
        let path = read.database.path
        try read.database.writeWithoutTransaction { try clear($0, path: path) }
    }
}
