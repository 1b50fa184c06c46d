/// A strict reader of JSON (RFC 8259) that the caller pulls through its bytes, value by value.
///
/// Strict means: UTF-8 is checked, members told twice, lone surrogates and bytes after the end are refused. Depth is
/// counted from the first byte's container, which has depth 1, and bounded; nothing recurses.
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
        /// An object's last name; `none` once ``names`` has them.
        var node = NameTree.root
    }

    let bytes: JSONBytes
    nonisolated(unsafe) let base: UnsafePointer<UInt8>
    let end: Int
    let maximumDepth: Int
    let outerDepth: Int
    /// The innermost container, and those around it; nobody is asked for ``top`` where ``openCount`` is 0.
    var top = Frame(isObject: false)
    var outer: [Frame] = []
    var openCount = 0
    var tree = NameTree()
    var names = MemberNames()
    /// Within the value that is being read: the containers around the innermost one, all their values so far, and the
    /// names of those that the tree did not take.
    var containers: [Container] = []
    var values: [FieldValue] = []
    var freeNames: [String] = []
    var recent = RecentTexts()

    /// The next byte to be read, from the start of the bytes.
    public internal(set) var offset: Int

    /// Whether a number that does not fit makes ``readValue()`` and ``skipValue()`` fail; `false` only notes it
    /// (``takeUnfit()``) and the value is the nearest double, so that one bad change can be refused by itself.
    public var refusesUnfitNumbers = true

    /// Whether a member's name with more than ``Swift/String/mostMarks`` marks in a row is refused as such a number is: of what
    /// others have written, so that no name takes long to compare.
    package var wantsStreamSafeNames = false

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
    public var depth: Int { outerDepth + openCount }

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

    /// Names that ``nextTag()`` gives numbers to; set before anything is read.
    package var tags: [String] {
        get { tree.tags }
        set { tree.tags = newValue }
    }

    /// As ``nextKey()``, with the name's place in ``tags``, from 1 on; 0 for another name.
    package mutating func nextTag() throws(JSONFailure) -> Int? {
        precondition(openCount > 0 && top.isObject, "nextTag() outside of an object")
        guard try advance(past: UInt8(ascii: "}"), "a comma or the end of the object") else {
            return nil
        }
        let known = try takeKnownName(after: top.node)
        guard known < 0 else {
            top.node = known
            try expectColon()
            return tree.tag(known)
        }
        var node = top.node
        let name = try takeNewName(after: &node)
        top.node = node
        try expectColon()
        return tree.tag(of: name)
    }

    /// The next member's name, after which its value must be read or skipped; `nil` when the object has ended.
    public mutating func nextKey() throws(JSONFailure) -> String? {
        precondition(openCount > 0 && top.isObject, "nextKey() outside of an object")
        guard try advance(past: UInt8(ascii: "}"), "a comma or the end of the object") else {
            return nil
        }
        let known = try takeKnownName(after: top.node)
        guard known < 0 else {
            top.node = known
            try expectColon()
            return tree.text(known)
        }
        var node = top.node
        let name = try takeNewName(after: &node)
        top.node = node
        try expectColon()
        return name
    }

    /// Whether the array has another value, which then must be read or skipped; `false` when it has ended.
    public mutating func nextElement() throws(JSONFailure) -> Bool {
        precondition(openCount > 0 && !top.isObject, "nextElement() outside of an array")
        return try advance(past: UInt8(ascii: "]"), "a comma or the end of the array")
    }

    /// Checks that nothing but white space is left.
    public mutating func finish() throws(JSONFailure) {
        precondition(openCount == 0, "finish() within an object or array")
        skipSpace()
        guard offset == end else { throw failure(.trailingBytes, "the end") }
    }

    /// The first value since the last call that is JSON but does not fit into a `FieldValue`: a number when
    /// ``refusesUnfitNumbers`` is off, or a `{"$data": …}` that is not base64 (kept as the object that it is). Of kind `text` it
    /// is a name that takes long to compare, where those are not wanted.
    public mutating func takeUnfit() -> JSONFailure? {
        defer { unfit = nil }
        return unfit
    }

    private mutating func push(isObject: Bool) throws(JSONFailure) {
        guard depth < maximumDepth else { throw failure(.tooDeep, "at most \(maximumDepth) levels") }
        offset += 1
        if openCount > 0 { outer.append(top) }
        openCount += 1
        top = Frame(isObject: isObject)
    }

    private mutating func pop() {
        if top.node == NameTree.none { names.close() }
        openCount -= 1
        if openCount > 0 { top = outer.removeLast() }
    }

    @inline(__always)
    mutating func advance(past close: UInt8, _ expected: StaticString) throws(JSONFailure) -> Bool {
        skipSpace()
        guard offset < end else { throw failure(.truncated, "\(expected)") }
        let byte = base[offset]
        if byte == close {
            offset += 1
            pop()
            return false
        }
        if top.isFirst {
            top.isFirst = false
            return true
        }
        guard byte == UInt8(ascii: ",") else { throw failure(.syntax, "\(expected)") }
        offset += 1
        skipSpace()
        return true
    }
}
