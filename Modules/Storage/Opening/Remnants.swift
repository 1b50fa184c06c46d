import GRDB

/// What a wiped account leaves in a file besides its rows: freed pages, gaps in pages that are still in use, the log (SEC-11).
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
    static func clear(_ db: Database) throws {
        try db.execute(sql: "VACUUM")
        _ = try db.checkpoint(.truncate)
        try Meta.set(db, .wiping, nil as Int64?)
    }

    /// Finishes what a process did not that was killed over a wipe.
    static func finish(_ read: Reading) throws {
        guard try read({ try Meta.integer($0, .wiping) }) != nil else { return }
        try read.database.writeWithoutTransaction { try clear($0) }
    }
}
