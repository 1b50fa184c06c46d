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
    /// What readers see.
    private(set) var value: FieldValue

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
        value = plain
        if sums != nil || elements != nil || floor != nil { value = evaluated() }
    }

    /// A field with one plain write.
    init(name: String, written value: FieldValue, at tag: WriteTag?) {
        self.name = name
        plain = value
        plainTag = tag
        sums = nil
        elements = nil
        floor = nil
        self.value = value
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

    /// A plain write. `false` if a later one stands, or sums and elements after it make another value of it.
    mutating func write(_ new: FieldValue, at tag: WriteTag) -> Bool {
        guard plainTag.isBefore(tag) else { return false }
        plain = new
        plainTag = tag
        if sums == nil, elements == nil, floor == nil {
            value = new
            return true
        }
        sums = sums?.dropping(upTo: tag)
        elements = elements?.dropping(upTo: tag)
        value = evaluated()
        return value.isSame(as: new)
    }

    /// A plain write of the value that is there. Where sums or elements made it, it stays theirs.
    mutating func confirm(at tag: WriteTag) {
        guard visibleSums == nil, visibleElements == nil, plainTag.isBefore(tag) else { return }
        _ = write(value, at: tag)
    }

    /// A write over whatever stands (`check`): it takes the last place, whatever its own.
    mutating func overwrite(_ new: FieldValue, at tag: WriteTag) {
        plainTag = tag.later(than: greatest).later(than: floor)
        plain = new
        sums = nil
        elements = nil
        value = new
    }

    /// Adds a difference. `false` if a plain write after it stands.
    mutating func add(_ difference: Number, at tag: WriteTag) -> Bool {
        guard plainTag.isBefore(tag) else { return false }
        var log = sums ?? SumLog()
        log.insert(difference, at: tag)
        sums = log
        value = evaluated()
        return floor.isBefore(tag)
    }

    /// Puts elements in and takes others out. `false` if for one of them a later write stands.
    mutating func put(in added: [FieldValue], out removed: [FieldValue], at tag: WriteTag) -> Bool {
        guard !added.isEmpty || !removed.isEmpty else { return true }
        guard plainTag.isBefore(tag) else { return false }
        var log = elements ?? ElementLog()
        var isDone = floor.isBefore(tag)
        for (index, element) in added.enumerated() {
            if !log.note(element, isPresent: true, at: tag, index: index) { isDone = false }
        }
        for element in removed {
            if !log.note(element, isPresent: false, at: tag, index: 0) { isDone = false }
        }
        dropFromPlain(log.forgetOldest())
        elements = log
        value = evaluated()
        return isDone
    }

    /// What was taken out stays out when the taking out is forgotten.
    private mutating func dropFromPlain(_ forgotten: [FieldValue]) {
        guard !forgotten.isEmpty, case .array(let held) = plain else { return }
        let gone = Set(forgotten.map(SetElement.init))
        plain = .array(held.filter { !gone.contains(SetElement($0)) })
    }

    /// Hides what is below a place, or shows it again.
    mutating func setFloor(_ new: WriteTag?) {
        guard floor != new else { return }
        floor = new
        value = evaluated()
    }

    private var visibleSums: SumLog? { floor.map { sums?.dropping(upTo: $0) } ?? sums }
    private var visibleElements: ElementLog? { floor.map { elements?.dropping(upTo: $0) } ?? elements }

    /// Whether a sum can be added to what stands: nothing, null or a number.
    var takesSums: Bool { value.isNull || Number(value) != nil }

    /// What the value would be with one more sum, to refuse what 64 bits cannot hold.
    func exceedsRange(adding difference: Number) -> Bool {
        guard case .int(let now) = value, case .int(let more) = difference else { return false }
        return now.addingReportingOverflow(more).overflow
    }

    private func evaluated() -> FieldValue {
        let base = isHidden ? .null : plain
        if let sums = visibleSums { return sums.applied(to: base) }
        if let elements = visibleElements { return elements.applied(to: base) }
        return base
    }
}

extension WriteTag {
    /// This place, or the other if that is later.
    func later(than other: WriteTag?) -> WriteTag { other.map { Swift.max(self, $0) } ?? self }
}
