/// The value of one field of a record: what JSON can say, with exact 64-bit integers, and bytes.
///
/// On the wire (PROTOCOL.md, section 1): bytes are `{"$data": "base64"}`; a date is a string in RFC 3339 with
/// milliseconds (`2026-11-21T08:00:00.123Z`); decimals and unsigned integers above 2^63 − 1 are strings. NaN and
/// infinities have no form there and are refused when they are written.
///
/// `==` compares the Swift values, strings by their bytes: what a server stores is bytes, and an edit from one Unicode
/// form of a letter to another is an edit. ``isSame(as:)`` compares as JSON does, where `1` and `1.0` are one number.
public enum FieldValue: Sendable, Hashable {
    case null
    case bool(Bool)
    case int(Int64)
    case double(Double)
    case string(String)
    case data([UInt8])
    case array([FieldValue])
    case object([String: FieldValue])
}

extension FieldValue {
    /// Whether both are the same Swift value; strings by their bytes.
    public static func == (a: FieldValue, b: FieldValue) -> Bool {
        switch (a, b) {
        case (.null, .null): true
        case (.bool(let a), .bool(let b)): a == b
        case (.int(let a), .int(let b)): a == b
        case (.double(let a), .double(let b)): a == b
        case (.string(let a), .string(let b)): a.hasSameBytes(as: b)
        case (.data(let a), .data(let b)): a == b
        case (.array(let a), .array(let b)): a == b
        case (.object(let a), .object(let b)): a == b
        case (.null, _), (.bool, _), (.int, _), (.double, _), (.string, _), (.data, _), (.array, _), (.object, _): false
        }
    }

    /// Strings by their bytes, as ``==(_:_:)``: `String` would put the accents of each in their order first, which of a text
    /// with thousands of them takes seconds.
    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0 as UInt8)
        case .bool(let value):
            hasher.combine(1 as UInt8)
            hasher.combine(value)
        case .int(let value):
            hasher.combine(2 as UInt8)
            hasher.combine(value)
        case .double(let value):
            hasher.combine(3 as UInt8)
            hasher.combine(value)
        case .string(var value):
            hasher.combine(4 as UInt8)
            value.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
            // In no UTF-8, so that no two texts run together.
            hasher.combine(0xff as UInt8)
        case .data(let value):
            hasher.combine(5 as UInt8)
            hasher.combine(value)
        case .array(let value):
            hasher.combine(6 as UInt8)
            hasher.combine(value)
        case .object(let value):
            hasher.combine(7 as UInt8)
            hasher.combine(value)
        }
    }

    /// Whether this is `null`.
    public var isNull: Bool { self == .null }

    /// Whether both are the same JSON value: numbers are compared by value, everything else exactly.
    public func isSame(as other: FieldValue) -> Bool {
        switch (self, other) {
        case (.int(let a), .double(let b)), (.double(let b), .int(let a)):
            return Int64(exactly: b) == a
        case (.double(let a), .double(let b)):
            return a == b
        case (.array(let a), .array(let b)):
            return a.count == b.count && zip(a, b).allSatisfy { $0.isSame(as: $1) }
        case (.object(let a), .object(let b)):
            return a.count == b.count && a.allSatisfy { name, value in b[name].map(value.isSame(as:)) ?? false }
        default:
            return self == other
        }
    }
}

extension FieldValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(nilLiteral: ()) { self = .null }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int64) { self = .int(value) }
    public init(floatLiteral value: Double) { self = .double(value) }
    public init(stringLiteral value: String) { self = .string(value) }
    public init(arrayLiteral elements: FieldValue...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, FieldValue)...) {
        self = .object(Dictionary(elements, uniquingKeysWith: { $1 }))
    }
}

extension String {
    /// Whether both are the same UTF-8; `==` of strings takes canonically equivalent ones for the same.
    fileprivate func hasSameBytes(as other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        var (one, other) = (self, other)
        return one.withUTF8 { one in
            other.withUTF8 { other in UnsafeRawBufferPointer(one).hasSameBytes(as: UnsafeRawBufferPointer(other)) }
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Whether both are as long and hold the same: eight bytes at a time, and without generic code.
    package func hasSameBytes(as other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count else { return false }
        var index = 0
        while index + 8 <= count {
            let word = loadUnaligned(fromByteOffset: index, as: UInt64.self)
            guard word == other.loadUnaligned(fromByteOffset: index, as: UInt64.self) else { return false }
            index += 8
        }
        while index < count {
            guard self[index] == other[index] else { return false }
            index += 1
        }
        return true
    }
}
