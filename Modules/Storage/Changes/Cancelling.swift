import GRDB
import SyncCore

/// Taking a change back: PROTOCOL.md and FAILURES.md, QUE-04 and QUE-05.
///
/// | the change | what happens |
/// | --- | --- |
/// | never sent | it goes at once, with what needs it; if something of that was sent, or a deleted record's parent is not here any more, it is too late |
/// | sent, without a verdict | an inverse goes after it: a create's is a delete, a delete's a create (where its parents are here, and nobody deleted it again), an update's the values before; what a later change writes again, or a later create makes anew, needs none, nor does a delete whose record's create goes back with it. What was not sent goes out all the same where something that was sent needs it (Decision 490). One that takes a sum or elements back waits for the verdict, and ends with a refusal (Decision 335) |
/// | being sent now | too late: its fate is the server's |
/// | set aside | refused: it is discarded, or retried |
extension ChangeTable {
    /// - Returns: what it came to, and the records whose rows changed.
    /// - Throws: ``StoreFailure`` : `notFound` for a change that is not there, `invalid` for one that is set aside.
    func cancel(_ db: Database, _ key: String, now: Int64) throws -> (outcome: CancelOutcome, touched: [RecordKey]) {
        guard let change = try find(db, key) else {
            throw StoreFailure(kind: .notFound, message: "No change \(key) is in the queue.")
        }
        switch change.state {
        case .uploading: return (.tooLate, [])
        case .failed:
            throw StoreFailure(kind: .invalid, message: "The change \(key) is set aside; discard it instead.")
        case .pending, .blocked: return try cancelUnsent(db, change, now: now)
        case .uncertain, .blockedAfterSending: return try cancelSent(db, change, now: now)
        }
    }

    private func cancelUnsent(
        _ db: Database, _ change: StoredChange, now: Int64
    ) throws -> (outcome: CancelOutcome, touched: [RecordKey]) {
        let parting = try Parting(db, of: change, schema)
        // What has moved away and was sent, as a refused create's child was that waits for this one, would go without it.
        guard !(parting.going + parting.staying).contains(where: \.wasSent), try canShow(db, parting.going) else {
            return (.tooLate, [])
        }
        var settling = Settling(table: self, now: now)
        let going = parting.going + parting.emptied(schema, isDecided: false)
        for member in going { try ChangeNotes.event(db, "cancelled", of: member, now: now) }
        try settling.giveUp(db, parting, isDecided: false)
        try settling.finish(db)
        return (.cancelled(going.map(\.key)), settling.touched)
    }

    /// Whether what was deleted has its parents here, or gets them back with itself: else it would not show, and what waits of it
    /// would go with them.
    private func canShow(_ db: Database, _ changes: [StoredChange]) throws -> Bool {
        let deletes = changes.filter { $0.operation == .delete }
        let returning = Set(deletes.map(\.record))
        for change in deletes {
            let work = try RecordWork.load(db, change.record, schema, deltas)
            let fields = try change.deleted(db, from: work?.state(before: change.position) ?? .absent)
            for field in schema[change.record.entity]?.parents ?? [] {
                guard let parent = field.reference.flatMap({ schema[$0.entity] }),
                    case .string(let id)? = fields[field.name]
                else { continue }
                if returning.contains(RecordKey(parent.name, id)) { continue }
                if try !RowWriter(parent).exists(db, id) { return false }
            }
        }
        return true
    }

    private func cancelSent(
        _ db: Database, _ change: StoredChange, now: Int64
    ) throws -> (outcome: CancelOutcome, touched: [RecordKey]) {
        let parting = try Parting(db, of: change, schema)
        let closure = try withoutUndone(db, parting.going)
        guard !(closure + parting.staying).contains(where: { $0.state == .uploading }) else { return (.tooLate, []) }
        var settling = Settling(table: self, now: now)
        // Nearly always nothing else was sent, and nothing is to be looked for.
        let isAlone = !(parting.going + parting.staying).contains { $0.wasSent && $0.position != change.position }
        let needed = try isAlone ? [] : self.needed(db, closure)
        // What has moved away from what was sent goes on as it is: the inverse comes behind its move.
        let leaving = parting.only(closure.filter { !$0.wasSent && !needed.contains($0.position) })
        let unsent = leaving.going + leaving.emptied(schema, isDecided: false)
        for member in unsent { try ChangeNotes.event(db, "cancelled", of: member, now: now) }
        try settling.giveUp(db, leaving, isDecided: false)
        var inverses: [String: String] = [:]
        // The last made is undone first, so that a child goes before its parent.
        for member in withoutUnmade(closure).reversed() where member.wasSent || needed.contains(member.position) {
            inverses[member.key] = try settling.invert(db, member)
        }
        try settling.finish(db)
        // Where later changes have undone it already, what was made with it still went back.
        if let inverse = inverses[change.key] ?? closure.compactMap({ inverses[$0.key] }).first {
            return (.inverse(inverse), settling.touched)
        }
        return (unsent.isEmpty ? .tooLate : .cancelled(unsent.map(\.key)), settling.touched)
    }

