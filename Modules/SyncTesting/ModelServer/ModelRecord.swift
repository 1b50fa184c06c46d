import SyncCore

/// The place of a write in the order that decides (PROTOCOL.md, *Last writer wins*): stamp, device, sequence.
struct WriteOrder: Hashable, Comparable, Sendable {
    var stamp: Stamp
    var device: String
    var sequence: Int64

    static func < (a: WriteOrder, b: WriteOrder) -> Bool {
        if a.stamp != b.stamp { return a.stamp < b.stamp }
        if a.device != b.device { return a.device.utf8.lexicographicallyPrecedes(b.device.utf8) }
        return a.sequence < b.sequence
    }
}

/// A record as the set of everything that was accepted for it; what it shows is worked out from that set each time.
///
/// Nothing here depends on the order of arrival: that is the point of it.
struct ModelRecord: Sendable {
    struct FieldWrite: Sendable {
        var order: WriteOrder
        var delta: FieldDelta
    }

    /// A create, and the fields that it names.
    struct Create: Sendable {
        var order: WriteOrder
        var names: Set<String>
    }

    let key: RecordKey
    /// All accepted writes of each field.
    var writes: [String: [FieldWrite]] = [:]
    /// Creates: each says that the record is there from then on.
    var creates: [Create] = []
    var deletes: [WriteOrder] = []
    /// The version under which readers saw it last, and what they saw.
    var version: Int64 = 0
    var shown = Shown(isLive: false, fields: [:], root: nil)

    struct Shown: Sendable, Hashable {
        var isLive: Bool
        var fields: [String: FieldValue]
        /// The record at the top, through which alone it is in a scope.
        var root: RecordKey?
    }

    init(key: RecordKey) { self.key = key }

    /// Whether a create of it was ever accepted; else only deletes came.
    var exists: Bool { !creates.isEmpty }

    /// Dead while the delete is above all field writes.
    var isDeadItself: Bool {
        guard let delete = deletes.max() else { return false }
        let lastWrite = writes.values.joined().map(\.order).max()
        return ((creates.map(\.order) + [lastWrite].compactMap { $0 }).allSatisfy { $0 < delete })
    }

    /// The latest create, if any delete is below it: it is a write of null to every field that it does not name,
    /// whichever of them came first (the reference server's Decision 90).
    private var reset: Create? {
        guard let latest = creates.max(by: { $0.order < $1.order }), deletes.contains(where: { $0 < latest.order })
        else { return nil }
        return latest
    }

    var fields: [String: FieldValue] {
        var result: [String: FieldValue] = [:]
        for name in writes.keys { result[name] = value(of: name) }  // any order
        return result
    }

    /// The field's writes in their order, with the clearing that a create after a delete does.
    func ordered(_ name: String) -> [FieldWrite] {
        var all = writes[name] ?? []
        if let reset, !reset.names.contains(name) {
            // In front of an edit under check that took its place (seed 12747).
            all.insert(FieldWrite(order: reset.order, delta: FieldDelta(old: nil, new: .null)), at: 0)
        }
        return all.sorted { $0.order < $1.order }
    }

    /// A create that says what is there already: it is a write all the same, so that an older delete that comes later
    /// finds it, but for what sums or elements made, which a plain write would end.
    mutating func remember(_ create: WriteOrder, _ fields: [String: FieldWrite]) {
        for (name, write) in fields {  // any order
            let last = ordered(name).last
            let isPlain = last.map { $0.delta.rule == .lastWriter || $0.delta.rule == .check } ?? true
            if isPlain { writes[name, default: []].append(write) }
        }
        creates.append(Create(order: create, names: Set(fields.keys)))
    }

    func value(of name: String) -> FieldValue { fold(name).value }

    /// What whole numbers come to, beyond 64 bits, too; `nil` where the value is none.
    func total(of name: String) -> Int128? { fold(name).total }

    private func fold(_ name: String) -> FieldFold {
        var fold = FieldFold()
        for write in ordered(name) { fold.add(write.delta) }
        return fold
    }

    /// Whether somebody else's write stands above this one of the field, so that it does not show.
    func isOverruled(_ write: FieldWrite, of name: String) -> Bool {
        let later = ordered(name).filter { $0.order > write.order }
        switch write.delta.rule {
        case .lastWriter, .check, .sum:
            return later.contains { $0.delta.rule == .lastWriter || $0.delta.rule == .check }
        case .union:
            // For each element the last writer wins, even one that wants the same: as with a plain value.
            let mine = UnionEffect(write.delta)
            return later.contains { other in
                guard other.delta.rule == .union else { return true }
                let theirs = UnionEffect(other.delta)
                return (mine.added + mine.removed).contains { element in
                    (theirs.added + theirs.removed).contains { $0.isSame(as: element) }
                }
            }
        }
    }
}

/// The value of a field after its writes, one by one in their order.
struct FieldFold {
    private var plain: FieldValue = .null
    /// A sum of whole numbers as it is; what is shown stays within 64 bits, but what comes next is added to this.
    private var whole: Int128?
    /// For `union`: every element ever put in since the last plain write, and whether it is in now.
    private var elements: [(value: FieldValue, isIn: Bool)]?

    var value: FieldValue {
        guard let elements else { return plain }
        return .array(elements.filter(\.isIn).map(\.value))
    }

    var total: Int128? { elements == nil ? whole ?? Self.whole(plain) : nil }

    mutating func add(_ delta: FieldDelta) {
        switch delta.rule {
        case .lastWriter, .check:
            plain = delta.new
            (whole, elements) = (nil, nil)
        case .sum:
            // A set is nothing to add to.
            guard elements == nil else { return }
            if let total, let old = Self.whole(delta.old ?? .null), let new = Self.whole(delta.new) {
                whole = total + new - old
                plain = .int(Int64(clamping: total + new - old))
            } else {
                plain = LastWriterDeltas().rebase(delta, onto: value)
                whole = nil
            }
        case .union:
            var list = elements ?? Self.list(value)
            let effect = UnionEffect(delta)
            for element in effect.removed {
                for place in list.indices where list[place].value.isSame(as: element) { list[place].isIn = false }
            }
            for element in effect.added {
                if let place = list.firstIndex(where: { $0.value.isSame(as: element) }) {
                    list[place].isIn = true
                } else {
                    list.append((element, true))
                }
            }
            elements = list
        }
    }

    private static func whole(_ value: FieldValue) -> Int128? {
        switch value {
        case .null: 0
        case .int(let number): Int128(number)
        default: nil
        }
    }

    private static func list(_ value: FieldValue) -> [(value: FieldValue, isIn: Bool)] {
        guard case .array(let elements) = value else { return [] }
        return elements.map { ($0, true) }
    }
}

/// What a `union` write puts in and takes out.
struct UnionEffect {
    var added: [FieldValue]
    var removed: [FieldValue]

    init(_ delta: FieldDelta) {
        let old = Self.elements(delta.old ?? .null)
        let new = Self.elements(delta.new)
        added = new.filter { element in !old.contains { $0.isSame(as: element) } }
        removed = old.filter { element in !new.contains { $0.isSame(as: element) } }
    }

    /// Nothing is put in, nothing taken out.
    var isNothing: Bool { added.isEmpty && removed.isEmpty }

    private static func elements(_ value: FieldValue) -> [FieldValue] {
        if case .array(let elements) = value { elements } else { [] }
    }
}
