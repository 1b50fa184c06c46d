internal import SyncCore

/// The records that a request touches, and what it makes of them: parents, roots, versions.
///
/// A unit may be undone: what it touched is kept as it was before. It hands out versions in the order in which records
/// change, a parent before what is under it.
struct Ledger: Sendable {
    /// One record of the request.
    struct Entry: Sendable {
        let key: RecordKey
        let row: Int64
        let entity: EntityRules
        var state: RecordState
        var version: Int64
        let versionBefore: Int64
        /// As readers see it.
        var isDead: Bool
        /// Places in the ledger.
        var parents: [Int] = []
        /// Whether each reference that it has is one of these, and no other record could become one.
        var hasAllParents = false
        /// The root's row.
        var root: Int64
        /// The root's and the parents' rows as they are kept.
        var keptRoot: Int64?
        var keptParents: [Int64] = []
        var isKept: Bool
        var isTouched = false
        var hasActivity = false
        /// Whether the device knows the result already, so that the page may leave it out.
        var isEcho = true
        /// The first version of the unit that gave it its version; 0 outside of units.
        var unit: Int64 = 0
        /// At least as many bytes as it takes in the store.
        var size = 0

        /// Whether nothing of it is written but that something below it changed.
        var hasActivityAlone: Bool { hasActivity && entity.tracksActivity && isKept && !isTouched }
    }

    /// That a record left a root's scope.
    struct Leaving: Sendable, Hashable {
        var root: Int64
        var row: Int64
        var version: Int64
    }

    let rules: [String: EntityRules]
    /// A few, quicker gone through than hashed.
    private let protected: [String]
    private(set) var entries: [Entry] = []
    private var places: [RecordKey: Int] = [:]
    /// The record that was found last by its name.
    private var last: (key: RecordKey, place: Int)?
    private var childrenAdded: [Int: Set<Int>] = [:]
    /// The highest version handed out.
    private(set) var head: Int64
    private(set) var leavings: [Leaving] = []
    /// By their places, records that a verdict tells of to who may not have heard of all that they left: up to which version
    /// it has.
    private(set) var heard: [Int: Int64] = [:]
    /// Rows of roots with a record of a new version, or one that left.
    private(set) var touchedRoots: Set<Int64> = []

    /// The roots asked for, and the lowest of their checkpoints; `nil` where nobody asks for what left any.
    var asked: Asked?

    /// Where what left is told.
    struct Asked: Sendable {
        /// `board:8f2e…`
        var scopes: Set<String>
        var checkpoint: Int64
    }

    /// How many records under changed ones were looked at, each as often as it was, and how often that may be: of more the
    /// request is refused as a whole.
    private(set) var followed = 0
    var mostFollowed = Int.max

    /// How many records the request had looked at.
    var looks: Int { entries.count + followed }

    /// What the unit in progress must leave behind if it is undone; `nil` outside of units.
    private var before: BeforeUnit?
    private let limits: RecordLimits

    init(
        rules: [String: EntityRules], protectedFields: Set<String>, head: Int64, limits: RecordLimits = RecordLimits()
    ) {
        self.rules = rules
        self.limits = limits
        protected = protectedFields.sorted()
        self.head = head
    }

    /// Makes room for so many records and what is above them.
    mutating func reserve(_ count: Int) {
        entries.reserveCapacity(count + 16)
        places.reserveCapacity(count + 16)
    }

    // MARK: - Records

    /// The place of a record, read if need be; `nil` if nothing is known of it.
    ///
    /// What is above it is read with it, in a loop: a chain of records that refer to each other may be deeper than a stack.
    mutating func find(_ key: RecordKey, in source: some RecordSource) throws -> Int? {
        if let place = place(of: key) { return place }
        guard let place = try read(key, in: source) else { return nil }
        var open: [Int] = []
        var next: Int? = place
        while let present = next {
            try findParents(of: present, in: source, &open)
            next = open.popLast()
        }
        return place
    }

    /// Notes the parents that a record was kept with; those that were not known before are open.
    private mutating func findParents(of place: Int, in source: some RecordSource, _ open: inout [Int]) throws {
        var found: [Int] = []
        var references = 0
        for parent in entries[place].entity.parents {
            guard case .string(let id) = entries[place].state.value(of: parent.field) else { continue }
            references += 1
            let key = RecordKey(parent.entity, id)
            var above = self.place(of: key)
            if above == nil {
                above = try read(key, in: source)
                if let above { open.append(above) }
            }
            if let above, !found.contains(above) { found.append(above) }
        }
        entries[place].hasAllParents = found.count == references
        entries[place].keptParents = found.map { entries[$0].row }
        entries[place].parents = found
    }

    /// The place of a record that was asked for before.
    private mutating func place(of key: RecordKey) -> Int? {
        // The records of a request stand under few parents: the last one is asked for again and again.
        if let last, last.key == key { return last.place }
        guard let place = places[key] else { return nil }
        last = (key, place)
        return place
    }

