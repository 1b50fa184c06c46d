internal import SyncCore

/// The records that a request touches, and what it makes of them: parents, roots, versions.
///
/// A unit may be undone: what it touched is kept as it was before. It hands out versions in the order in which records
/// change, a parent before what is under it. Only its own files write to it.
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
    let protected: [String]
    var entries: [Entry] = []
    private var places: [RecordKey: Int] = [:]
    /// The record that was found last by its name.
    private var last: (key: RecordKey, place: Int)?
    var childrenAdded: [Int: Set<Int>] = [:]
    /// The highest version handed out.
    var head: Int64
    var leavings: [Leaving] = []
    /// By their places, records that a verdict tells of to who may not have heard of all that they left: up to which version
    /// it has.
    var heard: [Int: Int64] = [:]
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
    var followed = 0
    var mostFollowed = Int.max

    /// How many records the request had looked at.
    var looks: Int { entries.count + followed }

    /// What the unit in progress must leave behind if it is undone; `nil` outside of units.
    var before: BeforeUnit?
    let limits: RecordLimits

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

    mutating func add(_ key: RecordKey, _ entity: EntityRules, row: Int64) -> Int {
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
    struct BeforeUnit {
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
    var unit: Int64 { before.map { $0.head + 1 } ?? 0 }

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
    mutating func keep(_ place: Int) {
        if before != nil { keepForUnit(place) }
    }

    @inline(never)
    private mutating func keepForUnit(_ place: Int) {
        // Nothing of it is bound to a name: what is held twice would be copied to be changed.
        guard let count = before?.entries, place < count, before?.changed[place] == nil else { return }
        before?.changed[place] = entries[place]
    }

    mutating func touch(root: Int64) {
        if touchedRoots.insert(root).inserted { before?.touchedRoots.append(root) }
    }
}
