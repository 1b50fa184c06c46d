/// How deltas are composed, replayed and merged; a pure calculation, called once for a page, never inside a transaction.
///
/// Asked for by Storage, UploadQueue and the Orchestrator, given by DeltaCalculator; ``LastWriterDeltas`` is a plain default.
public protocol DeltaCalculation: Sendable {
    /// One delta of one field in place of two in a row.
    func compose(_ first: FieldDelta, _ second: FieldDelta) -> FieldDelta
    /// The value that a device shows for a field whose base became `base` while `delta` is unsent.
    func rebase(_ delta: FieldDelta, onto base: FieldValue) -> FieldValue
    /// What a successor says after a `conflict`, over the record that came with it; `nil` if nothing is left to say.
    /// - Parameter conflicts: how many conflicts in a row there were before; from the fifth on it goes without `check`.
    func successor(of change: Change, over record: ServerRecord, conflicts: Int) -> [String: FieldDelta]?
}

/// The plain default: the local value stays, whatever the base; a sum is added, a union put in and taken out.
public struct LastWriterDeltas: DeltaCalculation {
    public init() {}

    public func compose(_ first: FieldDelta, _ second: FieldDelta) -> FieldDelta {
        FieldDelta(old: first.old, new: second.new, rule: second.rule, stamp: second.stamp)
    }

    public func rebase(_ delta: FieldDelta, onto base: FieldValue) -> FieldValue {
        switch delta.rule {
        case .lastWriter, .check: delta.new
        case .sum: Self.sum(delta, onto: base) ?? delta.new
        case .union: Self.union(delta, onto: base) ?? delta.new
        }
    }

    public func successor(of change: Change, over record: ServerRecord, conflicts: Int) -> [String: FieldDelta]? {
        var deltas = change.fields
        for name in change.fields.keys {
            guard let delta = change.fields[name] else { continue }
            let present = record.fields[name] ?? .null
            var next = delta
            next.old = present
            next.new = rebase(delta, onto: present)
            if delta.rule == .check, conflicts >= 4 { next.rule = .lastWriter }
            deltas[name] = next
        }
        return deltas.values.allSatisfy { $0.new.isSame(as: $0.old ?? .null) } ? nil : deltas
    }

    /// `base` + `new` − `old`; whole numbers stay whole, no value counts as the whole number 0; `nil` where one is no number
    /// or the sum passes 64 bits.
    private static func sum(_ delta: FieldDelta, onto base: FieldValue) -> FieldValue? {
        switch (base.orZero, (delta.old ?? .null).orZero, delta.new.orZero) {
        case (.int(let a), .int(let b), .int(let c)):
            let (difference, o1) = c.subtractingReportingOverflow(b)
            let (total, o2) = a.addingReportingOverflow(difference)
            return o1 || o2 ? nil : .int(total)
        default:
            guard let a = base.number, let b = (delta.old ?? .null).number, let c = delta.new.number else { return nil }
            return .double(a + (c - b))
        }
    }

    /// `base` with what the delta put in added and what it took out removed, in order of first putting in; `base` itself, and be it
    /// no value, where it did neither (decision 176). Over what it was written over it is what was written: something put in again may
    /// stand where it stood before, and a server that comes to the same tells of no order (PROTOCOL.md, `union`; seed 206739). No value
    /// counts as the empty array, as on the server; `nil` where the delta's is neither.
    private static func union(_ delta: FieldDelta, onto base: FieldValue) -> FieldValue? {
        guard let new = delta.new.elements else { return nil }
        let old = (delta.old ?? .null).elements ?? []
        let (before, after) = (Set(old.map(SetElement.init)), Set(new.map(SetElement.init)))
        let removed = before.subtracting(after)
        let added = new.filter { !before.contains(SetElement($0)) }
        if removed.isEmpty, added.isEmpty { return base }
        if after.count == new.count, let present = base.elements, FieldValue.array(present).isSame(as: .array(old)) {
            return .array(new)
        }
        var result = (base.elements ?? []).filter { !removed.contains(SetElement($0)) }
        var present = Set(result.map(SetElement.init))
        for element in added where present.insert(SetElement(element)).inserted { result.append(element) }
        return .array(result)
    }
}

extension FieldValue {
    /// 0 in place of no value: a field that nothing was added to yet.
    fileprivate var orZero: FieldValue { isNull ? .int(0) : self }

    /// The elements of a set; `nil` for what is none.
    fileprivate var elements: [FieldValue]? {
        switch self {
        case .null: []
        case .array(let elements): elements
        default: nil
        }
    }

    /// The number as a double; null counts as 0; `nil` for what is no number.
    var number: Double? {
        switch self {
        case .int(let value): Double(value)
        case .double(let value): value
        case .null: 0
        default: nil
        }
    }
}
