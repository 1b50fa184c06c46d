extension JSONReader {
    /// The next value, whatever it is.
    public mutating func readValue() throws(JSONFailure) -> FieldValue {
        try parseValue(depth: depth)
    }

    /// Takes the next value without making it, checked as strictly as if it were read, and says where it stands.
    @discardableResult
    public mutating func skipValue() throws(JSONFailure) -> Range<Int> {
        skipSpace()
        let start = offset
        try checkValue(depth: depth)
        return start..<offset
    }

    private mutating func parseValue(depth: Int) throws(JSONFailure) -> FieldValue {
        switch try kind() {
        case .string: return .string(try text(of: scanString()))
        case .number: return try parseNumber()
        case .bool: return .bool(try readBool())
        case .null:
            try scanLiteral("null")
            return .null
        case .array: return .array(try parseArray(depth: depth))
        case .object: return try parseObject(depth: depth)
        }
    }

    private mutating func parseNumber() throws(JSONFailure) -> FieldValue {
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
        if refusesUnfitNumbers {
            offset = start
            throw failure
        }
        unfit = unfit ?? failure
    }

    private mutating func parseArray(depth: Int) throws(JSONFailure) -> [FieldValue] {
        var elements: [FieldValue] = []
        try enter(depth)
        if leave(UInt8(ascii: "]")) { return elements }
        while true {
            elements.append(try parseValue(depth: depth + 1))
            if try !goesOn(until: UInt8(ascii: "]"), "a comma or the end of the array") {
                return elements
            }
        }
    }

    private mutating func parseObject(depth: Int) throws(JSONFailure) -> FieldValue {
        let start = offset
        var members: [String: FieldValue] = [:]
        try enter(depth)
        if leave(UInt8(ascii: "}")) { return .object(members) }
        members.reserveCapacity(min(memberHint, 64))
        while true {
            let token = try scanName()
            let name = try text(of: token)
            try expectColon()
            let value = try parseValue(depth: depth + 1)
            guard members.updateValue(value, forKey: name) == nil else {
                throw JSONFailure(.duplicateMember, offset: token.start - 1, expected: "each member once")
            }
            if try !goesOn(until: UInt8(ascii: "}"), "a comma or the end of the object") { break }
        }
        memberHint = members.count
        guard members.count == 1, case .string(let text)? = members["$data"] else {
            return .object(members)
        }
        if let bytes = Base64.decode(text.utf8) { return .data(bytes) }
        unfit = unfit ?? JSONFailure(.notBase64, offset: start, expected: "base64 under $data")
        return .object(members)
    }

    private mutating func checkValue(depth: Int) throws(JSONFailure) {
        switch try kind() {
        case .string:
            let token = try scanString()
            if !token.isASCII { try check(token) }
        case .number:
            let start = offset
            if case .unfit = try scanNumber() { try noteUnfitNumber(from: start) }
        case .bool: _ = try readBool()
        case .null: try scanLiteral("null")
        case .array:
            try enter(depth)
            if leave(UInt8(ascii: "]")) { return }
            repeat {
                try checkValue(depth: depth + 1)
            } while try goesOn(until: UInt8(ascii: "]"), "a comma or the end of the array")
        case .object:
            try checkObject(depth: depth)
        }
    }

    private mutating func checkObject(depth: Int) throws(JSONFailure) {
        try enter(depth)
        if leave(UInt8(ascii: "}")) { return }
        var scope = names.open()
        defer { names.close(scope) }
        repeat {
            let token = try scanName()
            if !token.isASCII { try check(token) }
            let text = token.hasEscapes || !token.isASCII ? try text(of: token) : nil
            guard names.insert(token, text, &scope, base) else {
                throw JSONFailure(.duplicateMember, offset: token.start - 1, expected: "each member once")
            }
            try expectColon()
            try checkValue(depth: depth + 1)
        } while try goesOn(until: UInt8(ascii: "}"), "a comma or the end of the object")
    }

    private mutating func enter(_ depth: Int) throws(JSONFailure) {
        guard depth < maximumDepth else { throw failure(.tooDeep, "at most \(maximumDepth) levels") }
        offset += 1
    }

    @inline(__always)
    private mutating func leave(_ close: UInt8) -> Bool {
        skipSpace()
        guard offset < end, base[offset] == close else { return false }
        offset += 1
        return true
    }

    @inline(__always)
    private mutating func goesOn(until close: UInt8, _ expected: StaticString) throws(JSONFailure)
        -> Bool
    {
        skipSpace()
        guard offset < end else { throw failure(.truncated, "\(expected)") }
        let byte = base[offset]
        guard byte == UInt8(ascii: ",") || byte == close else { throw failure(.syntax, "\(expected)") }
        offset += 1
        return byte != close
    }

    @inline(__always)
    private mutating func scanName() throws(JSONFailure) -> StringToken {
        skipSpace()
        guard offset < end else { throw failure(.truncated, "a member's name") }
        guard base[offset] == UInt8(ascii: "\"") else { throw failure(.syntax, "a member's name") }
        return try scanString()
    }
}
