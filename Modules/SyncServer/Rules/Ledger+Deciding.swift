internal import SyncCore

/// What becomes of one change.
extension Ledger {
    /// What is asked of an entry as it was before a change: a copy of it would make the change copy all its fields.
    private struct Past {
        let version: Int64
        let root: Int64
        let isDead: Bool
        let wasDeadItself: Bool
        let isTouched: Bool
        let isEcho: Bool

        @inline(__always)
        init(of place: Int, in entries: [Entry]) {
            (version, root, isDead) = (entries[place].version, entries[place].root, entries[place].isDead)
            wasDeadItself = entries[place].state.isDead
            (isTouched, isEcho) = (entries[place].isTouched, entries[place].isEcho)
        }
    }

    /// Decides one change that nothing blocks, and does it.
    mutating func decide(_ change: IncomingChange, in source: some RecordSource) throws -> Decision {
        guard let entity = rules[change.record.entity] else {
            return .rejected(Rejection(code: .unknownEntity, message: "there is no entity of that name"))
        }
        let known = try find(change.record, in: source)
        // Before its references are looked at: what was never there does not wait for a parent.
        if change.operation == .update, known.map({ !entries[$0].state.exists }) ?? true {
            return .rejected(Rejection(code: .notFound, message: "there is no such record"))
        }
        if let refusal = try refusal(of: change, entity, in: source) { return .rejected(refusal) }
        let place = known ?? add(change.record, entity, row: source.nextRow())
        keep(place)
        let before = Past(of: place, in: entries)
        if let refusal = try limits.refusal(of: change, to: &entries[place]) { return .rejected(refusal) }
        let ruling = entries[place].state.apply(change)
        if ruling.elements > 0 { try follow(elements: ruling.elements) }
        switch ruling.kind {
        case .rejected(let rejection): return .rejected(rejection)
        case .conflict:
            noteHeard(place, change, before: before.version)
            return .conflict(view(place))
        case .applied, .merged: break
        }
        entries[place].isTouched = true
        if ruling.isNothing { return .applied(version: nil, overwrote: []) }
        let keepsParents = keepsParents(change, entity, place)
        try follow(place, ruling, keepsParents: keepsParents, in: source)
        noteEcho(place, change, ruling, before: before)
        if change.operation == .delete, before.isDead { return .applied(version: nil, overwrote: []) }
        noteHeard(place, change, before: before.version)
        let isKeptDead = entries[place].isDead && change.operation != .delete
        if ruling.kind == .merged || isKeptDead { return .merged(view(place)) }
        return .applied(version: entries[place].version, overwrote: ruling.overwrote)
    }

    /// A conflict is told although its unit is undone.
    mutating func noteHeard(_ change: IncomingChange, of record: RecordKey, in source: some RecordSource) throws {
        guard let place = try find(record, in: source) else { return }
        noteHeard(place, change, before: entries[place].version)
    }

    /// A record left nothing above the version that it had: who has that, and the pages up to it, has heard of all.
    private mutating func noteHeard(_ place: Int, _ change: IncomingChange, before version: Int64) {
        var least = change.baseVersion ?? 0
        // A version that a verdict told may be above what the pages have come to; who holds the record's root loses nothing.
        if let asked, asked.checkpoint < least {
            let root = entries[root(of: place)].key
            if !asked.scopes.contains("\(root.entity):\(root.id)") { least = asked.checkpoint }
        }
        guard least < version, least < heard[place] ?? .max else { return }
        before?.heard.append((place, heard[place]))
        heard[place] = least
    }

    /// Elements of a set that a change goes through count, sixteen for a record.
    private mutating func follow(elements: Int) throws {
        followed += elements / 16
        guard followed <= mostFollowed else { throw Problem.tooMuchFollows(mostFollowed) }
    }

    /// What makes a change impossible whatever the record holds.
    private mutating func refusal(
        of change: IncomingChange, _ entity: EntityRules, in source: some RecordSource
    ) throws -> Rejection? {
        for field in change.fields {
            if protected.contains(field.name) {
                return Rejection(code: .invalid, message: "the field is the server's own", field: field.name)
            }
            guard let parent = entity.parents.first(where: { $0.field == field.name }) else { continue }
            // A create writes plainly whatever its rules say.
            if change.operation == .update, field.rule == .sum || field.rule == .union {
                return Rejection(code: .invalid, message: "a reference is written as a whole", field: field.name)
            }
            if field.new.isNull { continue }
            guard case .string(let id) = field.new else {
                return Rejection(code: .invalid, message: "the field holds an id, or null", field: field.name)
            }
            let place = try find(RecordKey(parent.entity, id), in: source)
            let wasCreated = place.map { entries[$0].state.exists } ?? false
            if !wasCreated {
                return Rejection(
                    code: .missingReference, message: "there is no \(parent.entity) of that id", field: field.name,
                    reference: id)
            }
        }
        return nil
    }

    private mutating func noteEcho(
        _ place: Int, _ change: IncomingChange, _ ruling: RecordRuling, before: Past
    ) {
        let isKnown: Bool
        if before.isTouched {
            isKnown = before.isEcho
        } else {
            isKnown = before.version == (change.baseVersion ?? 0)
        }
        entries[place].isEcho =
            isKnown && !change.isTranslated && ruling.isAsSent && ruling.kind == .applied && ruling.overwrote.isEmpty
            && !before.wasDeadItself
            && !before.isDead && entries[place].isDead == (change.operation == .delete)
            && (before.root == entries[place].root || before.version == 0)
    }
}
