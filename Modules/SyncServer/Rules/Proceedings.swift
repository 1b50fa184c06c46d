internal import SyncCore

/// One request's changes, decided one after another: keys, blocking, units; the ledger does the rest.
///
/// A value over a source: nothing is written. What is to be stored stands in the outcomes and the ledger afterwards.
/// Source of the rules: PROTOCOL.md, *Results*.
struct Proceedings {
    /// What the app says before a change is decided.
    typealias Policy = (IncomingChange) -> PolicyAnswer

    private(set) var ledger: Ledger
    private(set) var outcomes: [ChangeOutcome] = []
    /// Bytes of verdicts given before that one request may ask for again, and of records that verdicts tell; of more it is refused
    /// as a whole.
    var mostVerdictBytes = Int.max
    private var verdictBytes = 0
    private let isStrict: Bool
    private let policy: Policy?
    private let naming: Naming?

    /// The change that was not done, by the record that it would have changed.
    private var notDone: [RecordKey: String] = [:]
    private var createsNotDone: [RecordKey: String] = [:]
    /// Under strict order, the change that waits.
    private var barrier: String?
    private var sequences = UsedSequences()

    init(ledger: Ledger, isStrict: Bool = false, naming: Naming? = nil, policy: Policy? = nil) {
        self.ledger = ledger
        self.isStrict = isStrict
        self.naming = naming
        self.policy = policy
    }

    /// The ids that the server gave in this request.
    var aliases: [Naming.Alias] { naming?.made ?? [] }

    /// Decides a change that came by itself, with a key that was looked at already.
    mutating func decideAlone(_ change: IncomingChange, in source: some RecordSource) throws -> Decision {
        switch policy?(change) ?? .allow {
        case .allow: break
        case .forbid(let message): return .rejected(Rejection(code: .forbidden, message: message))
        case .later(let seconds): return .retry(after: seconds)
        }
        return try decide(change, in: source).0
    }

    /// Decides all, in order; neighbours of one unit together.
    mutating func decide(_ dirty: [DirtyRecord], in source: some RecordSource) throws {
        outcomes.reserveCapacity(dirty.count)
        ledger.reserve(dirty.count)
        var seenUnits: [String: Int] = [:]
        for record in dirty { if let unit = record.unit { seenUnits[unit, default: 0] += 1 } }
        var index = 0
        while index < dirty.count {
            guard let unit = dirty[index].unit else {
                try decideOne(dirty[index], in: source)
                index += 1
                continue
            }
            var end = index + 1
            while end < dirty.count, dirty[end].unit == unit { end += 1 }
            let isWhole = seenUnits[unit] == end - index
            try decideUnit(dirty[index..<end], isWhole: isWhole, in: source)
            index = end
        }
    }

    // MARK: - One change

    private mutating func decideOne(_ dirty: DirtyRecord, in source: some RecordSource) throws {
        try note(outcome(of: dirty, in: source), of: dirty, in: source)
    }

    private func outcome(_ dirty: DirtyRecord, _ decision: Decision, isStored: Bool = false) -> ChangeOutcome {
        ChangeOutcome(dirty: dirty, decision: decision, isStored: isStored)
    }

    /// A key that nothing is stored under, after all, was not looked up by the store either.
    private mutating func outcome(of dirty: DirtyRecord, in source: some RecordSource) throws -> ChangeOutcome {
        let isGuarded =
            try dirty.unit == nil
            && dirty.sequence.map { try source.isGuarded(sequence: $0, device: dirty.device) }
                ?? false
        if !isGuarded, let known = try outcome(fromKeyOf: dirty, in: source) { return known }
        let outcome = try outcome(ofUnknown: dirty, in: source)
        if isGuarded, outcome.storedSequence == nil, let known = try self.outcome(fromKeyOf: dirty, in: source) {
            return known
        }
        return outcome
    }

