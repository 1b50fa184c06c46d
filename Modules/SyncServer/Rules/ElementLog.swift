internal import SyncCore

/// What was put into and taken out of a set since the field's last plain write: for each element its last writer.
struct ElementLog: Sendable, Hashable {
    /// One element's story.
    struct Entry: Sendable, Hashable {
        var element: FieldValue
        var isPresent: Bool
        /// The place of the last putting in or taking out.
        var tag: WriteTag
        /// Every putting in, in order: the first gives the element its place in the array.
        var puts: [Put]
    }

    /// One putting in, and which of those put in by the same write it was.
    struct Put: Sendable, Hashable, Comparable {
        var tag: WriteTag
        var index: Int

        static func < (a: Put, b: Put) -> Bool { a.tag == b.tag ? a.index < b.index : a.tag < b.tag }
    }

    /// How many puttings in of one element stand one by one; of more, the newest are forgotten (they give no place).
    static let keptPuts = 64

    /// How many elements stand in the log before those taken out longest ago are forgotten.
    static let kept = 4_096

    private(set) var entries: [Entry] = []
    /// Where each element stands in `entries`.
    private var places: [SetElement: Int] = [:]
    /// How many of them are taken out.
    private(set) var absent = 0
    /// The place of the last of them.
    private(set) var greatest: WriteTag?

    init(entries: [Entry] = []) {
        self.entries = entries
        absent = entries.count { !$0.isPresent }
        greatest = entries.lazy.map(\.tag).max()
        for (index, entry) in entries.enumerated() { places[SetElement(entry.element)] = index }
    }

    /// How many elements are put in above a place; above none, all.
    func present(above floor: WriteTag?) -> Int {
        floor.map { floor in entries.count { $0.isPresent && floor < $0.tag } } ?? entries.count - absent
    }

    /// Takes note of one putting in or taking out; `false` if a later one of the same element stands.
    mutating func note(_ element: FieldValue, isPresent: Bool, at tag: WriteTag, index: Int) -> Bool {
        greatest = greatest.latest(tag)
        guard let place = places[SetElement(element)] else {
            places[SetElement(element)] = entries.count
            let puts = isPresent ? [Put(tag: tag, index: index)] : []
            entries.append(Entry(element: element, isPresent: isPresent, tag: tag, puts: puts))
            if !isPresent { absent += 1 }
            return true
        }
        if isPresent { entries[place].remember(Put(tag: tag, index: index)) }
        guard entries[place].tag < tag else { return false }
        entries[place].tag = tag
        if entries[place].isPresent != isPresent { absent += isPresent ? -1 : 1 }
        entries[place].isPresent = isPresent
        return true
    }

    /// Forgets those that were taken out longest ago, if there are too many, and tells which: the plain write must not hold
    /// one that nothing takes out of it any more.
    mutating func forgetOldest() -> [FieldValue] {
        // Counted, not looked for: a set of many elements that are all there grows by one without a look at the others.
        guard entries.count > Self.kept, absent >= Self.kept / 2 else { return [] }
        let absent = entries.filter { !$0.isPresent }.map(\.tag).sorted()
        let limit = absent[absent.count / 2]
        let forgotten = entries.filter { !$0.isPresent && $0.tag <= limit }.map(\.element)
        self = ElementLog(entries: entries.filter { $0.isPresent || $0.tag > limit })
        return forgotten
    }

    /// What comes after a plain write; `nil` if nothing does.
    func dropping(upTo tag: WriteTag) -> ElementLog? {
        let rest = entries.filter { $0.tag > tag }.map { entry in
            var entry = entry
            entry.puts.removeAll { $0.tag <= tag }
            return entry
        }
        return rest.isEmpty ? nil : ElementLog(entries: rest)
    }

    /// The array: what the plain write holds, then what was put in since, in order of first putting in.
    ///
    /// - Parameter isDistinct: Whether it is known that the plain write holds nothing twice.
    func applied(to plain: FieldValue, isDistinct: Bool) -> FieldValue {
        var array: [FieldValue] = []
        var isHeld = [Bool](repeating: false, count: entries.count)
        var seen: Set<SetElement> = []
        if case .array(let elements) = plain {
            array.reserveCapacity(elements.count + entries.count)
            for element in elements {
                let key = SetElement(element)
                if let place = places[key] {
                    if entries[place].isPresent, !isHeld[place] { array.append(element) }
                    isHeld[place] = true
                } else if isDistinct || seen.insert(key).inserted {
                    array.append(element)
                }
            }
        }
        let added = entries.indices.filter { entries[$0].isPresent && !isHeld[$0] }
        array += added.sorted { entries[$0].first < entries[$1].first }.map { entries[$0].element }
        return .array(array)
    }
}

extension ElementLog.Entry {
    /// Where it was first put in.
    var first: ElementLog.Put { puts.first ?? ElementLog.Put(tag: tag, index: 0) }

    mutating func remember(_ put: ElementLog.Put) {
        let place = puts.firstIndex { put < $0 } ?? puts.count
        puts.insert(put, at: place)
        if puts.count > ElementLog.keptPuts { puts.removeLast() }
    }
}

/// The difference of two sets, as a `union` field tells it.
struct SetDifference {
    var added: [FieldValue]
    var removed: [FieldValue]

    /// `nil` if one is not an array of distinct scalars; null and absent count as the empty one.
    init?(old: FieldValue?, new: FieldValue) {
        guard let before = Self.elements(of: old ?? .null), let after = Self.elements(of: new) else { return nil }
        let beforeSet = Set(before.map(SetElement.init))
        let afterSet = Set(after.map(SetElement.init))
        guard beforeSet.count == before.count, afterSet.count == after.count else { return nil }
        added = after.filter { !beforeSet.contains(SetElement($0)) }
        removed = before.filter { !afterSet.contains(SetElement($0)) }
    }

    private static func elements(of value: FieldValue) -> [FieldValue]? {
        switch value {
        case .null: return []
        case .array(let elements):
            let isScalar = elements.allSatisfy { element in
                switch element {
                case .array, .object: false
                default: true
                }
            }
            return isScalar ? elements : nil
        default: return nil
        }
    }
}
