import GRDB
import SyncCore

extension Settling {
    // MARK: Conflicts

    /// Nothing was done: the record in the answer becomes the base, and a successor takes the change's place.
    mutating func conflict(
        _ db: Database, _ change: StoredChange, _ record: ServerRecord, successor deltas: [String: FieldDelta]?
    ) throws {
        for (name, delta) in change.fields.inByteOrder where change.operation != .delete {
            guard let theirs = record.fields[name], !theirs.isSame(as: delta.old ?? .null),
                !theirs.isSame(as: delta.new)
            else { continue }
            let winner =
                if let next = deltas?[name] { next.new.isSame(as: delta.new) ? "mine" : "both" } else { "theirs" }
            try ChangeNotes.conflict(
                db,
                .init(field: name, mine: delta.new, theirs: theirs, winner: winner, rule: delta.rule, kind: "conflict"),
                of: change, now: now)
        }
        var work = try takeWork(db, change.record)
        if work?.base.isAway == true, try isToKeep(db, record) { work?.comeBack() }
        if try isLeftToPass(db, change) {
            work?.takeNamed(by: change, from: record)
            work?.awaitPage()
        } else if let present = work, !present.passesBy(change), work?.take(try whole(record, db, present)) == true {
            noteRaised(change.record)
        }
        if let deltas {
            var next = try successor(db, of: change)
            next.fields = change.operation == .delete ? change.fields : deltas
            next.conflicts = change.conflicts + 1
            // What it is worked out from now, where nothing of the record is held: what a damaged file saved goes so, before its page comes.
            if record.presence == .live, work?.version ?? 0 < record.version { next.baseVersion = record.version }
            // What the answer shows is there can only be updated.
            if change.operation == .create, record.presence == .live { next.operation = .update }
            try ChangeRows.replace(db, next)
            try ChangeRows.hand(db, blockedBy: change.key, to: next.key)
            work?.replace(change.key, with: next)
        } else {
            // The record already says what it wanted, and what comes behind goes from that.
            try drop(db, change)
            try ChangeRows.release(db, blockedBy: change.key)
            if change.operation == .delete {
                work?.takeOut(change.key)
            } else {
                var done = change
                for name in change.fields.keys { if let value = record.fields[name] { done.fields[name]?.new = value } }
                work?.replace(change.key, with: done)
                work?.remove(change.key)
            }
        }
        if let work { works[change.record] = work }
    }

    /// A new change in the place of one that is over: with a new key and sequence, the same stamps and deltas.
    func successor(_ db: Database, of change: StoredChange) throws -> StoredChange {
        var next = change
        next.sequence = try ChangeRows.nextSequence(db)
        next.key = try Clock.key(db)
        next.state = .pending
        next.baseVersion = nil
        next.device = nil
        next.attempts = 0
        next.blockedBy = nil
        return next
    }

    // MARK: Set aside

    /// Puts a change aside with its reason.
    ///
    /// A refused update or delete is reverted, exactly, or shown on if its entity wants that, and frees what came after
    /// it; a refused create stays, and blocks what needs it. One that never got a verdict is shown on, since it may have
    /// happened.
    mutating func setAside(
        _ db: Database, _ change: StoredChange, _ reason: SetAsideReason, doubt: Failures.Doubt
    ) throws {
        let code = Rejection.Code(rawValue: reason.code)
        if code.meansDecided(under: change.device) {
            guard code == .expired, try wasReasonLost(db, change) else { return try expired(db, change, code) }
            // It was decided before it was set aside, so it was refused: its values stay, for a new key.
            return try putAside(db, change, reason, doubt: .none)
        }
        if doubt == .none, let creator = try waitingCreator(db, of: change, reason) {
            return try wait(db, change, for: creator)
        }
        var doubt = doubt
        if change.operation != .create, doubt == .none, table.schema[change.record.entity]?.refusal == .keep {
            doubt = .kept
        }
        try putAside(db, change, reason, doubt: doubt)
    }

    /// Puts a change aside that nothing else is to become of.
    private mutating func putAside(
        _ db: Database, _ change: StoredChange, _ reason: SetAsideReason, doubt: Failures.Doubt
    ) throws {
        var doubt = doubt
        // What the user took back is not shown on, whatever its entity wants of what is refused.
        if change.operation == .update, doubt != .shown, try endInverse(db, of: change) { doubt = .none }
        if change.operation != .create, doubt != .shown, var work = try takeWork(db, change.record) {
            // The base follows from what remains: it is worked out while this change still does.
            if doubt == .kept { work.keepAside(change.key) } else { work.takeOut(change.key) }
            works[change.record] = work
        }
        try ChangeRows.setState(db, position: change.position, .failed)
        try ChangeRows.release(db, behind: change)
        try Failures.insert(db, change, reason, doubt: doubt, now: now)
        try ChangeNotes.event(db, "setAside", of: change, detail: try ReasonCodec.json(reason), now: now)
        if let unit = change.unit {
            let members = try Dependants(schema: table.schema).members(db, of: unit, around: change.position)
            for member in members where member.state != .failed {
                let state: StoredChange.State = member.wasSent ? .blockedAfterSending : .blocked
                try ChangeRows.setState(db, position: member.position, state, blockedBy: change.key)
            }
        }
        if change.operation == .create {
            firstAside = min(firstAside ?? change.position, change.position)
        } else if change.unit == nil {
            try ChangeRows.release(db, blockedBy: change.key)
        }
    }