    /// Reads a record that has no place yet; its parents are the caller's to find.
    private mutating func read(_ key: RecordKey, in source: some RecordSource) throws -> Int? {
        guard let entity = rules[key.entity], let stored = try source.record(key) else { return nil }
        let place = entries.count
        entries.append(
            Entry(
                key: key, row: stored.row, entity: entity, state: stored.state, version: stored.version,
                versionBefore: stored.version, isDead: stored.isDead, root: stored.root, keptRoot: stored.root,
                isKept: true, size: stored.size))
        places[key] = place
        return place
    }

    private mutating func add(_ key: RecordKey, _ entity: EntityRules, row: Int64) -> Int {
        let place = entries.count
        entries.append(
            Entry(
                key: key, row: row, entity: entity, state: RecordState(), version: 0, versionBefore: 0,
                isDead: false, root: row, isKept: false))
        places[key] = place
        return place
    }

    /// What readers are told of the record at a place.
    func view(_ place: Int) -> RecordView {
        let entry = entries[place]
        return RecordView(
            key: entry.key, version: entry.version, isDead: entry.isDead,
            fields: entry.isDead ? [] : entry.state.fields.map { ($0.name, $0.value) },
            highestStamp: entry.state.highestStamp)
    }

    // MARK: - Units

    /// The ledger before a unit, as far as the unit has changed it.
    private struct BeforeUnit {
        let head: Int64
        let entries: Int
        let leavings: Int
        /// Entries that were there, as they were.
        var changed: [Int: Entry] = [:]
        var childrenAdded: [(parent: Int, child: Int)] = []
        var touchedRoots: [Int64] = []
        /// What was noted of places, each time as it was before.
        var heard: [(place: Int, version: Int64?)] = []
    }

    /// The first version that the unit in progress gives; 0 outside of units.
    private var unit: Int64 { before.map { $0.head + 1 } ?? 0 }

    /// What is changed from here on may be undone.
    mutating func beginUnit() {
        before = BeforeUnit(head: head, entries: entries.count, leavings: leavings.count)
    }

    /// All of the unit stands.
    mutating func endUnit() { before = nil }

    /// Nothing of the unit has happened; what it looked at counts all the same.
    mutating func undoUnit() {
        guard let unit = before else { return }
        before = nil
        for (parent, child) in unit.childrenAdded { childrenAdded[parent]?.remove(child) }  // any order
        for entry in entries[unit.entries...] { places[entry.key] = nil }
        entries.removeSubrange(unit.entries...)
        for (place, entry) in unit.changed { entries[place] = entry }  // any order
        leavings.removeSubrange(unit.leavings...)
        for (place, version) in unit.heard.reversed() { heard[place] = version }
        touchedRoots.subtract(unit.touchedRoots)
        head = unit.head
        last = nil
    }

    /// Notes an entry that is about to change, if a unit may have to undo that.
    @inline(__always)
    private mutating func keep(_ place: Int) {
        if before != nil { keepForUnit(place) }
    }

    @inline(never)
    private mutating func keepForUnit(_ place: Int) {
        // Nothing of it is bound to a name: what is held twice would be copied to be changed.
        guard let count = before?.entries, place < count, before?.changed[place] == nil else { return }
        before?.changed[place] = entries[place]
    }

    private mutating func touch(root: Int64) {
        if touchedRoots.insert(root).inserted { before?.touchedRoots.append(root) }
    }

