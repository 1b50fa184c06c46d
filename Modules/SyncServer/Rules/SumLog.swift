internal import SyncCore

/// A number of a sum: an exact integer while all are, else a double.
///
/// Integers have 128 bits, so that a total is exact whatever the order in which it comes about; only what is shown has 64.
enum Number: Sendable, Hashable {
    case int(Int128)
    case double(Double)

    /// The number in a value; `nil` for anything else.
    init?(_ value: FieldValue) {
        switch value {
        case .int(let number): self = .int(Int128(number))
        case .double(let number): self = .double(number)
        default: return nil
        }
    }

    /// A number as ``kept`` has it.
    init?(kept value: FieldValue) {
        if case .string(let digits) = value, let number = Int128(digits) {
            self = .int(number)
        } else {
            self.init(value)
        }
    }

    /// As it is kept: digits where 64 bits do not hold it.
    var kept: FieldValue {
        guard case .int(let number) = self, Int64(exactly: number) == nil else { return fieldValue }
        return .string(String(number))
    }

    var asDouble: Double {
        switch self {
        case .int(let number): Double(number)
        case .double(let number): number
        }
    }

    /// Beyond 64 bits it stays at the end of them, so that the result is a value whatever came.
    var fieldValue: FieldValue {
        switch self {
        case .int(let number): .int(Int64(clamping: number))
        case .double(let number): .double(number)
        }
    }

    /// `new` − `old`, where null and absent count as 0; `nil` if one is no number or the difference has no form.
    static func difference(old: FieldValue?, new: FieldValue) -> Number? {
        guard let after = Number(nullAsZero: new), let before = Number(nullAsZero: old ?? .null) else { return nil }
        if case .int(let a) = after, case .int(let b) = before {
            return Int64(exactly: a - b) == nil ? nil : .int(a - b)
        }
        let difference = after.asDouble - before.asDouble
        return difference.isFinite ? .double(difference) : nil
    }

    private init?(nullAsZero value: FieldValue) {
        if value.isNull {
            self = .int(0)
        } else {
            self.init(value)
        }
    }

    /// The sum. Integers of 64 bits, added, never pass 128; a double beyond the range stays at the end of it.
    func adding(_ other: Number) -> Number {
        if case .int(let a) = self, case .int(let b) = other { return .int(a + b) }
        let sum = asDouble + other.asDouble
        return .double(sum.isFinite ? sum : (sum < 0 ? -Double.greatestFiniteMagnitude : .greatestFiniteMagnitude))
    }
}

/// The sums since a field's last plain write, in order.
///
/// The newest ``kept`` stand one by one, so that a plain write that comes late finds its place among them; older ones
/// are one number at the place of the latest of them, so that a counter never grows a record without bound.
struct SumLog: Sendable, Hashable {
    /// How many sums stand one by one.
    static let kept = 256

    /// One sum, or the total of many at the place of the latest.
    struct Entry: Sendable, Hashable {
        var tag: WriteTag
        var difference: Number
    }

    private(set) var entries: [Entry] = []

    init(entries: [Entry] = []) { self.entries = entries }

    var greatest: WriteTag? { entries.last?.tag }

    mutating func insert(_ difference: Number, at tag: WriteTag) {
        let place = entries.lastIndex { $0.tag < tag }.map { $0 + 1 } ?? 0
        entries.insert(Entry(tag: tag, difference: difference), at: place)
        guard entries.count > 2 * Self.kept else { return }
        let old = entries.prefix(Self.kept)
        let total = old.dropFirst().reduce(old[0].difference) { $0.adding($1.difference) }
        let last = old[Self.kept - 1].tag
        entries.replaceSubrange(0..<Self.kept, with: [Entry(tag: last, difference: total)])
    }

    /// What comes after a plain write; `nil` if nothing does.
    func dropping(upTo tag: WriteTag) -> SumLog? {
        let rest = entries.drop { $0.tag <= tag }
        return rest.isEmpty ? nil : SumLog(entries: Array(rest))
    }

    /// The value: the plain one, or 0 where that is no number, and every sum in order.
    func applied(to plain: FieldValue) -> FieldValue { total(from: plain).fieldValue }

    /// As much as it comes to, beyond 64 bits, too.
    func total(from plain: FieldValue) -> Number {
        entries.reduce(Number(plain) ?? .int(0)) { $0.adding($1.difference) }
    }
}
