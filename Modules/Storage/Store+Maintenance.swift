import GRDB
public import SyncCore

extension Store {
    /// Looks the whole file through; takes long for a large one.
    /// - Returns: what is wrong, in SQLite's words; empty for a sound file.
    public func integrityProblems() throws(StoreFailure) -> [String] {
        try look("checking the database") { db in
            var found = try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
            found += try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map { row in
                "a row of \(row[0] as String) refers to a missing row of \(row[2] as String)"
            }
            let counted = try ChangeRows.queued(db)
            let queued = try Int.fetchOne(db, sql: "SELECT count(*) FROM sync_change") ?? 0
            if counted != queued { found.append("the queue has \(queued) changes and counts \(counted)") }
            return found
        }
    }

    /// Forgets the oldest entries of the journals beyond these numbers; the queue and what was set aside always stay, and so does
    /// which change of the queue is an inverse (decision 335).
    public func prune(conflicts: Int = 10_000, events: Int = 10_000, cycles: Int = 1_000) throws(StoreFailure) {
        try perform("pruning the journals") { db in
            let inverses = "AND NOT (kind = 'inverted' AND detail IN (SELECT key FROM sync_change))"
            for (table, most, staying) in [
                ("sync_conflict", conflicts, ""), ("sync_event", events, inverses), ("sync_cycle", cycles, ""),
            ] {
                try db.execute(
                    sql: "DELETE FROM \(table) WHERE number <= (SELECT max(number) FROM \(table)) - ? \(staying)",
                    arguments: [most])
            }
        }
    }

    /// What signing out would lose.
    public func unsent() throws(StoreFailure) -> QueueSummary { try summary() }

    /// Takes the account's data out of the file, the queue and what was set aside with it: the app asked the user.
    ///
    /// One transaction: killed at any moment, all is there or nothing is. Then the whole file is written anew, so that no byte is
    /// left of what was freed earlier either, and damaged files that were moved aside from its place are removed; killed before that, the
    /// next opening does it before anything is read. The file then belongs to nobody, and is another device to the server. End the engine first. What other processes have open of it is
    /// refused from then on, as is this store where it was opened for an account: what they wrote would be the next user's.
    /// - Throws: `refused` where somebody else has signed in since; also where the rows went and the file could not be written anew (a full disk, a reader of another
    ///   process): called again, or at the next opening, it is.
    public func wipe() throws(StoreFailure) {
        let schema = schema
        let now = now
        let (account, known) = (account, signOut)
        let signOut = try perform("signing out", asLeft: nil, outlivesSignOut: true) { db, _ in
            if try Meta.text(db, .signOut) != known, let owner = try Meta.text(db, .account), owner != account {
                throw StoreFailure(kind: .refused, message: "The database is another account's by now.")
            }
            try RowWriter.applying(db) {
                for entity in schema.entities.reversed() {
                    try db.execute(sql: "DELETE FROM \(RowWriter.quoted(entity.table))")
                }
            }
            try EngineTables.empty(db)
            try context.emptySnapshots(db)
            try Meta.set(db, .device, Clock.freshKey(db))
            try Journal.event(db, .wiped, at: now)
            try Remnants.mark(db)
            // Who was at work with it is not any more.
            try Lease.end(db)
            let signOut = try Clock.freshKey(db)
            try Meta.set(db, .signOut, signOut)
            return signOut
        }
        if account == nil { self.signOut = signOut }
        do {
            let path = database.path
            try database.writeWithoutTransaction { try Remnants.clear($0, path: path) }
        } catch {
            throw failure(error, "writing the wiped file anew")
        }
        tellOfMany()
        stateSpeakers.speak()
    }

    /// Sends again what history lost on the server (`lostByServer` in the journal): rows that are gone are made again,
    /// fields get the values that they had, and what was deleted is deleted. Each becomes a change of its own, as if the user had written it now.
    ///
    /// Nothing that was written since is written over: a field that shows another value than the server's of then stays, and so do its
    /// entry and that of a record which refers to what is not here, or which the app's tables do not take. Called again, they are looked at
    /// again; ``restoreLoser(_:)`` writes one all the same.
    /// - Returns: how many records were written.
    @discardableResult
    public func restoreLost() throws(StoreFailure) -> Int {
        let now = now
        let count = try perform("sending again what the server lost") { db in
            try FullPass.restore(db, context, now: now)
        }
        // A delete that is done again takes along what is under the record.
        if count > 0 { tellOfMany() }
        return count
    }
}
