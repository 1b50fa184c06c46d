import GRDB
import SyncCore

/// An edit of a record whose create was refused, and which the server has all the same (Decision 350).
extension Settling {
    /// Another create would be refused, too, and with it every later edit. So what the create said goes in its place as an update of
    /// what the server has, and the edits behind it go from that. Where the id was taken, what is there may be somebody else's:
    /// then only what was written since the record was made goes, and the rest is told.
    /// - Returns: whether the server is known to have the record; else nothing was done.
    mutating func mendOverServers(_ db: Database, _ create: StoredChange) throws -> Bool {
        guard var work = try takeWork(db, create.record) else { return false }
        guard work.base.isLive, work.version > 0 else {
            works[create.record] = work
            return false
        }
        let (said, left) = saidOver(work.base, by: create, isTaken: try isTaken(create, db))
        var next = try successor(db, of: create)
        next.operation = .update
        next.fields = said
        // What follows was made over the create's values, and goes from what is there with the update.
        var there = next
        for name in create.fields.keys {
            let present = work.base.fields[name] ?? .null
            there.fields[name] = FieldDelta(old: present, new: said[name]?.new ?? present)
        }
        work.replace(create.key, with: there)
        if !left.isEmpty {
            let detail = try DeltaCodec.json(left, operation: .create)
            try ChangeNotes.event(db, "discarded", of: create, detail: detail, now: now)
        }
        if said.isEmpty {
            if left.isEmpty { try ChangeNotes.event(db, "cancelled", of: create, now: now) }
            work.remove(next.key)
            try drop(db, create)
        } else {
            work.replace(next.key, with: next)
            try ChangeRows.replace(db, next)
            try Failures.delete(db, key: create.key)
            try ChangeNotes.event(db, "mended", of: next, detail: create.key, now: now)
        }
        works[create.record] = work
        try ChangeRows.release(db, blockedBy: create.key)
        try finish(db)
        return true
    }

    /// What a create says that the server's record does not, as an update of it, and what of that is not for it to say.
    private func saidOver(
        _ base: RecordState, by create: StoredChange, isTaken: Bool
    ) -> (said: [String: FieldDelta], left: [String: FieldDelta]) {
        var said: [String: FieldDelta] = [:]
        var left: [String: FieldDelta] = [:]
        for (name, delta) in create.fields where !delta.isLeftOut {
            let present = base.fields[name] ?? .null
            guard !present.isSame(as: delta.new) else { continue }
            let isPlain = delta.rule == .lastWriter || delta.rule == .check
            // A stamp of its own has what an edit brought into the create.
            if isTaken, delta.stamp == nil || !isPlain {
                left[name] = delta
            } else {
                // A create is plain writes; of a sum, what others added since stands above it by its stamp.
                said[name] = FieldDelta(
                    old: present, new: delta.new, rule: isPlain ? delta.rule : .lastWriter, stamp: delta.stamp)
            }
        }
        return (said, left)
    }
}
