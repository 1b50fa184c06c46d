internal import SyncCore

/// All that is known of one record: for each field its greatest write, and the greatest delete.
///
/// The record is dead while the delete is above all its other writes. What is kept follows from the set of accepted
/// changes, whatever the order in which they came. That it may be dead through its parent is not seen here.
/// Source of the rules: PROTOCOL.md, *Last writer wins, per field*.
struct RecordState: Sendable, Hashable {
    /// The latest create; `nil` if only a delete ever came.
    private(set) var created: WriteTag?
    /// The latest delete.
    private(set) var deleted: WriteTag?
    /// The earliest delete: a create above it began the record anew.
    private(set) var firstDeleted: WriteTag?
    /// The fields that the latest create named, and has no plain write of at its own place: with stamps below its own, or since
    /// it said only what sums or elements had made.
    private(set) var namedBelow: [String]
    /// In the order of their names.
    private(set) var fields: FieldList

    /// A record of which nothing is known.
    init() { self.init(created: nil, deleted: nil, firstDeleted: nil, namedBelow: [], fields: FieldList([])) }

    /// A record as it was kept; the floors of its fields follow.
    init(
        created: WriteTag?, deleted: WriteTag?, firstDeleted: WriteTag?, namedBelow: [String], fields: FieldList
    ) {
        self.created = created
        self.deleted = deleted
        self.firstDeleted = firstDeleted
        self.namedBelow = namedBelow
        self.fields = fields
        if firstDeleted != nil, reset != nil { setFloors() }
    }

    /// The place of the latest create, if any delete is below it: with it, every field that it did not name was written
    /// null. Which of both came first, and whether another delete is above, is of no importance.
    var reset: WriteTag? {
        guard let created, let firstDeleted, firstDeleted < created else { return nil }
        return created
    }

    /// Whether a create of it was ever accepted.
    var exists: Bool { created != nil }

    /// Whether a delete stands above every other write.
    var isDead: Bool {
        guard let deleted else { return false }
        return greatestWrite.isBefore(deleted)
    }

    /// The place of the last write that is no delete.
    var greatestWrite: WriteTag? {
        fields.greatest(after: created)
    }

    /// The highest stamp in it.
    var highestStamp: Stamp {
        let highest = Swift.max(created?.stamp ?? .zero, deleted?.stamp ?? .zero)
        return fields.highestStamp(above: highest)
    }

    /// The value of a field; null if it was never written.
    func value(of name: String) -> FieldValue {
        let (index, isFound) = fields.place(of: name)
        return isFound ? fields.value(at: index) : .null
    }

    /// Does what a change says, or nothing, and tells which.
    mutating func apply(_ change: IncomingChange) -> RecordRuling {
        switch change.operation {
        case .create: create(change)
        case .update: update(change)
        case .delete: delete(change)
        }
    }

    // MARK: - Create

    private mutating func create(_ change: IncomingChange) -> RecordRuling {
        guard exists else { return createFirst(change) }
        if isDead { return createAgain(change) }
        guard holdsExactly(change.fields) else {
            return .refused(.idTaken, "the id belongs to another record")
        }
        remember(change)
        return RecordRuling(.applied, hasEffect: false)
    }

    /// A create that says what is there already changes nothing that readers see, but it is a write all the same: a
    /// delete before it that comes later does not take the record.
    private mutating func remember(_ change: IncomingChange) {
        var unwritten: [String] = []
        for field in change.fields {
            let index = slot(for: field.name)
            fields[index].confirm(at: change.tag(of: field))
            // It names the field all the same, so that it hides nothing below itself (Decision 90).
            if fields[index].plainTag.isBefore(change.tag(of: field)) { unwritten.append(field.name) }
        }
        noteCreate(change, unwritten: unwritten)
    }

    private mutating func createFirst(_ change: IncomingChange) -> RecordRuling {
        fields = FieldList(
            change.fields.map { FieldState(name: $0.name, written: $0.new, at: change.tag(of: $0)) })
        noteCreate(change)
        return RecordRuling(isDead ? .merged : .applied, hasEffect: true, isAsSent: true)
    }

    private mutating func createAgain(_ change: IncomingChange) -> RecordRuling {
        let revives = deleted.isBefore(change.tag)
        var isDone = true
        var elements = 0
        for field in change.fields {
            let index = slot(for: field.name)
            elements += fields.elementCount(at: index)
            if !fields[index].plainTag.isBefore(change.tag(of: field)) { isDone = false }
            _ = fields[index].write(field.new, at: change.tag(of: field))
        }
        noteCreate(change)
        if !change.fields.allSatisfy({ value(of: $0.name).isSame(as: $0.new) }) { isDone = false }
        // An older one counts as an update: the record lives only where a field of its own is newer than the delete.
        guard revives else {
            return RecordRuling(isDone && !isDead ? .applied : .merged, hasEffect: !isDead, elements: elements)
        }
        return RecordRuling(isDone ? .applied : .merged, hasEffect: true, elements: elements)
    }

    /// - Parameter unwritten: fields that it names, and of which it is no plain write.
    private mutating func noteCreate(_ change: IncomingChange, unwritten: [String] = []) {
        guard created.isBefore(change.tag) else { return }
        created = change.tag
        namedBelow = change.fields.filter { change.tag(of: $0) < change.tag || unwritten.contains($0.name) }.map(\.name)
        if reset != nil { setFloors() }
    }

