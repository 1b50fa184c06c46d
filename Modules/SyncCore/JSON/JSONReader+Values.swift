// Whole values, however deep: with stacks of their own and no recursion.
extension JSONReader {
    /// A container within the value that is being read.
    struct Container: Sendable {
        /// An object's last name, `none` once ``names`` has them, or ``array``.
        var node: Int32
        /// Where its values begin in ``values``.
        var first = 0
        /// Its opening bracket.
        var start = 0

        static let array: Int32 = -2
    }

    /// The next value, whatever it is.
    public mutating func readValue() throws(JSONFailure) -> FieldValue {
        let mark = mark()
        do throws(JSONFailure) { return try parse() } catch { throw undo(mark, error) }
    }

    /// The members of the next value, which must be an object; `{"$data": …}` is an object here as any other.
    public mutating func readMembers() throws(JSONFailure) -> [String: FieldValue] {
        try require(.object, "an object")
        let mark = mark()
        do throws(JSONFailure) {
            guard case .object(let members) = try parse(asMembers: true) else { return [:] }
            return members
        } catch { throw undo(mark, error) }
    }

    /// Takes the next value without making it, checked as strictly as if it were read, and says where it stands.
    @discardableResult
    public mutating func skipValue() throws(JSONFailure) -> Range<Int> {
        let mark = mark()
        do throws(JSONFailure) { try check() } catch { throw undo(mark, error) }
        return mark.offset..<offset
    }

    /// As ``skipValue()``, where the value must be an object.
    public mutating func skipObject() throws(JSONFailure) {
        try require(.object, "an object")
        try skipValue()
    }

    /// Where a value begins, to go back to.
    private struct Mark {
        var offset: Int
        var scopes: Int
    }

    @inline(__always)
    private mutating func mark() -> Mark {
        skipSpace()
        return Mark(offset: offset, scopes: names.openCount)
    }

    /// Forgets what a failure left half done; a value that only does not fit can be skipped after it.
    private mutating func undo(_ mark: Mark, _ failure: JSONFailure) -> JSONFailure {
        values.removeAll()
        containers.removeAll()
        freeNames.removeAll()
        while names.openCount > mark.scopes { names.close() }
        if failure.kind == .numberDoesNotFit { offset = mark.offset }
        return failure
    }

    private mutating func parse(asMembers: Bool = false) throws(JSONFailure) -> FieldValue {
        var level = 0
        var inner = Container(node: Container.array)
        next: while true {
            var value: FieldValue
            let kind = try kind()
            switch kind {
            case .string: value = .string(try takeText())
            case .number: value = try takeNumber()
            case .bool: value = .bool(try takeBool())
            case .null:
                try takeNull()
                value = .null
            case .array, .object:
                let isObject = kind == .object
                try enter(level)
                if leave(isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) {
                    value = isObject ? .object([:]) : .array([])
                    break
                }
                if level > 0 { containers.append(inner) }
                level += 1
                inner = Container(
                    node: isObject ? NameTree.root : Container.array, first: values.count, start: offset)
                if isObject { try takeName(&inner.node) }
                continue next
            }
            while level > 0 {
                values.append(value)
                if try goesOn(in: inner.node) {
                    if inner.node != Container.array { try takeName(&inner.node) }
                    continue next
                }
                value = end(inner, asMembers: asMembers && level == 1)
                level -= 1
                if level > 0 { inner = containers.removeLast() }
            }
            return value
        }
    }

    private mutating func check() throws(JSONFailure) {
        var level = 0
        var node = Container.array
        next: while true {
            switch try kind() {
            case .string:
                let close = plainEnd(from: offset + 1)
                if close >= 0 {
                    offset = close + 1
                } else {
                    let token = try scanString()
                    if !token.isASCII { try check(token) }
                }
            case .number:
                let start = offset
                if takePlainInteger() == nil, case .unfit = try scanNumber() { try noteUnfitNumber(from: start) }
            case .bool: _ = try takeBool()
            case .null: try takeNull()
            case .array:
                try enter(level)
                if leave(UInt8(ascii: "]")) { break }
                if level > 0 { containers.append(Container(node: node)) }
                level += 1
                node = Container.array
                continue next
            case .object:
                try enter(level)
                if leave(UInt8(ascii: "}")) { break }
                if level > 0 { containers.append(Container(node: node)) }
                level += 1
                node = NameTree.root
                try checkName(&node)
                continue next
            }
            while level > 0 {
                if try goesOn(in: node) {
                    if node != Container.array { try checkName(&node) }
                    continue next
                }
                if node == NameTree.none { names.close() }
                level -= 1
                if level > 0 { node = containers.removeLast().node }
            }
            return
        }
    }