    /// The places of those that were not sent, but must go before something that was: a create, once refused and written anew, and what
    /// stands in a unit with it (seed 30323).
    private func needed(_ db: Database, _ closure: [StoredChange]) throws -> Set<Int64> {
        let creates = closure.filter { $0.operation == .create && !$0.wasSent }
        let graph = creates.count > 1 ? try NeedGraph(db, schema) : nil
        var needed: Set<Int64> = []
        var units: Set<String> = []
        for create in creates {
            let needing = try Dependants(schema: schema, graph: graph).closure(db, of: create)
            guard needing.contains(where: \.wasSent) else { continue }
            needed.insert(create.position)
            if let unit = create.unit { units.insert(unit) }
        }
        for member in closure where !member.wasSent && member.unit.map(units.contains) ?? false {
            needed.insert(member.position)
        }
        return needed
    }

    /// Without the changes of records that were sent, deleted, and made anew since: that delete takes them back, and must go before the
    /// create behind it (seed 129).
    private func withoutUndone(_ db: Database, _ changes: [StoredChange]) throws -> [StoredChange] {
        var undone: Set<RecordKey> = []
        for (record, own) in Dictionary(grouping: changes, by: \.record).sorted(by: { $0.key < $1.key }) {
            guard own.contains(where: \.wasSent), let last = own.map(\.position).max() else { continue }
            let sql = "SELECT 1 FROM sync_change WHERE entity = ? AND id = ? AND operation = 0 AND position > ? LIMIT 1"
            let create = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [record.entity, record.id, last])
            if create != nil { undone.insert(record) }
        }
        return undone.isEmpty ? changes : changes.filter { !undone.contains($0.record) }
    }

    /// Without the deletes whose record's create goes back with them: before both there was nothing to bring back (seed 78275).
    private func withoutUnmade(_ changes: [StoredChange]) -> [StoredChange] {
        let creates = Dictionary(
            changes.lazy.filter { $0.operation == .create }.map { ($0.record, $0.position) }, uniquingKeysWith: min)
        return changes.filter { $0.operation != .delete || creates[$0.record, default: .max] > $0.position }
    }
}

extension Settling {
    /// Puts the inverse of a change that was sent at the queue's end.
    /// - Returns: its key; `nil` where later changes have undone it already.
    mutating func invert(_ db: Database, _ change: StoredChange) throws -> String? {
        guard var work = try takeWork(db, change.record) else { return nil }
        defer { works[change.record] = work }
        let shown = work.shown
        var inverse = change
        // What was made anew since says all there is: nothing of what was taken back is in it.
        let isMadeAnew = work.changes.contains { $0.position > change.position && $0.operation == .create }
        switch change.operation {
        case .create:
            guard shown.isLive, !isMadeAnew else { return nil }
            inverse.operation = .delete
            inverse.fields = shown.fields.mapValues { FieldDelta(old: $0, new: .null) }
        case .delete:
            // What was deleted again since is that delete's to say (seed 46577).
            guard !shown.isLive,
                !work.changes.contains(where: { $0.position > change.position && $0.operation == .delete })
            else { return nil }
            inverse.operation = .create
            let taken = try change.deleted(db, from: work.state(before: change.position))
            // Tried again over a tombstone, it took nothing: what was dead before it stays dead (seed 69741).
            guard !taken.isEmpty || table.schema[change.record.entity]?.fields.isEmpty == true else { return nil }
            // What this program does not know is a part of it: a create clears what it does not name (DAT-18).
            inverse.fields = taken.merging(work.stored?.extra ?? [:]) { known, _ in known }
                .mapValues { FieldDelta(old: nil, new: $0) }
            // Without its parent it would not show, and be refused or come to nothing.
            guard try hasParents(db, inverse, of: change) else { return nil }
        case .update:
            if let present = try heldInverse(db, of: change) { return present.key }
            guard shown.isLive, !isMadeAnew else { return nil }
            // What was refused, and is shown on, writes nothing there.
            let later = work.changes.filter { $0.position > change.position && !work.isRefused($0) }
            inverse.fields = undone(change, over: shown, later: later)
            guard !inverse.fields.isEmpty else { return nil }
        }
        let sequence = try ChangeRows.nextSequence(db)
        inverse.sequence = sequence
        inverse.position = sequence
        inverse.key = try Clock.key(db)
        inverse.schema = table.schema[change.record.entity]?.version ?? change.schema
        inverse.stamp = try ChangeRows.nextStamp(db, now: now)
        inverse.madeAt = now
        inverse.state = change.blockedBy == nil ? .pending : .blocked
        if change.operation == .update, inverse.fields.values.contains(where: { $0.rule == .sum || $0.rule == .union })
        {
            // Whether there is anything to take out again, only the verdict tells (``endInverse(_:of:)``).
            (inverse.state, inverse.blockedBy) = (.blocked, change.key)
        }
        inverse.baseVersion = nil
        inverse.unit = nil
        inverse.intent = nil
        inverse.device = nil
        inverse.attempts = 0
        inverse.conflicts = 0
        try ChangeRows.insert(db, inverse)
        counted += 1
        work.insert(inverse)
        try ChangeNotes.event(db, "inverted", of: change, detail: inverse.key, now: now)
        return inverse.key
    }