    private mutating func setFloors() {
        let reset = reset
        for index in fields.indices {
            fields[index].setFloor(namedBelow.contains(fields[index].name) ? nil : reset)
        }
    }

    /// Whether the record has these fields and no others, where null and absent are the same.
    private func holdsExactly(_ sent: [IncomingChange.Field]) -> Bool {
        let have = fields.filter { !$0.isNull }
        let want = sent.filter { !$0.new.isNull }
        return have.count == want.count
            && zip(have, want).allSatisfy { $0.name == $1.name && $0.isSame(as: $1.new) }
    }

    // MARK: - Update

    private mutating func update(_ change: IncomingChange) -> RecordRuling {
        guard exists else { return .refused(.notFound, "there is no such record") }
        if let refusal = refusal(of: change) { return refusal }
        let wasDead = isDead
        var ruling = RecordRuling(.applied, hasEffect: false, isAsSent: true)
        for field in change.fields { write(field, of: change, into: &ruling) }
        if isDead {
            // Remembered all the same; readers see the same tombstone as before.
            ruling.kind = .merged
            ruling.hasEffect = false
            ruling.overwrote = []
        } else if wasDead {
            ruling.isAsSent = false
        }
        return ruling
    }

    /// What makes the whole change impossible, before anything of it is done.
    private func refusal(of change: IncomingChange) -> RecordRuling? {
        for field in change.fields where field.rule == .sum || field.rule == .check {
            let (index, isFound) = fields.place(of: field.name)
            let now = isFound ? fields[index] : FieldState(name: field.name)
            switch field.rule {
            case .lastWriter, .union: continue
            case .sum:
                guard now.takesSums else {
                    return .refused(.invalid, "the field holds no number to add to", field: field.name)
                }
                if let difference = Number.difference(old: field.old, new: field.new),
                    now.exceedsRange(adding: difference, at: change.tag(of: field))
                {
                    return .refused(.invalid, "the sum is beyond 64 bits", field: field.name)
                }
            case .check:
                let isUnchanged = now.isSame(as: field.old ?? .null) || now.isSame(as: field.new)
                if !isUnchanged { return RecordRuling(.conflict, hasEffect: false) }
            }
        }
        return nil
    }

    private mutating func write(
        _ field: IncomingChange.Field, of change: IncomingChange, into ruling: inout RecordRuling
    ) {
        let index = slot(for: field.name)
        let tag = change.tag(of: field)
        if field.rule == .union { return unite(field, at: index, tag, into: &ruling) }
        ruling.elements += fields.elementCount(at: index)
        let before = fields.value(at: index)
        let isDone: Bool
        switch field.rule {
        case .lastWriter:
            isDone = fields[index].write(field.new, at: tag)
            if isDone {
                if !before.isSame(as: field.old ?? .null), !before.isSame(as: field.new) {
                    ruling.overwrote.append((field.name, before))
                }
                // The value is what was sent; nothing else is to be asked.
                ruling.hasEffect = true
                return
            }
        case .check:
            fields[index].overwrite(field.new, at: tag)
            isDone = true
        case .sum:
            isDone = Number.difference(old: field.old, new: field.new).map { fields[index].add($0, at: tag) } ?? false
        case .union: return
        }
        let after = fields.value(at: index)
        if isDone || !after.isSame(as: before) { ruling.hasEffect = true }
        if !isDone { ruling.kind = .merged }
        if !after.isSame(as: field.new) { ruling.isAsSent = false }
    }

    /// A union, without a look at what the set holds besides.
    private mutating func unite(
        _ field: IncomingChange.Field, at index: Int, _ tag: WriteTag, into ruling: inout RecordRuling
    ) {
        guard let difference = SetDifference(old: field.old, new: field.new) else { return }
        let isNothing = difference.added.isEmpty && difference.removed.isEmpty
        let replaced = isNothing ? .none : fields[index].inTheWayOfUnions
        let shows = fields[index].shows(tag)
        if fields[index].put(in: difference.added, out: difference.removed, at: tag) {
            if let replaced { ruling.overwrote.append((field.name, replaced)) }
        } else {
            ruling.kind = .merged
        }
        // One element may have won where another has lost.
        if isNothing || shows { ruling.hasEffect = true }
        if !fields[index].isSame(as: field.new) { ruling.isAsSent = false }
    }

    // MARK: - Delete

    private mutating func delete(_ change: IncomingChange) -> RecordRuling {
        let wasThere = exists && !isDead
        deleted = deleted.latest(change.tag)
        var isOther = false
        if change.tag.isEarlier(than: firstDeleted) {
            let began = reset
            firstDeleted = change.tag
            if reset != began {
                let before = fields.map(\.value)
                setFloors()
                isOther = zip(before, fields).contains { !$0.isSame(as: $1.value) }
            }
        }
        guard wasThere else { return RecordRuling(.applied, hasEffect: false, isNothing: !isOther) }
        guard isDead else { return RecordRuling(.merged, hasEffect: isOther) }
        return RecordRuling(.applied, hasEffect: true, isAsSent: true)
    }

    // MARK: - Fields

    /// The place of the field, which is made if it is not there.
    private mutating func slot(for name: String) -> Int {
        let (index, isFound) = fields.place(of: name)
        if isFound {
            fields.make(index)
        } else {
            var field = FieldState(name: name)
            field.setFloor(namedBelow.contains(name) ? nil : reset)
            fields.insert(field, at: index)
        }
        return index
    }
}
