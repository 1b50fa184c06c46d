extension JSONReader {
    /// Takes a member's name, quotes included, if it stands in the tree behind `node`; else takes nothing but the white
    /// space, and checks that a string begins here.
    @inline(__always)
    mutating func takeKnownName(after node: Int32) throws(JSONFailure) -> Int32 {
        try beginName()
        guard node >= 0 else { return NameTree.none }
        let next = tree.next(after: node, at: offset + 1, base, end)
        if next >= 0 { offset += tree.length(next) + 2 }
        return next
    }

    /// Takes a member's name that the tree does not have behind `node`, and sees to it that the object has not told it
    /// before. From the first name on that the tree does not take, `node` is `none`, and ``names`` has the object's.
    @inline(never)
    mutating func takeNewName(after node: inout Int32) throws(JSONFailure) -> String {
        let token = try scanString()
        let name = try name(of: token)
        if node >= 0 {
            switch tree.add(name, token, after: node, base) {
            case .added(let added):
                node = added
                return name
            case .twice: throw toldTwice(token)
            case .full:
                names.open()
                for (token, text) in tree.path(to: node) { _ = names.insert(token, text, base) }
                node = NameTree.none
            }
        }
        guard names.insert(token, name, base) else { throw toldTwice(token) }
        return name
    }

    /// Where names must be stream-safe, one that is not counts as a value that does not fit, and is made so.
    @inline(__always)
    private mutating func name(of token: StringToken) throws(JSONFailure) -> String {
        let name = try text(of: token)
        guard wantsStreamSafeNames, !token.isASCII || token.hasEscapes, !name.isStreamSafe else { return name }
        let failure = JSONFailure(
            .text, offset: token.start - 1, expected: "a name with at most \(String.mostMarks) marks in a row")
        if refusesUnfitNumbers { throw failure }
        unfit = unfit ?? failure
        return name.streamSafe
    }

    /// What ``nextPlainKey()`` finds.
    package enum PlainKey: Sendable, Hashable {
        /// The object has ended.
        case end
        /// The name's bytes, without the quotes; ASCII without escapes.
        case name(Range<Int>)
        /// A name that is not its own bytes; the reader is of no more use.
        case other
    }

    /// As ``nextKey()``, for who sees to it that no name is told twice, and needs no text of it.
    package mutating func nextPlainKey() throws(JSONFailure) -> PlainKey {
        precondition(openCount > 0 && top.isObject, "nextPlainKey() outside of an object")
        guard try advance(past: UInt8(ascii: "}"), "a comma or the end of the object") else { return .end }
        try beginName()
        let token = try scanString()
        guard token.isASCII, !token.hasEscapes else { return .other }
        try expectColon()
        return .name(token.start..<token.end)
    }

    func toldTwice(_ token: StringToken) -> JSONFailure {
        JSONFailure(.duplicateMember, offset: token.start - 1, expected: "each member once")
    }

    @inline(__always)
    private mutating func beginName() throws(JSONFailure) {
        skipSpace()
        guard offset < end else { throw failure(.truncated, "a member's name") }
        guard base[offset] == UInt8(ascii: "\"") else { throw failure(.syntax, "a member's name") }
    }
}