    /// The change that was taken back is refused, or given up before it was sent: an inverse that waited for that has nothing to
    /// take back.
    /// - Returns: whether there was one.
    @discardableResult
    mutating func endInverse(_ db: Database, of change: StoredChange) throws -> Bool {
        guard let inverse = try heldInverse(db, of: change) else { return false }
        try ChangeNotes.event(db, "cancelled", of: inverse, now: now)
        try takeBack(db, [inverse], isDecided: false)
        return true
    }

    /// The inverse of a change that waits for its verdict; only an update's does.
    func heldInverse(_ db: Database, of change: StoredChange) throws -> StoredChange? {
        guard change.operation == .update else { return nil }
        let sql = """
            SELECT position FROM sync_change WHERE state <> 0 AND state = 3 AND blockedBy = ? AND entity = ? AND id = ?
            AND key IN (SELECT detail FROM sync_event WHERE kind = 'inverted')
            """
        let statement = try db.cachedStatement(sql: sql)
        let found = try Int64.fetchOne(statement, arguments: [change.key, change.record.entity, change.record.id])
        return try found.flatMap { try ChangeRows.read(db, position: $0, table.schema) }
    }

    /// Whether the rows are here that an inverse's values name as parents, and it names those that the delete took: of what history lost
    /// only what an edit named may be known (seed 331960).
    private func hasParents(_ db: Database, _ inverse: StoredChange, of delete: StoredChange) throws -> Bool {
        for field in table.schema[inverse.record.entity]?.parents ?? [] {
            guard let parent = field.reference.flatMap({ table.schema[$0.entity] }) else { continue }
            guard case .string(let id)? = inverse.fields[field.name]?.new else {
                if case .string? = delete.fields[field.name]?.old { return false }
                continue
            }
            if try !RowWriter(parent).exists(db, id) { return false }
        }
        return true
    }

    /// An update's values before; a plain value that a later change writes again is that change's to say.
    private func undone(
        _ change: StoredChange, over shown: RecordState, later: [StoredChange]
    ) -> [String: FieldDelta] {
        var fields: [String: FieldDelta] = [:]
        for (name, delta) in change.fields {  // any order
            let present = shown.fields[name] ?? .null
            switch delta.rule {
            case .lastWriter, .check:
                guard !later.contains(where: { $0.fields[name] != nil }) else { continue }
                fields[name] = FieldDelta(old: present, new: delta.old ?? .null, rule: delta.rule)
            case .sum, .union:
                let back = FieldDelta(old: delta.new, new: delta.old ?? .null, rule: delta.rule)
                fields[name] = FieldDelta(
                    old: present, new: table.deltas.rebase(back, onto: present), rule: delta.rule)
            }
        }
        return fields
    }
}

extension StoredChange {
    /// What a delete took: the record as it is just before it, or as it is held for a parent that is deleted here, too; where
    /// nothing is known of it any more, as it was when it was deleted. What is noted with the delete may be less: a create in
    /// front of it was decided, nobody knows how, and a page has told since what came of it (seed 15123).
    fileprivate func deleted(_ db: Database, from state: RecordState) throws -> [String: FieldValue] {
        if state.isLive { return state.fields }
        if let held = try HeldRecords.find(db, record), held.presence == .live { return held.fields }
        return fields.compactMapValues(\.old)
    }
}