    /// Whether the change was set aside for a reason that went with a page of a damaged file (Decision 352).
    private func wasReasonLost(_ db: Database, _ change: StoredChange) throws -> Bool {
        let sql = "SELECT 1 FROM sync_event WHERE kind = 'setAside' AND key = ? AND detail = ? LIMIT 1"
        let detail = try ReasonCodec.json(.reasonLost)
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [change.key, detail]) != nil
    }

    /// It was decided once, and nobody knows how (PROTOCOL.md, `expired`; Decision 155): the row goes back to what the server
    /// said last, and what came of the change is in the next page, if anything did.
    private mutating func expired(_ db: Database, _ change: StoredChange, _ code: Rejection.Code) throws {
        try ChangeNotes.event(
            db, "expired", of: change, detail: code == .expired ? nil : code.rawValue, now: now)
        if var work = try takeWork(db, change.record) {
            work.takeOut(change.key, mayBeDone: true)
            try Lapsed.note(db, change, work, now: now)
            works[change.record] = work
        }
        try drop(db, change)
        try ChangeRows.release(db, blockedBy: change.key)
    }

    /// PROTOCOL.md, *Results*: the record said to be missing is one whose own create waits, or was set aside, here. Not one that
    /// has to wait for earlier changes of that record: one of these may wait for this change, and would come behind it (seed 16766).
    private func waitingCreator(
        _ db: Database, of change: StoredChange, _ reason: SetAsideReason
    ) throws -> String? {
        guard reason.code == Rejection.Code.missingReference.rawValue, let missing = reason.reference,
            let entity = table.schema[change.record.entity]
        else { return nil }
        for field in entity.fields {
            guard let target = field.reference?.entity, reason.field == nil || reason.field == field.name else {
                continue
            }
            let sql = """
                SELECT key, state, blockedBy FROM sync_change c
                WHERE entity = ? AND id = ? AND operation = 0 AND key <> ? AND NOT EXISTS (
                  SELECT 1 FROM sync_change e
                  WHERE e.entity = c.entity AND e.id = c.id AND e.position < c.position AND e.state <> 4)
                ORDER BY position LIMIT 1
                """
            let statement = try db.cachedStatement(sql: sql)
            if let row = try Row.fetchOne(statement, arguments: [target, missing, change.key]) {
                let key: String = row[2] ?? row[0]
                // Of two that name each other, neither can be first.
                return key == change.key ? nil : key
            }
        }
        return nil
    }

    /// The verdict is bound to the key: a successor waits for the create instead.
    private mutating func wait(_ db: Database, _ change: StoredChange, for creator: String) throws {
        // The create may be decided later in this very settlement: then it is to free what waits for it.
        hasAside = true
        var next = try successor(db, of: change)
        next.conflicts = change.conflicts
        next.state = .blocked
        next.blockedBy = creator
        try ChangeRows.replace(db, next)
        let inverse = try heldInverse(db, of: change)
        try ChangeRows.hand(db, blockedBy: change.key, to: creator)
        if let inverse { try ChangeRows.setState(db, position: inverse.position, .blocked, blockedBy: next.key) }
        if var work = try takeWork(db, change.record) {
            work.replace(change.key, with: next)
            works[change.record] = work
        }
        if change.operation == .create { firstAside = min(firstAside ?? change.position, change.position) }
    }

    /// Sets everything of a record aside that waits, and never left: it left all scopes (PROTOCOL.md, `gone`).
    mutating func setAllAside(_ db: Database, of record: RecordKey, _ reason: SetAsideReason) throws {
        for change in try Base.remaining(db, of: record, table.schema) {
            guard change.state != .failed else {
                // The row goes, so it shows nothing any more.
                try Failures.hide(db, key: change.key)
                continue
            }
            try ChangeRows.setState(db, position: change.position, .failed)
            try Failures.insert(db, change, reason, doubt: change.wasSent ? .shown : .none, now: now)
            try ChangeNotes.event(db, "setAside", of: change, detail: try ReasonCodec.json(reason), now: now)
        }
    }
    /// Sets aside what moves a record, and was never sent, under one of those that left all scopes, whatever its entity wants of
    /// what is refused: where it would show is not here.
    mutating func setMovesAside(
        _ db: Database, of record: RecordKey, under left: Set<RecordKey>, _ reason: SetAsideReason
    ) throws {
        for change in try Base.remaining(db, of: record, table.schema) where change.operation == .update {
            guard table.schema.parents(of: change).contains(where: { left.contains($0.record) }) else { continue }
            guard change.state == .failed else {
                try putAside(db, change, reason, doubt: .none)
                continue
            }
            // It was refused, and the row shows it.
            if var work = try takeWork(db, record) {
                work.takeOut(change.key)
                works[record] = work
            }
            try Failures.hide(db, key: change.key)
        }
    }
}

extension SetAsideReason {
    /// The server told for one record the id that another one has.
    static func serverIDTaken(_ serverID: String, by other: RecordKey) -> SetAsideReason {
        SetAsideReason(
            code: "serverIDTaken",
            message: "The server says that it keeps this record under the id “\(serverID)”, under which it keeps "
                + "\(other.entity) \(other.id) already.", reference: other.id)
    }
}
