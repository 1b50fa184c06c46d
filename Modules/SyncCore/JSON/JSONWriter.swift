/// Writes compact JSON by appending to bytes: commas and colons come by themselves, the nesting is the caller's.
///
/// ```swift
/// var writer = JSONWriter()
/// writer.beginObject()
/// writer.key("version")
/// writer.int(41)
/// writer.endObject()
/// let bytes = writer.takeBytes()
/// ```
public struct JSONWriter: Sendable {
    /// How many bytes are written so far.
    public private(set) var count = 0
    /// What is written, and room behind it.
    private var room: [UInt8]
    private var needsComma = false

    /// A writer into nothing yet; `capacity` bytes are set aside at once.
    public init(capacity: Int = 0) {
        room = []
        room.reserveCapacity(capacity)
    }

    /// What is written so far: a copy, so ask for ``count`` where that is enough.
    public var bytes: [UInt8] { count == room.count ? room : Array(room[..<count]) }

    /// What is written, without a copy; the writer is as new after it.
    public mutating func takeBytes() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &room)
        taken.removeLast(taken.count - count)
        count = 0
        needsComma = false
        return taken
    }

    /// Forgets what is written and keeps the memory, for who writes many short texts one after another.
    package mutating func clear() {
        count = 0
        needsComma = false
    }

    /// What is written, lent for a call.
    package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try room.withUnsafeBytes { try body(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
    }

    public mutating func beginObject() { open(UInt8(ascii: "{")) }
    public mutating func endObject() { close(UInt8(ascii: "}")) }
    public mutating func beginArray() { open(UInt8(ascii: "[")) }
    public mutating func endArray() { close(UInt8(ascii: "]")) }

    /// A member's name; its value must follow. That it is told once is the caller's to see to.
    public mutating func key(_ name: String) {
        quoted(name, mark: UInt8(ascii: ":"))
        needsComma = false
    }

    public mutating func null() { literal("null") }
    public mutating func bool(_ value: Bool) { value ? literal("true") : literal("false") }

    public mutating func int(_ value: Int64) {
        comma()
        digits(of: value)
    }

    /// A number in the shortest form that reads back as the same double, always with a point or an exponent.
    ///
    /// - Throws: A failure of kind `notANumber` for NaN and infinities; nothing is written then.
    public mutating func double(_ value: Double) throws(JSONFailure) {
        guard value.isFinite else {
            throw JSONFailure(.notANumber, offset: 0, expected: "a finite number, not \(value)")
        }
        comma()
        // Whole and half numbers, which positions mostly are, far below where a double is coarser than that.
        let doubled = value * 2
        if doubled.magnitude < 1e12, doubled == doubled.rounded(.towardZero), value != 0 {
            let halves = Int64(doubled)
            if halves == -1 { push(UInt8(ascii: "-")) }
            digits(of: halves / 2)
            push(UInt8(ascii: "."))
            push(halves % 2 == 0 ? UInt8(ascii: "0") : UInt8(ascii: "5"))
            return
        }
        // Swift's own form of a finite double is one of JSON's.
        append(value.description)
    }

    public mutating func string(_ value: String) {
        quoted(value, mark: nil)
        needsComma = true
    }

    /// `{"$data":"…"}`, the contract's form for bytes.
    public mutating func data(_ value: [UInt8]) {
        beginObject()
        key("$data")
        var text: [UInt8] = []
        Base64.append(value, to: &text)
        push(UInt8(ascii: "\""))
        text.withUnsafeBufferPointer { append($0) }
        push(UInt8(ascii: "\""))
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
        if members.count < 2 {
            for (name, value) in members {  // any order
                key(name)
                try self.value(value)
            }
        } else {
            for place in members.placesInByteOrder {
                let member = members[place.index]
                key(member.key)
                try value(member.value)
            }
        }
        endObject()
    }

    /// A whole value that is JSON already; nobody looks at it again.
    public mutating func raw(_ json: some Sequence<UInt8>) {
        comma()
        let isDone: Void? = json.withContiguousStorageIfAvailable { append($0) }
        if isDone == nil { Array(json).withUnsafeBufferPointer { append($0) } }
    }

    private mutating func open(_ bracket: UInt8) {
        comma()
        push(bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: UInt8) {
        push(bracket)
        needsComma = true
    }

    private mutating func literal(_ text: StaticString) {
        comma()
        append(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @inline(__always)
    private mutating func comma() {
        if needsComma { push(UInt8(ascii: ",")) }
        needsComma = true
    }
}

// Bytes into the room. Each makes room first, once for all that it writes.
extension JSONWriter {
    @inline(__always)
    private mutating func makeRoom(for more: Int) {
        if count + more > room.count { grow(by: more) }
    }

    @inline(never)
    private mutating func grow(by more: Int) {
        let needed = count + more
        if needed > room.capacity { room.reserveCapacity(max(room.capacity * 2, needed, 64)) }
        // Filled piece by piece, so that memory which is never written is never touched.
        let size = min(max(needed, room.count + 32 * 1024), room.capacity)
        room.append(contentsOf: repeatElement(0, count: size - room.count))
    }

    @inline(__always)
    private mutating func push(_ byte: UInt8) {
        makeRoom(for: 1)
        room[count] = byte
        count += 1
    }

    private mutating func append(_ text: String) {
        let isDone: Void? = text.utf8.withContiguousStorageIfAvailable { append($0) }
        if isDone == nil { Array(text.utf8).withUnsafeBufferPointer { append($0) } }
    }

    private mutating func append(_ text: UnsafeBufferPointer<UInt8>) {
        guard let source = text.baseAddress, text.count > 0 else { return }
        makeRoom(for: text.count)
        let start = count
        room.withUnsafeMutableBytes { room in
            (room.baseAddress! + start).copyMemory(from: source, byteCount: text.count)
        }
        count += text.count
    }

    private mutating func digits(of value: Int64) {
        // The least integer has 19 digits and a sign.
        makeRoom(for: 20)
        let start = count
        count = room.withUnsafeMutableBufferPointer { room in
            var position = start
            var rest = value.magnitude
            if value < 0 {
                room[position] = UInt8(ascii: "-")
                position += 1
            }
            var length = 1
            var power: UInt64 = 10
            while length < 19, rest >= power {
                power &*= 10
                length += 1
            }
            var slot = position + length
            // Two digits for each of the long divisions.
            while rest > 99 {
                let quotient = rest / 100
                let two = UInt32(truncatingIfNeeded: rest &- quotient &* 100)
                slot -= 2
                room[slot] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: two / 10)
                room[slot + 1] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: two % 10)
                rest = quotient
            }
            if rest > 9 {
                room[slot - 1] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
                slot -= 1
            }
            room[slot - 1] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest)
            return position + length
        }
    }

    /// A comma where one is due, the text in quotes, and `mark`.
    @inline(__always)
    private mutating func quoted(_ value: String, mark: UInt8?) {
        let isDone: Void? = value.utf8.withContiguousStorageIfAvailable { quoted($0, mark: mark) }
        if isDone == nil { Array(value.utf8).withUnsafeBufferPointer { quoted($0, mark: mark) } }
    }

    private mutating func quoted(_ text: UnsafeBufferPointer<UInt8>, mark: UInt8?) {
        // Comma, two quotes, mark, and what a word may be longer than the text's end.
        makeRoom(for: text.count + 12)
        let start = count
        let isNext = needsComma
        let (written, read) = room.withUnsafeMutableBytes { room -> (Int, Int) in
            var out = room.baseAddress! + start
            if isNext {
                out.storeBytes(of: UInt8(ascii: ","), as: UInt8.self)
                out += 1
            }
            out.storeBytes(of: UInt8(ascii: "\""), as: UInt8.self)
            out += 1
            let read = Self.copyPlain(text, from: 0, to: &out)
            if read == text.count {
                out.storeBytes(of: UInt8(ascii: "\""), as: UInt8.self)
                out += 1
                if let mark {
                    out.storeBytes(of: mark, as: UInt8.self)
                    out += 1
                }
            }
            return (out - room.baseAddress!, read)
        }
        count = written
        if read < text.count { finishQuoted(text, from: read, mark: mark) }
    }

    /// The rest of a text from a byte on that must be escaped.
    @inline(never)
    private mutating func finishQuoted(_ text: UnsafeBufferPointer<UInt8>, from start: Int, mark: UInt8?) {
        var read = start
        while read < text.count {
            appendEscape(of: text[read])
            makeRoom(for: text.count - read + 12)
            let start = count
            let from = read + 1
            (count, read) = room.withUnsafeMutableBytes { room -> (Int, Int) in
                var out = room.baseAddress! + start
                let read = Self.copyPlain(text, from: from, to: &out)
                return (out - room.baseAddress!, read)
            }
        }
        push(UInt8(ascii: "\""))
        if let mark { push(mark) }
    }

    /// Copies up to the first byte that must be escaped, and says where that is. Behind the copy it may write up to
    /// seven bytes more.
    @inline(__always)
    private static func copyPlain(
        _ text: UnsafeBufferPointer<UInt8>, from start: Int, to out: inout UnsafeMutableRawPointer
    ) -> Int {
        guard let source = text.baseAddress else { return text.count }
        var index = start
        // Eight bytes at a time, as in `JSONReader.scanString`.
        while index + 8 <= text.count {
            let word = UInt64(littleEndian: UnsafeRawPointer(source + index).loadUnaligned(as: UInt64.self))
            out.storeBytes(of: word.littleEndian, as: UInt64.self)
            let flags = word.bytesToEscape
            if flags != 0 {
                let plain = flags.trailingZeroBitCount / 8
                out += plain
                return index + plain
            }
            out += 8
            index += 8
        }
        while index < text.count {
            let byte = source[index]
            if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return index }
            out.storeBytes(of: byte, as: UInt8.self)
            out += 1
            index += 1
        }
        return index
    }

    private mutating func appendEscape(of byte: UInt8) {
        push(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): push(byte)
        case 0x08: push(UInt8(ascii: "b"))
        case 0x09: push(UInt8(ascii: "t"))
        case 0x0a: push(UInt8(ascii: "n"))
        case 0x0c: push(UInt8(ascii: "f"))
        case 0x0d: push(UInt8(ascii: "r"))
        default:
            append("u00")
            push(UInt8(ascii: "0") + byte >> 4)
            let digit = byte & 0xf
            push(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        }
    }
}

extension UInt64 {
    /// The high bit of each byte that is a quote, a backslash or a control character; above the lowest such byte others
    /// may be flagged that are none.
    @inline(__always)
    fileprivate var bytesToEscape: UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = self ^ (ones &* 0x22)
        let slash = self ^ (ones &* 0x5c)
        let flags = (quote &- ones) & ~quote | (slash &- ones) & ~slash | (self &- ones &* 0x20) & ~self
        return flags & (ones &* 0x80)
    }
}