    // MARK: - Deciding

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
            isKnown && ruling.isAsSent && ruling.kind == .applied && ruling.overwrote.isEmpty && !before.wasDeadItself
            && !before.isDead && entries[place].isDead == (change.operation == .delete)
            && (before.root == entries[place].root || before.version == 0)
    }

    // MARK: - Consequences

    /// Whether a change leaves a record under the very parents that it had, so that nobody need look for them: an update that
    /// names no reference, of a record of which each reference was found.
    private func keepsParents(_ change: IncomingChange, _ entity: EntityRules, _ place: Int) -> Bool {
        guard change.operation == .update, entries[place].hasAllParents else { return false }
        return !change.fields.contains { field in entity.parents.contains { $0.field == field.name } }
    }

    /// Brings parents, root and death of a changed record up to date, gives versions to it and to what goes with it.
    private mutating func follow(
        _ place: Int, _ ruling: RecordRuling, keepsParents: Bool, in source: some RecordSource
    ) throws {
        let oldParents = entries[place].parents
        let oldRoot = entries[place].root
        let wasDead = entries[place].isDead
        if !keepsParents {
            let newParents = try parents(of: place, in: source)
            entries[place].parents = newParents
            for parent in newParents where !oldParents.contains(parent) {
                let isNew = childrenAdded[parent, default: []].insert(place).inserted
                if isNew { before?.childrenAdded.append((parent, place)) }
            }
        }
        let root = entries[root(of: place)].row
        let isDead = isDead(place)
        let isNew = entries[place].version == 0
        let isMoved = root != oldRoot && !isNew
        // A change that readers cannot see (an edit of a dead record) is kept without a version.
        let isSeen = isNew || isMoved || isDead != wasDead || (ruling.hasEffect && !isDead)
        guard isSeen || ruling.hasEffect else { return }
        entries[place].root = root
        entries[place].isDead = isDead
        noteActivity(place, and: oldParents)
        guard isSeen else { return }
        giveVersion(place, leaving: isMoved ? oldRoot : nil)
        if isMoved || isDead != wasDead { try cascade(from: place, in: source) }
    }

    /// Everything under a record that died, lives again or moved: what that makes another gets a new version.
    private mutating func cascade(from place: Int, in source: some RecordSource) throws {
        var queue = [place]
        var next = 0
        var seen: Set<Int> = [place]
        while next < queue.count {
            for child in try children(of: queue[next], in: source) where seen.insert(child).inserted {
                followed += 1
                guard followed <= mostFollowed else { throw Problem.tooMuchFollows(mostFollowed) }
                let oldRoot = entries[child].root
                let root = entries[root(of: child)].row
                let isDead = isDead(child)
                guard root != oldRoot || isDead != entries[child].isDead else { continue }
                keep(child)
                entries[child].root = root
                entries[child].isDead = isDead
                entries[child].isTouched = true
                entries[child].isEcho = false
                noteActivity(child, and: [])
                if entries[child].version > 0 { giveVersion(child, leaving: root != oldRoot ? oldRoot : nil) }
                queue.append(child)
            }
            next += 1
        }
    }

    private mutating func children(of place: Int, in source: some RecordSource) throws -> [Int] {
        var found = childrenAdded[place] ?? []
        if entries[place].isKept {
            for key in try source.children(of: entries[place].row) {
                if let child = try find(key, in: source) { found.insert(child) }
            }
        }
        return found.filter { entries[$0].parents.contains(place) }.sorted { entries[$0].row < entries[$1].row }
    }

    private mutating func giveVersion(_ place: Int, leaving oldRoot: Int64?) {
        head += 1
        entries[place].version = head
        entries[place].unit = unit
        touch(root: entries[place].root)
        if let oldRoot {
            touch(root: oldRoot)
            leavings.append(Leaving(root: oldRoot, row: entries[place].row, version: head))
        }
    }

    /// The newest commit of a record is the newest of everything above it; a move touches both parents.
    ///
    /// Above a record that is noted all are noted: whoever gets another parent passes here again.
    private mutating func noteActivity(_ place: Int, and oldParents: [Int]) {
        if !entries[place].hasActivity {
            keep(place)
            entries[place].hasActivity = true
        }
        // Nearly every record of a request stands under one that was noted for another.
        let isNoted =
            oldParents.allSatisfy { entries[$0].hasActivity }
            && entries[place].parents.allSatisfy { entries[$0].hasActivity }
        if isNoted { return }
        var stack = oldParents + entries[place].parents
        while let above = stack.popLast() {
            guard !entries[above].hasActivity else { continue }
            keep(above)
            entries[above].hasActivity = true
            stack += entries[above].parents
        }
    }

    // MARK: - The tree

    /// The places of the records that the declared references name.
    private mutating func parents(of place: Int, in source: some RecordSource) throws -> [Int] {
        var found: [Int] = []
        var references = 0
        for parent in entries[place].entity.parents {
            guard case .string(let id) = entries[place].state.value(of: parent.field) else { continue }
            references += 1
            if let above = try find(RecordKey(parent.entity, id), in: source), !found.contains(above) {
                found.append(above)
            }
        }
        entries[place].hasAllParents = found.count == references
        return found
    }

    /// The record above all others, by the first reference of each; in a circle the first by name.
    private func root(of place: Int) -> Int {
        var above = place
        // Whoever goes further than there are records goes round.
        for _ in entries.indices {
            guard let next = entries[above].parents.first else { return above }
            above = next
        }
        var first = above
        var next = entries[above].parents.first
        while let present = next, present != above {
            if entries[present].key < entries[first].key { first = present }
            next = entries[present].parents.first
        }
        return first
    }

    /// Whether a record, or one above it, is dead by its own writes.
    private func isDead(_ place: Int) -> Bool {
        if entries[place].state.isDead { return true }
        // Nearly every record has one parent or none, and no circle above it.
        var above = place
        for _ in 0..<8 {
            let parents = entries[above].parents
            guard let parent = parents.first else { return false }
            guard parents.count == 1 else { break }
            if entries[parent].state.isDead { return true }
            above = parent
        }
        var queue = entries[place].parents
        var seen = Set(queue)
        while let above = queue.popLast() {
            if entries[above].state.isDead { return true }
            for parent in entries[above].parents where seen.insert(parent).inserted { queue.append(parent) }
        }
        return false
    }
}
