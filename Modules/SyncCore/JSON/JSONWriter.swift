/// Writes compact JSON by appending to bytes: commas and colons come by themselves, the nesting is the caller's.
///
/// ```swift
/// var writer = JSONWriter()
/// writer.beginObject()
/// writer.key("version")
/// writer.int(41)
/// writer.endObject()
/// let bytes = writer.bytes
/// ```
public struct JSONWriter: Sendable {
    /// What is written so far.
    public private(set) var bytes: [UInt8]
    private var needsComma = false

    /// A writer into nothing yet; `capacity` bytes are set aside at once.
    public init(capacity: Int = 0) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    public mutating func beginObject() { open(UInt8(ascii: "{")) }
    public mutating func endObject() { close(UInt8(ascii: "}")) }
    public mutating func beginArray() { open(UInt8(ascii: "[")) }
    public mutating func endArray() { close(UInt8(ascii: "]")) }

    /// A member's name; its value must follow. That it is told once is the caller's to see to.
    public mutating func key(_ name: String) {
        string(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    public mutating func null() { literal("null") }
    public mutating func bool(_ value: Bool) { value ? literal("true") : literal("false") }

    public mutating func int(_ value: Int64) {
        comma()
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        var rest = value.magnitude
        let start = bytes.count
        repeat {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10))
            rest /= 10
        } while rest > 0
        bytes[start...].reverse()
    }

    /// A number in the shortest form that reads back as the same double, always with a point or an exponent.
    ///
    /// - Throws: A failure of kind `notANumber` for NaN and infinities; nothing is written then.
    public mutating func double(_ value: Double) throws(JSONFailure) {
        guard value.isFinite else {
            throw JSONFailure(.notANumber, offset: 0, expected: "a finite number, not \(value)")
        }
        comma()
        // Swift's own form of a finite double is one of JSON's.
        bytes.append(contentsOf: value.description.utf8)
    }

    public mutating func string(_ value: String) {
        comma()
        bytes.append(UInt8(ascii: "\""))
        let isDone: Void? = value.utf8.withContiguousStorageIfAvailable { appendEscaped($0) }
        if isDone == nil { Array(value.utf8).withUnsafeBufferPointer { appendEscaped($0) } }
        bytes.append(UInt8(ascii: "\""))
    }

    /// `{"$data":"…"}`, the contract's form for bytes.
    public mutating func data(_ value: [UInt8]) {
        beginObject()
        key("$data")
        bytes.append(UInt8(ascii: "\""))
        Base64.append(value, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
        needsComma = true
        endObject()
    }

    /// Any value; an object's members stand in the order of their names' UTF-8 bytes.
    ///
    /// - Throws: A failure of kind `notANumber`; what was begun stays written, so the writer is of no more use.
    public mutating func value(_ value: FieldValue) throws(JSONFailure) {
        switch value {
        case .null: null()
        case .bool(let value): bool(value)
        case .int(let value): int(value)
        case .double(let value): try double(value)
        case .string(let value): string(value)
        case .data(let value): data(value)
        case .array(let elements):
            beginArray()
            for element in elements { try self.value(element) }
            endArray()
        case .object(let members): try self.members(members)
        }
    }

    /// An object of these members, in the order of their names' UTF-8 bytes. Fails as ``value(_:)`` does.
    public mutating func members(_ members: [String: FieldValue]) throws(JSONFailure) {
        beginObject()
        for (name, value) in members.inByteOrder {
            key(name)
            try self.value(value)
        }
        endObject()
    }

    /// A whole value that is JSON already; nobody looks at it again.
    public mutating func raw(_ json: some Sequence<UInt8>) {
        comma()
        bytes.append(contentsOf: json)
    }

    private mutating func open(_ bracket: UInt8) {
        comma()
        bytes.append(bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    private mutating func literal(_ text: StaticString) {
        comma()
        bytes.append(
            contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @inline(__always)
    private mutating func comma() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func appendEscaped(_ text: UnsafeBufferPointer<UInt8>) {
        var run = 0
        var index = 0
        while index < text.count {
            // Eight bytes at a time, as in `JSONReader.scanString`.
            if index + 8 <= text.count, let base = text.baseAddress {
                let word = UnsafeRawPointer(base + index).loadUnaligned(as: UInt64.self)
                if !word.hasByteToEscape {
                    index += 8
                    continue
                }
            }
            let byte = text[index]
            guard byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") else {
                index += 1
                continue
            }
            bytes.append(contentsOf: UnsafeBufferPointer(rebasing: text[run..<index]))
            index += 1
            run = index
            appendEscape(of: byte)
        }
        bytes.append(contentsOf: UnsafeBufferPointer(rebasing: text[run...]))
    }

    private mutating func appendEscape(of byte: UInt8) {
        bytes.append(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes.append(byte)
        case 0x08: bytes.append(UInt8(ascii: "b"))
        case 0x09: bytes.append(UInt8(ascii: "t"))
        case 0x0a: bytes.append(UInt8(ascii: "n"))
        case 0x0c: bytes.append(UInt8(ascii: "f"))
        case 0x0d: bytes.append(UInt8(ascii: "r"))
        default:
            bytes.append(contentsOf: [UInt8(ascii: "u"), UInt8(ascii: "0"), UInt8(ascii: "0")])
            bytes.append(UInt8(ascii: "0") + byte >> 4)
            let digit = byte & 0xf
            bytes.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        }
    }
}

extension UInt64 {
    /// Whether one of its eight bytes is a quote, a backslash or a control character.
    @inline(__always)
    fileprivate var hasByteToEscape: Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = self ^ (ones &* 0x22)
        let slash = self ^ (ones &* 0x5c)
        let flags = (quote &- ones) & ~quote | (slash &- ones) & ~slash | (self &- ones &* 0x20) & ~self
        return flags & (ones &* 0x80) != 0
    }
}
