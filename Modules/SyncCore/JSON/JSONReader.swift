/// A strict reader of JSON (RFC 8259) that the caller pulls through its bytes, value by value.
///
/// Strict means: UTF-8 is checked, members told twice, lone surrogates and bytes after the end are refused. Depth is
/// counted from the first byte's container, which has depth 1, and bounded; recursion goes no deeper than that.
/// A copy of a reader is a bookmark: it goes on from where it was made. Each method takes the white space before what
/// it reads. After a failure of kind `wrongType` or `numberDoesNotFit` the reader stands before the value, which can
/// be skipped; after any other it is of no more use.
///
/// ```swift
/// var reader = JSONReader(bytes)
/// try reader.beginObject()
/// while let name = try reader.nextKey() {
///     switch name {
///     case "version": version = try reader.readInt()
///     default: try reader.skipValue()
///     }
/// }
/// try reader.finish()
/// ```
public struct JSONReader: Sendable {
    /// The depth that the contract allows (PROTOCOL.md, section 4, *Limits*).
    public static let contractDepth = 64

    /// What begins at a place.
    public enum Kind: Sendable, Hashable {
        case object, array, string, number, bool, null
    }

    /// What stands open: an object with its names so far, or an array.
    struct Frame: Sendable {
        var isObject: Bool
        var isFirst = true
        var scope: MemberNames.Scope
    }

    let bytes: JSONBytes
    nonisolated(unsafe) let base: UnsafePointer<UInt8>
    let end: Int
    let maximumDepth: Int
    let outerDepth: Int
    var frames: [Frame] = []
    var names = MemberNames()
    /// How many members the last object had; the next one often has as many.
    var memberHint = 0

    /// The next byte to be read, from the start of the bytes.
    public internal(set) var offset: Int

    /// Whether a number that does not fit makes ``readValue()`` and ``skipValue()`` fail; `false` only notes it
    /// (``takeUnfit()``) and the value is the nearest double, so that one bad change can be refused by itself.
    public var refusesUnfitNumbers = true

    /// The first value since the last ``takeUnfit()`` that JSON can say and `FieldValue` cannot hold.
    var unfit: JSONFailure?

    /// A reader of a copy of `bytes`.
    public init(_ bytes: [UInt8], maximumDepth: Int = contractDepth) {
        self.init(JSONBytes(bytes), maximumDepth: maximumDepth)
    }

    /// A reader of the UTF-8 of `text`.
    public init(_ text: String, maximumDepth: Int = contractDepth) {
        self.init(JSONBytes(text.utf8), maximumDepth: maximumDepth)
    }

    /// A reader of shared bytes, or of a part of them.
    ///
    /// - Parameters:
    ///   - range: The part; offsets still count from the start of `bytes`.
    ///   - depth: How many containers stand around the part.
    public init(
        _ bytes: JSONBytes, range: Range<Int>? = nil, depth: Int = 0, maximumDepth: Int = contractDepth
    ) {
        let part = (range ?? 0..<bytes.count).clamped(to: 0..<bytes.count)
        self.bytes = bytes
        base = bytes.base
        offset = part.lowerBound
        end = part.upperBound
        outerDepth = depth
        self.maximumDepth = maximumDepth
    }

    /// How many containers stand open here, those around the part included.
    public var depth: Int { outerDepth + frames.count }

    /// What the next value is, without taking it.
    public mutating func peek() throws(JSONFailure) -> Kind { try kind() }

    @inline(__always)
    mutating func kind() throws(JSONFailure) -> Kind {
        skipSpace()
        guard offset < end else { throw failure(.truncated, "a value") }
        switch base[offset] {
        case UInt8(ascii: "{"): return .object
        case UInt8(ascii: "["): return .array
        case UInt8(ascii: "\""): return .string
        case UInt8(ascii: "t"), UInt8(ascii: "f"): return .bool
        case UInt8(ascii: "n"): return .null
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number
        default: throw failure(.syntax, "a value")
        }
    }

    /// Enters an object; its members come from ``nextKey()``.
    public mutating func beginObject() throws(JSONFailure) {
        try require(.object, "an object")
        try push(isObject: true)
    }

    /// Enters an array; ask ``nextElement()`` before each value.
    public mutating func beginArray() throws(JSONFailure) {
        try require(.array, "an array")
        try push(isObject: false)
    }

    /// The next member's name, after which its value must be read or skipped; `nil` when the object has ended.
    public mutating func nextKey() throws(JSONFailure) -> String? {
        precondition(frames.last?.isObject == true, "nextKey() outside of an object")
        guard try advance(past: UInt8(ascii: "}"), "a comma or the end of the object") else {
            return nil
        }
        guard offset < end else { throw failure(.truncated, "a member's name") }
        guard base[offset] == UInt8(ascii: "\"") else { throw failure(.syntax, "a member's name") }
        let token = try scanString()
        let name = try text(of: token)
        let isNew = names.insert(token, name, &frames[frames.count - 1].scope, base)
        guard isNew else {
            throw JSONFailure(.duplicateMember, offset: token.start - 1, expected: "each member once")
        }
        try expectColon()
        return name
    }

    /// Whether the array has another value, which then must be read or skipped; `false` when it has ended.
    public mutating func nextElement() throws(JSONFailure) -> Bool {
        precondition(frames.last?.isObject == false, "nextElement() outside of an array")
        return try advance(past: UInt8(ascii: "]"), "a comma or the end of the array")
    }

    /// Checks that nothing but white space is left.
    public mutating func finish() throws(JSONFailure) {
        precondition(frames.isEmpty, "finish() within an object or array")
        skipSpace()
        guard offset == end else { throw failure(.trailingBytes, "the end") }
    }

    /// The first value since the last call that is JSON but does not fit into a `FieldValue`: a number when
    /// ``refusesUnfitNumbers`` is off, or a `{"$data": …}` that is not base64 (kept as the object that it is).
    public mutating func takeUnfit() -> JSONFailure? {
        defer { unfit = nil }
        return unfit
    }

    private mutating func push(isObject: Bool) throws(JSONFailure) {
        guard depth < maximumDepth else { throw failure(.tooDeep, "at most \(maximumDepth) levels") }
        offset += 1
        frames.append(Frame(isObject: isObject, scope: names.open()))
    }

    private mutating func advance(past close: UInt8, _ expected: String) throws(JSONFailure) -> Bool {
        skipSpace()
        guard offset < end else { throw failure(.truncated, expected) }
        let top = frames.count - 1
        if base[offset] == close {
            offset += 1
            names.close(frames.removeLast().scope)
            return false
        }
        if frames[top].isFirst {
            frames[top].isFirst = false
            return true
        }
        guard base[offset] == UInt8(ascii: ",") else { throw failure(.syntax, expected) }
        offset += 1
        skipSpace()
        return true
    }
}
