internal import SyncCore

/// All that is known of one field: the last plain write, and what came after it by rule.
///
/// What is kept does not depend on the order of arrival: a plain write drops the sums and the elements before it, and
/// they are not taken up when they come later. The floor, the place of a create that began the record anew and did not
/// name the field, hides what is below it, and drops nothing: a later create may raise it, or name the field after all.
struct FieldState: Sendable, Hashable {
    let name: String
    /// The value of the last plain write; null where there was none.
    private(set) var plain: FieldValue
    /// Its place; `nil` where there was none.
    private(set) var plainTag: WriteTag?
    /// What was added since.
    private(set) var sums: SumLog?
    /// What was put in and taken out since.
    private(set) var elements: ElementLog?
    /// A write of null that the record's create made; what is below does not show.
    private(set) var floor: WriteTag?
    /// What readers see, where it was worked out: of a set of many elements that takes long, and of many changes of it the
    /// last one alone is shown to anybody.
    private var known: FieldValue?
    /// How many distinct elements the plain write holds, once they were counted.
    private var plainCount: Int?

    /// What readers see.
    var value: FieldValue { known ?? evaluated() }

    /// A field that was never written.
    init(name: String) {
        self.init(name: name, plain: .null, plainTag: nil, sums: nil, elements: nil)
    }

    /// A field as it was kept.
    init(
        name: String, plain: FieldValue, plainTag: WriteTag?, sums: SumLog?, elements: ElementLog?,
        floor: WriteTag? = nil
    ) {
        self.name = name
        self.plain = plain
        self.plainTag = plainTag
        self.sums = sums
        self.elements = elements
        self.floor = floor
        if sums == nil, elements == nil, floor == nil { known = plain }
        countPlain()
    }

    /// A field with one plain write.
    init(name: String, written value: FieldValue, at tag: WriteTag?) {
        self.name = name
        plain = value
        plainTag = tag
        sums = nil
        elements = nil
        floor = nil
        known = value
    }

    /// The place of the last write of any kind that counts.
    var greatest: WriteTag? {
        guard sums != nil || elements != nil else { return plainTag }
        return plainTag.latest(sums?.greatest).latest(elements?.greatest)
    }

    /// The stamp of that.
    var highestStamp: Stamp {
        (sums == nil && elements == nil ? plainTag?.stamp : greatest?.stamp) ?? .zero
    }

    /// Whether the value follows from the plain write alone.
    var isPlain: Bool { sums == nil && elements == nil && !isHidden }

    /// Whether the floor is above the plain write.
    private var isHidden: Bool { floor.map { plainTag.isBefore($0) } ?? false }

    /// A plain write. `false` if a later one stands, be it the null of a create, or sums and elements after it make another value of it.
    mutating func write(_ new: FieldValue, at tag: WriteTag) -> Bool {
        guard plainTag.isBefore(tag) else { return false }
        plain = new
        plainTag = tag
        plainCount = nil
        if sums == nil, elements == nil, floor == nil {
            known = new
            return true
        }
        sums = sums?.dropping(upTo: tag)
        elements = elements?.dropping(upTo: tag)
        countPlain()
        known = evaluated()
        return !isHidden && isSame(as: new)
    }

    /// A plain write of the value that is there. Where sums or elements made it, it stays theirs.
    mutating func confirm(at tag: WriteTag) {
        guard visibleSums == nil, !hasVisibleElements, plainTag.isBefore(tag) else { return }
        _ = write(value, at: tag)
    }

    /// A write over whatever stands (`check`): it takes the last place, whatever its own.
    mutating func overwrite(_ new: FieldValue, at tag: WriteTag) {
        plainTag = tag.later(than: greatest).later(than: floor)
        plain = new
        plainCount = nil
        sums = nil
        elements = nil
        known = new
    }

    /// Adds a difference. `false` if a plain write after it stands.
    mutating func add(_ difference: Number, at tag: WriteTag) -> Bool {
        guard plainTag.isBefore(tag) else { return false }
        var log = sums ?? SumLog()
        log.insert(difference, at: tag)
        sums = log
        known = hasVisibleElements ? known : evaluated()
        return floor.isBefore(tag)
    }

    /// Puts elements in and takes others out, in a time that follows from how many it names. `false` if for one of them a
    /// later write stands.
    mutating func put(in added: [FieldValue], out removed: [FieldValue], at tag: WriteTag) -> Bool {
        guard !added.isEmpty || !removed.isEmpty else { return true }
        guard plainTag.isBefore(tag) else { return false }
        var log = elements ?? ElementLog()
        // What is held twice would be copied to be changed.
        elements = nil
        known = .none
        var isDone = floor.isBefore(tag)
        for (index, element) in added.enumerated() {
            if !log.note(element, isPresent: true, at: tag, index: index) { isDone = false }
        }
        for element in removed {
            if !log.note(element, isPresent: false, at: tag, index: 0) { isDone = false }
        }
        dropFromPlain(log.forgetOldest())
        elements = log
        countPlain()
        return isDone
    }