    private mutating func outcome(ofUnknown dirty: DirtyRecord, in source: some RecordSource) throws -> ChangeOutcome {
        if let refusal = try refusal(bySequenceOf: dirty, in: source) { return refusal }
        if let sequence = dirty.sequence { sequences.insert(sequence, of: dirty.device) }
        if let cause = blocker(of: dirty) { return outcome(dirty, .blocked(by: cause)) }
        switch dirty.content {
        case .malformed(let rejection):
            return outcome(dirty, .rejected(rejection), isStored: true)
        case .change(let change):
            switch policy?(change) ?? .allow {
            case .allow: break
            case .forbid(let message):
                return outcome(dirty, .rejected(Rejection(code: .forbidden, message: message)), isStored: true)
            case .later(let seconds): return outcome(dirty, .retry(after: seconds))
            }
            let (decision, serverID) = try decide(change, in: source)
            if case .merged(let record) = decision { try count(verdictBytes: record.leastBytes) }
            if case .conflict(let record) = decision { try count(verdictBytes: record.leastBytes) }
            return ChangeOutcome(
                dirty: dirty, decision: decision, isClamped: change.isClamped && decision.isDone, serverID: serverID,
                isStored: decision.isDone || decision.isRejection, stamp: stamp(of: decision, change))
        }
    }

    /// The decision, and the server's own id for what was created under another, or is told under another than it was asked by.
    private mutating func decide(
        _ change: IncomingChange, in source: some RecordSource
    ) throws -> (Decision, serverID: String?) {
        guard let naming else { return (try ledger.decide(change, in: source), nil) }
        let renamed = try naming.rename(change, ledger: &ledger, in: source)
        let decision = try ledger.decide(renamed, in: source)
        guard renamed.record != change.record else { return (decision, nil) }
        guard change.operation == .create else {
            // Who edits by a name that no answer has made good has another row for the record, or none.
            let isLate = change.operation == .update && decision.isDone && !naming.hasMade(change.record)
            return (decision, decision.tellsRecord || isLate ? renamed.record.id : nil)
        }
        guard decision.isDone else { return (decision, nil) }
        naming.settle(change.record, renamed.record.id)
        return (decision, renamed.record.id)
    }

    private func stamp(of decision: Decision, _ change: IncomingChange) -> Stamp? {
        switch decision {
        case .applied: change.highestStamp
        case .merged(let record), .conflict(let record): max(record.highestStamp, change.highestStamp)
        case .rejected, .blocked, .retry, .duplicate: nil
        }
    }

    /// At least the stamp of what was answered first: it was of the change or of its record, whose writes only grow.
    private mutating func stamp(ofRepeated dirty: DirtyRecord, in source: some RecordSource) throws -> Stamp? {
        var highest = Stamp.zero
        if case .change(let change) = dirty.content { highest = change.highestStamp }
        guard let record = dirty.record else { return highest }
        let key = try naming?.present(record, in: source) ?? record
        if let place = try ledger.find(key, in: source) {
            highest = max(highest, ledger.entries[place].state.highestStamp)
        }
        return highest
    }

    /// What the key says before the change itself is looked at.
    private mutating func outcome(fromKeyOf dirty: DirtyRecord, in source: some RecordSource) throws -> ChangeOutcome? {
        guard let known = try source.outcome(device: dirty.device, key: dirty.changeID) else { return nil }
        guard try isSame(dirty, known.digest, in: source) else {
            let rejection = Rejection(code: .keyReused, message: "the key was used with other content")
            return try named(outcome(dirty, .rejected(rejection)), dirty, in: source)
        }
        try count(verdictBytes: known.members.utf8.count)
        var repeated = outcome(dirty, .duplicate(known))
        if repeated.decision.isDone {
            repeated.stamp = try stamp(ofRepeated: dirty, in: source)
            repeated.serverID = try lateName(dirty, beside: known, in: source)
        }
        return repeated
    }