    /// Takes an opening bracket, `level` containers deep within the value.
    @inline(__always)
    private mutating func enter(_ level: Int) throws(JSONFailure) {
        guard depth + level < maximumDepth else { throw failure(.tooDeep, "at most \(maximumDepth) levels") }
        offset &+= 1
    }

    /// The value of a container whose last value was taken.
    @inline(__always)
    private mutating func end(_ container: Container, asMembers: Bool) -> FieldValue {
        guard container.node != Container.array else { return .array(takeElements(from: container.first)) }
        let members: [String: FieldValue]
        if container.node >= 0 {
            members = tree.members(endingAt: container.node, &values, from: container.first)
        } else {
            members = takeFreeMembers(from: container.first)
        }
        guard members.count == 1, !asMembers, case .string(let text)? = members["$data"] else {
            return .object(members)
        }
        if let bytes = Base64.decode(text.utf8) { return .data(bytes) }
        unfit = unfit ?? JSONFailure(.notBase64, offset: container.start - 1, expected: "base64 under $data")
        return .object(members)
    }

    private mutating func takeElements(from first: Int) -> [FieldValue] {
        let count = values.count - first
        let elements = [FieldValue](unsafeUninitializedCapacity: count) { elements, initialized in
            for index in 0..<count {
                var value = FieldValue.null
                swap(&value, &values[first + index])
                elements.initializeElement(at: index, to: value)
            }
            initialized = count
        }
        values.removeLast(count)
        return elements
    }

    /// The members of an object that the tree did not take.
    private mutating func takeFreeMembers(from first: Int) -> [String: FieldValue] {
        let count = values.count - first
        let members = Dictionary(
            zip(freeNames[(freeNames.count - count)...], values[first...]), uniquingKeysWith: { _, last in last })
        freeNames.removeLast(count)
        values.removeLast(count)
        names.close()
        return members
    }

    /// Takes a member's name and the colon.
    @inline(__always)
    private mutating func takeName(_ node: inout Int32) throws(JSONFailure) {
        let known = try takeKnownName(after: node)
        if known >= 0 { node = known } else { try takeFreeName(&node) }
        try expectColon()
    }

    @inline(never)
    private mutating func takeFreeName(_ node: inout Int32) throws(JSONFailure) {
        let before = node
        let name = try takeNewName(after: &node)
        guard node < 0 else { return }
        if before >= 0 { freeNames += tree.path(to: before).map(\.text) }
        freeNames.append(name)
    }

    /// As ``takeName(_:)``, where nothing is kept.
    @inline(__always)
    private mutating func checkName(_ node: inout Int32) throws(JSONFailure) {
        let known = try takeKnownName(after: node)
        if known >= 0 { node = known } else { _ = try takeNewName(after: &node) }
        try expectColon()
    }

    @inline(__always)
    private mutating func takeText() throws(JSONFailure) -> String {
        let start = offset + 1
        let close = plainEnd(from: start)
        guard close >= 0 else { return try text(of: scanString()) }
        offset = close + 1
        if RecentTexts.lengths.contains(close - start) { return recent.text(start, close - start, base) }
        return String(decoding: UnsafeBufferPointer(start: base + start, count: close - start), as: UTF8.self)
    }

    @inline(__always)
    private mutating func takeNumber() throws(JSONFailure) -> FieldValue {
        if let integer = takePlainInteger() { return .int(integer) }
        let start = offset
        switch try scanNumber() {
        case .int(let value): return .int(value)
        case .double(let value): return .double(value)
        case .unfit(let nearest):
            try noteUnfitNumber(from: start)
            return .double(nearest)
        }
    }

    private mutating func noteUnfitNumber(from start: Int) throws(JSONFailure) {
        let failure = JSONFailure(
            .numberDoesNotFit, offset: start, expected: "an integer of 64 bits, or a double")
        if refusesUnfitNumbers { throw failure }
        unfit = unfit ?? failure
    }

    @inline(__always)
    private mutating func leave(_ close: UInt8) -> Bool {
        skipSpace()
        guard offset < end, base[offset] == close else { return false }
        offset &+= 1
        return true
    }

    /// Takes the comma or the bracket behind a value of the container; whether another value follows.
    @inline(__always)
    private mutating func goesOn(in node: Int32) throws(JSONFailure) -> Bool {
        skipSpace()
        let close = node == Container.array ? UInt8(ascii: "]") : UInt8(ascii: "}")
        guard offset < end, base[offset] == UInt8(ascii: ",") || base[offset] == close else {
            throw failure(
                offset < end ? .syntax : .truncated,
                node == Container.array ? "a comma or the end of the array" : "a comma or the end of the object")
        }
        let isComma = base[offset] == UInt8(ascii: ",")
        offset &+= 1
        return isComma
    }
}