    /// Sees to it that what a set holds at least is known without working it out.
    private mutating func countPlain() {
        guard elements != nil, plainCount == nil, case .array(let held) = plain else { return }
        plainCount = Set(held.map(SetElement.init)).count
    }

    /// What a union replaces, since it is neither a set nor nothing.
    var inTheWayOfUnions: FieldValue? {
        guard !hasVisibleElements else { return .none }
        switch value {
        case .null, .array: return .none
        case let other: return other
        }
    }

    /// What was taken out stays out when the taking out is forgotten.
    private mutating func dropFromPlain(_ forgotten: [FieldValue]) {
        guard !forgotten.isEmpty, case .array(let held) = plain else { return }
        let gone = Set(forgotten.map(SetElement.init))
        plain = .array(held.filter { !gone.contains(SetElement($0)) })
        plainCount = nil
    }

    /// Hides what is below a place, or shows it again.
    mutating func setFloor(_ new: WriteTag?) {
        guard floor != new else { return }
        floor = new
        known = .none
        countPlain()
    }

    // MARK: - What readers see

    /// Whether it is nothing; a set is not, so none is worked out for this.
    var isNull: Bool { !isKnown && hasVisibleElements ? false : value.isNull }

    /// Whether it is this value. A set is worked out only where the other one is as large as it must be.
    func isSame(as other: FieldValue) -> Bool {
        if !isKnown, hasVisibleElements {
            guard case .array(let elements) = other, elements.count >= leastElements else { return false }
        }
        return value.isSame(as: other)
    }

    /// How many elements must be gone through to work the value out.
    var elementCount: Int {
        guard let elements else { return 0 }
        guard case .array(let held) = plain else { return elements.entries.count }
        return elements.entries.count + held.count
    }

    /// Not by a comparison with `nil`, which is a value, too.
    private var isKnown: Bool {
        switch known {
        case .some: true
        case .none: false
        }
    }

    private var leastElements: Int {
        guard let elements else { return 0 }
        return max(elements.present(above: floor), isHidden ? 0 : (plainCount ?? 0) - elements.absent)
    }

    /// Whether elements make the value, whatever else there is.
    private var hasVisibleElements: Bool {
        guard let greatest = elements?.greatest else { return false }
        return floor.isBefore(greatest)
    }

    private var visibleSums: SumLog? { floor.map { sums?.dropping(upTo: $0) } ?? sums }
    private var visibleElements: ElementLog? { floor.map { elements?.dropping(upTo: $0) } ?? elements }

    /// Whether a sum can be added to what stands: nothing, null or a number.
    var takesSums: Bool {
        guard !hasVisibleElements else { return false }
        let value = value
        return value.isNull || Number(value) != nil
    }

    /// Whether a write of it in that place would show, if no other of the same kind stood above it.
    func shows(_ tag: WriteTag) -> Bool { plainTag.isBefore(tag) && floor.isBefore(tag) }

    /// Whether one more sum takes the value beyond 64 bits.
    func exceedsRange(adding difference: Number, at tag: WriteTag) -> Bool {
        guard case .int(let more) = difference, shows(tag) else { return false }
        let base = isHidden ? .null : plain
        guard case .int(let now) = (visibleSums ?? SumLog()).total(from: base) else { return false }
        return more > 0 ? now + more > Int128(Int64.max) : now + more < Int128(Int64.min)
    }

    private func evaluated() -> FieldValue {
        let base = isHidden ? .null : plain
        if hasVisibleElements, let elements = visibleElements {
            var isDistinct = false
            if case .array(let held) = plain { isDistinct = plainCount == held.count }
            return elements.applied(to: base, isDistinct: isDistinct)
        }
        if let sums = visibleSums { return sums.applied(to: base) }
        return base
    }
}

extension FieldState {
    /// What is kept is the same; the value follows from that.
    static func == (a: FieldState, b: FieldState) -> Bool {
        a.name == b.name && a.plain == b.plain && a.plainTag == b.plainTag && a.sums == b.sums
            && a.elements == b.elements
            && a.floor == b.floor
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(name)
        hasher.combine(plain)
        hasher.combine(plainTag)
        hasher.combine(sums)
        hasher.combine(elements)
        hasher.combine(floor)
    }
}

extension WriteTag {
    /// This place, or the other if that is later.
    func later(than other: WriteTag?) -> WriteTag { other.map { Swift.max(self, $0) } ?? self }
}