    /// What an update's record is called, where it was told beside its create alone: who repeats it may be a copy that never heard that
    /// (seed 24915).
    private func lateName(
        _ dirty: DirtyRecord, beside known: StoredOutcome, in source: some RecordSource
    ) throws -> String? {
        guard let naming, case .change(let change) = dirty.content, change.operation == .update,
            !naming.hasMade(change.record), !known.members.contains(#""serverID":"#)
        else { return nil }
        return try naming.present(change.record, in: source)?.id
    }

    private func digest(of dirty: DirtyRecord, in source: some RecordSource) throws -> ContentDigest {
        try naming?.digest(of: dirty, ledger.rules, in: source) ?? dirty.digest
    }

    /// Whether the change says what stands under its key.
    private func isSame<Source: RecordSource>(
        _ dirty: DirtyRecord, _ digest: ContentDigest, in source: Source
    ) throws -> Bool {
        guard let naming else { return digest == dirty.digest }
        // Refused before its record had another name, it stands as it was told.
        return try digest == naming.digest(of: dirty, ledger.rules, in: source)
            || digest == naming.digest(of: dirty, ledger.rules, in: nil as Source?)
    }

    private mutating func count(verdictBytes bytes: Int) throws {
        verdictBytes += bytes
        guard verdictBytes <= mostVerdictBytes else { throw Problem.tooManyVerdictBytes(mostVerdictBytes) }
    }

    /// Whose create was decided once, however that was, hears under which id the record is here: pages tell of no other.
    private func named(
        _ outcome: ChangeOutcome, _ dirty: DirtyRecord, in source: some RecordSource
    ) throws -> ChangeOutcome {
        guard let naming, case .change(let change) = dirty.content, change.operation == .create else { return outcome }
        var outcome = outcome
        outcome.serverID = try naming.present(change.record, in: source)?.id
        return outcome
    }

    /// And what the sequence says.
    private mutating func refusal(bySequenceOf dirty: DirtyRecord, in source: some RecordSource) throws
        -> ChangeOutcome?
    {
        guard let sequence = dirty.sequence else { return nil }
        if sequence <= (try source.settled(device: dirty.device)) {
            let rejection = Rejection(code: .expired, message: "it was decided once, and the outcome is forgotten")
            return try named(outcome(dirty, .rejected(rejection)), dirty, in: source)
        }
        let isUsedHere = sequences.contains(sequence, of: dirty.device)
        if try isUsedHere || source.isTaken(sequence: sequence, device: dirty.device, byOtherThan: dirty.changeID) {
            let rejection = Rejection(code: .invalid, message: "the sequence was used under another key")
            return outcome(dirty, .rejected(rejection))
        }
        return nil
    }

    /// The change of this request that was not done and that this one must follow, or needs.
    private func blocker(of dirty: DirtyRecord) -> String? {
        if let barrier { return barrier }
        if let record = dirty.record, let cause = notDone[record] { return cause }
        guard !createsNotDone.isEmpty, case .change(let change) = dirty.content,
            let entity = ledger.rules[change.record.entity]
        else { return nil }
        // Who makes ids has none yet for what was not made: the device's would stay in the field for ever (Decision 488).
        let needed = naming == nil ? entity.parents : entity.references
        for field in change.fields {
            guard case .string(let id) = field.new else { continue }
            for reference in needed where reference.field == field.name {
                if let cause = createsNotDone[RecordKey(reference.entity, id)] { return cause }
            }
        }
        return nil
    }

    /// Keeps the outcome, and remembers what the decision means for those that follow.
    private mutating func note(
        _ outcome: consuming ChangeOutcome, of dirty: DirtyRecord, in source: some RecordSource
    ) throws {
        // By the names that it has made.
        if outcome.isStored, naming != nil { outcome.digest = try digest(of: dirty, in: source) }
        if !outcome.decision.isDone { hold(by: outcome.decision, of: dirty) }
        outcomes.append(outcome)
    }

    private mutating func hold(by decision: Decision, of dirty: DirtyRecord) {
        let cause = if case .blocked(let by) = decision { by } else { dirty.changeID }
        if let record = dirty.record {
            if notDone[record] == nil { notDone[record] = cause }
            if dirty.isCreate, createsNotDone[record] == nil { createsNotDone[record] = cause }
        }
        if isStrict, barrier == nil, case .retry = decision { barrier = dirty.changeID }
    }

    // MARK: - Units

    /// All or none. A unit that does not stand together can never be done.
    private mutating func decideUnit(_ unit: ArraySlice<DirtyRecord>, isWhole: Bool, in source: some RecordSource)
        throws
    {
        let first = outcomes.count
        let namesBefore = aliases.count
        let before = (notDone, createsNotDone, barrier, sequences)
        ledger.beginUnit()
        for dirty in unit { try decideOne(dirty, in: source) }
        var members = Array(outcomes[first...])
        let isDone = members.allSatisfy { $0.decision.isDone }
        guard !isDone || !isWhole else { return ledger.endUnit() }
        ledger.undoUnit()
        outcomes.removeSubrange(first...)
        (notDone, createsNotDone, barrier, sequences) = before
        naming?.takeBack(to: namesBefore)
        for index in members.indices { members[index] = try afterUndoing(members[index], unit, in: source) }
        let hasRejection = !isWhole || members.contains { $0.decision.isRejection }
        let cause = members.first { !$0.decision.isDone && !$0.decision.isBlocked }?.changeID
        for (dirty, member) in zip(unit, members) {
            if let sequence = dirty.sequence { sequences.insert(sequence, of: dirty.device) }
            if !hasRejection, case .conflict(let record) = member.decision, case .change(let change) = dirty.content {
                try ledger.noteHeard(change, of: record.key, in: source)
            }
            try note(
                hasRejection
                    ? refused(dirty, member, isWhole: isWhole) : held(dirty, member, by: cause ?? blocker(in: members)),
                of: dirty, in: source)
        }
    }

    /// What a member's verdict is once the unit is undone: the record that a conflict tells is the one that stands, with a
    /// version that was handed out, not the one that the members before it had made. One that only they had made is none:
    /// the unit contradicts itself, and no later record settles that.
    private mutating func afterUndoing(
        _ member: ChangeOutcome, _ unit: ArraySlice<DirtyRecord>, in source: some RecordSource
    ) throws -> ChangeOutcome {
        guard case .conflict(let seen) = member.decision,
            let dirty = unit.first(where: { $0.changeID == member.changeID }), case .change(let change) = dirty.content
        else { return member }
        guard let place = try ledger.find(seen.key, in: source), ledger.entries[place].state.exists else {
            let message = "the change checks a value against what its own unit makes"
            return outcome(dirty, .rejected(Rejection(code: .invalid, message: message)), isStored: true)
        }
        let decision = Decision.conflict(ledger.view(place))
        return ChangeOutcome(dirty: dirty, decision: decision, stamp: stamp(of: decision, change))
    }

    private func blocker(in members: [ChangeOutcome]) -> String {
        for member in members { if case .blocked(let by) = member.decision { return by } }
        return members[0].changeID
    }

    /// A member of a unit of which another was refused, or which is not whole.
    private func refused(_ dirty: DirtyRecord, _ member: ChangeOutcome, isWhole: Bool) -> ChangeOutcome {
        if case .duplicate = member.decision { return member }
        if member.decision.isRejection { return member }
        let message = isWhole ? "another change of the unit was refused" : "the unit does not stand together"
        return outcome(dirty, .rejected(Rejection(code: .transaction, message: message)), isStored: true)
    }

    /// A member of a unit of which another waits.
    private func held(_ dirty: DirtyRecord, _ member: ChangeOutcome, by cause: String) -> ChangeOutcome {
        switch member.decision {
        case .conflict, .retry, .blocked, .duplicate: member
        case .applied, .merged, .rejected: outcome(dirty, .blocked(by: cause))
        }
    }
}

extension Decision {
    var isBlocked: Bool { if case .blocked = self { true } else { false } }

    /// Whether the record is told beside it.
    var tellsRecord: Bool {
        switch self {
        case .merged, .conflict: true
        case .applied, .rejected, .blocked, .retry, .duplicate: false
        }
    }
}
