import GRDB
import SyncCore

extension Settling {
    /// An edit of a record whose create was refused ends that refusal (FAILURES.md, QUE-02: "until the app retries,
    /// edits or discards"): an update makes a successor with what the row now says; a delete gives the create up.
    ///
    /// The edit comes after the refusal, since what waited before is blocked by it.
    /// - Returns: whether the queue changed before the edit's place; else the edit waits.
    mutating func mend(_ db: Database, _ edit: StoredChange, _ blocker: Needs.Aside) throws -> Bool {
        guard blocker.record == edit.record, blocker.isFailed, edit.unit == nil,
            try Failures.find(db, key: blocker.key)?.doubt == Failures.Doubt.none,
            let create = try ChangeRows.read(db, position: blocker.position, table.schema), create.unit == nil
        else { return false }
        if edit.operation == .delete {
            // Only what cannot be without the record: others of its unit are the user's as before.
            // And where the server has the record all the same, the delete is for the server to hear.
            var parting = try Parting(db, of: create, table.schema, withUnits: false)
            if try isOnServer(create, db) {
                (parting.going, parting.staying) = ([create], [])
            } else {
                // Where the id was taken, what may be there is somebody else's (Decision 199).
                parting.keepDeletes(but: try isTaken(create, db) ? create.record : nil)
            }
            parting.leave(behind: edit)
            let going = parting.going + parting.emptied(table.schema, isDecided: true)
            for change in going { try ChangeNotes.event(db, "cancelled", of: change, now: now) }
            try giveUp(db, parting, isDecided: true)
            try finish(db)
            return true
        }
        guard edit.operation == .update else { return false }
        let edits = try Base.remaining(db, of: edit.record, table.schema)
            .filter { $0.position > create.position && $0.position <= edit.position }
        // What was set aside without a verdict keeps its key.
        guard try edits.allSatisfy({ try $0.operation == .update && $0.unit == nil && !isFixed($0, db) })
        else { return false }
        var next = try successor(db, of: create)
        for later in edits {
            for (name, delta) in later.fields {  // any order
                let present = next.fields[name]
                next.fields[name] = FieldDelta(
                    old: nil, new: table.deltas.rebase(delta, onto: present?.new ?? .null),
                    rule: present?.rule ?? delta.rule, stamp: delta.stamp ?? later.stamp)
            }
        }
        var work = try takeWork(db, edit.record)
        for later in edits {
            // One that was refused, and is shown on, goes again within the create.
            if later.state == .failed { try ChangeNotes.event(db, "mended", of: next, detail: later.key, now: now) }
            try drop(db, later)
            work?.remove(later.key)
        }
        work?.replace(create.key, with: next)
        if let work { works[edit.record] = work }
        try ChangeRows.replace(db, next)
        try Failures.delete(db, key: create.key)
        try ChangeRows.release(db, blockedBy: create.key)
        try ChangeNotes.event(db, "mended", of: next, detail: create.key, now: now)
        try finish(db)
        return true
    }

    /// A record that is made anew ends the refusal of the create before it, whose row has gone: what waits for that waits for this one, and
    /// a delete is of what was made last (seed 1044).
    /// - Returns: whether there was one.
    mutating func endRefusal(_ db: Database, before create: StoredChange) throws -> Bool {
        guard create.operation == .create, create.unit == nil,
            let aside = try Needs(schema: table.schema).asideCreate(db, of: create.record), aside.isFailed,
            aside.position < create.position, try Failures.find(db, key: aside.key)?.doubt == Failures.Doubt.none,
            let old = try ChangeRows.read(db, position: aside.position, table.schema), old.unit == nil
        else { return false }
        try ChangeNotes.event(db, "cancelled", of: old, now: now)
        try takeBack(db, [old], isDecided: true)
        try finish(db)
        return true
    }

    /// Whether the change says for ever what it says.
    private func isFixed(_ change: StoredChange, _ db: Database) throws -> Bool {
        guard change.state == .failed else { return change.wasSent }
        return try Failures.find(db, key: change.key)?.doubt.isUncertain == true
    }

    /// Whether a record may be there whose create was refused: a retry had made it that a power loss or an older copy of the file
    /// knows nothing of, and a page brought it; or it was made in the history before, where versions were others (0 by now).
    /// Where the id was taken, what is there is somebody else's.
    private func isOnServer(_ create: StoredChange, _ db: Database) throws -> Bool {
        guard let stored = try StoredRecord.read(db, create.record), stored.base?.isLive ?? (stored.version > 0)
        else { return false }
        return try !isTaken(create, db)
    }

    /// Whether a create was refused since there is a record of that id.
    private func isTaken(_ create: StoredChange, _ db: Database) throws -> Bool {
        try Failures.reason(db, key: create.key)?.code == Rejection.Code.idTaken.rawValue
    }

    /// What is written over a refused change that is shown on goes to the server as if that had never been, as what waited behind it
    /// when it was refused does (``RecordWork/keepAside(_:)``).
    /// - Returns: whether a change of the record says something else now.
    mutating func goPastKept(_ db: Database, _ change: StoredChange) throws -> Bool {
        guard table.schema[change.record.entity]?.refusal == .keep else { return false }
        let sql = """
            SELECT c.key FROM sync_change c JOIN sync_failure f ON f.key = c.key
            WHERE c.entity = ? AND c.id = ? AND c.position < ? AND c.state = 4 AND f.uncertain = -1 ORDER BY c.position
            """
        let kept = try String.fetchAll(
            db.cachedStatement(sql: sql), arguments: [change.record.entity, change.record.id, change.position])
        guard !kept.isEmpty, var work = try takeWork(db, change.record) else { return false }
        for key in kept { work.keepAside(key) }
        works[change.record] = work
        guard work.isRewritten || !work.emptied.isEmpty else { return false }
        try finish(db)
        return true
    }

    /// A change that nobody can read is set aside; no row is reverted by it, since nothing is known of its values.
    mutating func setAsideUnreadable(_ db: Database, _ change: StoredChange, _ reason: SetAsideReason) throws {
        try ChangeRows.setState(db, position: change.position, .failed)
        try Failures.insert(db, change, reason, doubt: .none, now: now)
        try ChangeNotes.event(db, "setAside", of: change, detail: try ReasonCodec.json(reason), now: now)
        if change.operation == .create { firstAside = min(firstAside ?? change.position, change.position) }
    }

    /// Takes changes out as if they had never been made; their rows go back to base plus what remains.
    /// - Parameter isDecided: whether the server surely did nothing of them.
    mutating func takeBack(_ db: Database, _ changes: [StoredChange], isDecided: Bool) throws {
        let creates = Dictionary(
            changes.lazy.filter { $0.operation == .create }.map { ($0.record, $0.position) }, uniquingKeysWith: min)
        for change in changes.reversed() {
            let isUndone = change.state == .pending || change.state == .blocked || (isDecided && change.wasSent)
            if change.operation == .update, isUndone { try endInverse(db, of: change) }
            if var work = try takeWork(db, change.record) {
                if !isDecided { work.forgetTold(for: change.key) }
                // Its create goes, too: what was made anew behind it makes the record still.
                if change.operation == .delete, let create = creates[change.record], create < change.position {
                    work.remove(change.key)
                } else {
                    work.takeOut(change.key)
                }
                if change.operation == .create {
                    for key in work.hideKept() { try Failures.hide(db, key: key) }
                }
                works[change.record] = work
            }
            try drop(db, change)
        }
        for change in changes { try ChangeRows.release(db, blockedBy: change.key) }
    }
}
