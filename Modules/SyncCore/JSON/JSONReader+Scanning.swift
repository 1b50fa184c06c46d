extension JSONReader {
    func failure(_ kind: JSONFailure.Kind, _ expected: String) -> JSONFailure {
        JSONFailure(kind, offset: offset, expected: expected)
    }

    @inline(__always)
    mutating func skipSpace() {
        while offset < end {
            switch base[offset] {
            case 0x20, 0x0a, 0x0d, 0x09: offset &+= 1
            default: return
            }
        }
    }

    /// Leaves the offset where it is when the next value is of another type.
    @inline(__always)
    mutating func require(_ wanted: Kind, _ expected: StaticString) throws(JSONFailure) {
        guard try kind() == wanted else { throw failure(.wrongType, "\(expected)") }
    }

    @inline(__always)
    mutating func expectColon() throws(JSONFailure) {
        skipSpace()
        guard offset < end else { throw failure(.truncated, "a colon") }
        guard base[offset] == UInt8(ascii: ":") else { throw failure(.syntax, "a colon") }
        offset &+= 1
    }

    @inline(never)
    private mutating func scanLiteral(_ literal: StaticString) throws(JSONFailure) {
        let length = literal.utf8CodeUnitCount
        for index in 0..<length {
            guard offset + index < end else {
                offset = end
                throw failure(.truncated, "\(literal)")
            }
            guard base[offset + index] == literal.utf8Start[index] else {
                offset += index
                throw failure(.syntax, "\(literal)")
            }
        }
        offset += length
    }

    /// The four bytes at `position`; `nil` near the end.
    @inline(__always)
    private func word(at position: Int) -> UInt32? {
        guard position + 4 <= end else { return nil }
        return UInt32(bigEndian: UnsafeRawPointer(base + position).loadUnaligned(as: UInt32.self))
    }

    /// Takes `null`, of which the first letter stands here.
    @inline(__always)
    mutating func takeNull() throws(JSONFailure) {
        guard word(at: offset) == 0x6e75_6c6c else { return try scanLiteral("null") }
        offset += 4
    }

    /// Takes `true` or `false`, of which the first letter stands here.
    @inline(__always)
    mutating func takeBool() throws(JSONFailure) -> Bool {
        if word(at: offset) == 0x7472_7565 {
            offset += 4
            return true
        }
        if word(at: offset + 1) == 0x616c_7365, base[offset] == UInt8(ascii: "f") {
            offset += 5
            return false
        }
        let isTrue = base[offset] == UInt8(ascii: "t")
        try scanLiteral(isTrue ? "true" : "false")
        return isTrue
    }

    /// The next value, which must be `true` or `false`.
    public mutating func readBool() throws(JSONFailure) -> Bool {
        try require(.bool, "true or false")
        return try takeBool()
    }

    /// Takes the next value if it is `null`, and says whether it was.
    public mutating func readNull() throws(JSONFailure) -> Bool {
        skipSpace()
        guard offset < end else { throw failure(.truncated, "a value") }
        guard base[offset] == UInt8(ascii: "n") else { return false }
        try takeNull()
        return true
    }

    /// The next value, which must be a string.
    public mutating func readString() throws(JSONFailure) -> String {
        try require(.string, "a string")
        return try text(of: scanString())
    }

    /// The next value, which must be a string that is compared with others: a word of a contract, an id, a name. One with
    /// thousands of marks in a row is none of these; it is made stream-safe, so that finding that out takes no time.
    package mutating func readWord() throws(JSONFailure) -> String {
        try require(.string, "a string")
        let token = try scanString()
        let text = try text(of: token)
        return token.isASCII && !token.hasEscapes ? text : text.streamSafe
    }

    /// Takes the next value, which must be a string, and says where its text stands in the bytes, without the quotes;
    /// `nil`, and nothing taken, where what stands there is not the text itself: with escapes, or not ASCII.
    package mutating func readPlainText() throws(JSONFailure) -> Range<Int>? {
        try require(.string, "a string")
        let start = offset
        let token = try scanString()
        guard token.isASCII, !token.hasEscapes else {
            offset = start
            return nil
        }
        return token.start..<token.end
    }

    /// The next value, which must be an integer of 64 bits; `7.0` is one.
    public mutating func readInt() throws(JSONFailure) -> Int64 {
        try require(.number, "an integer")
        let start = offset
        let number = try scanNumber()
        switch number {
        case .int(let value): return value
        case .double(let value):
            // Above 2^53 a double does not name one integer any more.
            if let exact = Int64(exactly: value), exact.magnitude <= 1 << 53 { return exact }
            offset = start
            throw failure(.wrongType, "an integer")
        case .unfit:
            offset = start
            throw failure(.numberDoesNotFit, "an integer of 64 bits")
        }
    }

    /// The next value, which must be a number; an integer is rounded to the nearest double.
    public mutating func readDouble() throws(JSONFailure) -> Double {
        try require(.number, "a number")
        let start = offset
        switch try scanNumber() {
        case .int(let value): return Double(value)
        case .double(let value): return value
        case .unfit(let nearest):
            guard nearest.isFinite else {
                offset = start
                throw failure(.numberDoesNotFit, "a number that a double can hold")
            }
            return nearest
        }
    }
}
