/// A string as it stands in the bytes, without its quotes; its grammar is checked, its UTF-8 only where it is ASCII.
struct StringToken {
    var start: Int
    var end: Int
    var hasEscapes: Bool
    var isASCII: Bool
}

private let ones: UInt64 = 0x0101_0101_0101_0101
private let highBits: UInt64 = 0x8080_8080_8080_8080

extension JSONReader {
    /// Where a string ends that begins, behind its quote, at `start`, if it is ASCII without escapes and does not reach
    /// into the last bytes; else -1, and ``scanString()`` says what it is.
    @inline(__always)
    func plainEnd(from start: Int) -> Int {
        var position = start
        while position &+ 8 <= end {
            let word = UInt64(littleEndian: UnsafeRawPointer(base + position).loadUnaligned(as: UInt64.self))
            let quote = word ^ (ones &* 0x22)
            let slash = word ^ (ones &* 0x5c)
            let flags =
                ((quote &- ones) & ~quote | (slash &- ones) & ~slash | (word &- ones &* 0x20) & ~word | word) & highBits
            guard flags != 0 else {
                position &+= 8
                continue
            }
            position &+= flags.trailingZeroBitCount / 8
            return base[position] == UInt8(ascii: "\"") ? position : -1
        }
        return -1
    }

    /// Takes a string, quotes included, and checks everything but the UTF-8 of what is not ASCII.
    ///
    /// Eight bytes at a time, as in "Hacker's Delight", section 6-1: the lowest flagged byte is always a true one.
    mutating func scanString() throws(JSONFailure) -> StringToken {
        var position = offset + 1
        let start = position
        var hasEscapes = false
        var seen: UInt64 = 0
        while true {
            while position &+ 8 <= end {
                let word = UInt64(
                    littleEndian: UnsafeRawPointer(base + position).loadUnaligned(as: UInt64.self))
                let quote = word ^ (ones &* 0x22)
                let slash = word ^ (ones &* 0x5c)
                let flags =
                    ((quote &- ones) & ~quote | (slash &- ones) & ~slash | (word &- ones &* 0x20) & ~word)
                    & highBits
                if flags == 0 {
                    seen |= word
                    position &+= 8
                    continue
                }
                let index = flags.trailingZeroBitCount / 8
                seen |= word & ((1 << UInt64(index * 8)) &- 1)
                position += index
                break
            }
            guard position < end else {
                offset = end
                throw failure(.truncated, "the end of a string")
            }
            let byte = base[position]
            switch byte {
            case UInt8(ascii: "\""):
                offset = position + 1
                return StringToken(
                    start: start, end: position, hasEscapes: hasEscapes, isASCII: seen & highBits == 0)
            case UInt8(ascii: "\\"):
                hasEscapes = true
                position = try scanEscape(at: position).next
            case 0..<0x20:
                offset = position
                throw failure(.syntax, "a control character to be escaped")
            default:
                seen |= UInt64(byte)
                position &+= 1
            }
        }
    }

    /// The scalar that the escape at `position` stands for, and where it ends.
    mutating func scanEscape(at position: Int) throws(JSONFailure) -> (scalar: UInt32, next: Int) {
        guard position + 1 < end else {
            offset = end
            throw failure(.truncated, "an escape")
        }
        switch base[position + 1] {
        case UInt8(ascii: "\""): return (0x22, position + 2)
        case UInt8(ascii: "\\"): return (0x5c, position + 2)
        case UInt8(ascii: "/"): return (0x2f, position + 2)
        case UInt8(ascii: "b"): return (0x08, position + 2)
        case UInt8(ascii: "f"): return (0x0c, position + 2)
        case UInt8(ascii: "n"): return (0x0a, position + 2)
        case UInt8(ascii: "r"): return (0x0d, position + 2)
        case UInt8(ascii: "t"): return (0x09, position + 2)
        case UInt8(ascii: "u"): break
        default:
            offset = position
            throw failure(.syntax, "an escape")
        }
        let unit = try scanHex(at: position + 2)
        guard unit & 0xf800 == 0xd800 else { return (unit, position + 6) }
        // The first half of a pair must be followed by the second.
        guard unit < 0xdc00, position + 7 < end, base[position + 6] == UInt8(ascii: "\\"),
            base[position + 7] == UInt8(ascii: "u")
        else {
            offset = position
            throw failure(.text, "a whole surrogate pair")
        }
        let low = try scanHex(at: position + 8)
        guard low & 0xfc00 == 0xdc00 else {
            offset = position
            throw failure(.text, "a whole surrogate pair")
        }
        return (0x10000 + (unit & 0x3ff) << 10 + low & 0x3ff, position + 12)
    }

    private mutating func scanHex(at position: Int) throws(JSONFailure) -> UInt32 {
        guard position + 4 <= end else {
            offset = end
            throw failure(.truncated, "four hex digits")
        }
        var unit: UInt32 = 0
        for index in position..<position + 4 {
            let byte = base[index]
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): unit = unit << 4 | UInt32(byte - 0x30)
            case UInt8(ascii: "a")...UInt8(ascii: "f"): unit = unit << 4 | UInt32(byte - 0x57)
            case UInt8(ascii: "A")...UInt8(ascii: "F"): unit = unit << 4 | UInt32(byte - 0x37)
            default:
                offset = index
                throw failure(.syntax, "a hex digit")
            }
        }
        return unit
    }

    /// The text of a string, its UTF-8 checked.
    mutating func text(of token: StringToken) throws(JSONFailure) -> String {
        let raw = UnsafeBufferPointer(start: base + token.start, count: token.end - token.start)
        if !token.hasEscapes {
            if token.isASCII { return String(decoding: raw, as: UTF8.self) }
            if let text = String(validating: raw, as: UTF8.self) { return text }
            throw malformed(token)
        }
        // An escape is never shorter than what it stands for.
        var decoded: [UInt8] = []
        decoded.reserveCapacity(raw.count)
        var position = token.start
        while true {
            let escape = nextBackslash(from: position, to: token.end)
            decoded.append(contentsOf: UnsafeBufferPointer(start: base + position, count: escape - position))
            guard escape < token.end else { break }
            let (scalar, next) = try scanEscape(at: escape)
            if scalar < 0x80 {
                decoded.append(UInt8(truncatingIfNeeded: scalar))
            } else {
                // scanEscape has refused lone surrogates, so the scalar is one.
                decoded.append(contentsOf: UTF8.encode(Unicode.Scalar(scalar) ?? "\u{fffd}")!)
            }
            position = next
        }
        if token.isASCII { return String(decoding: decoded, as: UTF8.self) }
        // What an escape stands for begins no half character and ends none, so nothing is mended by it.
        if let text = String(validating: decoded, as: UTF8.self) { return text }
        throw malformed(token)
    }

    private func nextBackslash(from start: Int, to limit: Int) -> Int {
        var position = start
        while position + 8 <= limit {
            let word = UInt64(littleEndian: UnsafeRawPointer(base + position).loadUnaligned(as: UInt64.self))
            let slash = word ^ (ones &* 0x5c)
            let flags = (slash &- ones) & ~slash & highBits
            if flags != 0 { return position + flags.trailingZeroBitCount / 8 }
            position &+= 8
        }
        while position < limit, base[position] != UInt8(ascii: "\\") { position &+= 1 }
        return position
    }

    /// Checks the UTF-8 of a string that is not ASCII.
    func check(_ token: StringToken) throws(JSONFailure) {
        if firstMalformed(token) != nil { throw malformed(token) }
    }

    private func malformed(_ token: StringToken) -> JSONFailure {
        JSONFailure(.text, offset: firstMalformed(token) ?? token.start, expected: "UTF-8")
    }

    /// The first byte that is not UTF-8 by table 3-7 of the Unicode Standard.
    private func firstMalformed(_ token: StringToken) -> Int? {
        var position = token.start
        while position < token.end {
            let lead = base[position]
            let length: Int
            var second: ClosedRange<UInt8> = 0x80...0xbf
            switch lead {
            case 0..<0x80:
                position &+= 1
                while position + 8 <= token.end,
                    UnsafeRawPointer(base + position).loadUnaligned(as: UInt64.self) & highBits == 0
                {
                    position &+= 8
                }
                continue
            case 0xc2...0xdf: length = 2
            case 0xe0: (length, second) = (3, 0xa0...0xbf)
            case 0xed: (length, second) = (3, 0x80...0x9f)
            case 0xe1...0xef: length = 3
            case 0xf0: (length, second) = (4, 0x90...0xbf)
            case 0xf4: (length, second) = (4, 0x80...0x8f)
            case 0xf1...0xf3: length = 4
            default: return position
            }
            guard position + length <= token.end, second.contains(base[position + 1]),
                length < 3 || base[position + 2] & 0xc0 == 0x80, length < 4 || base[position + 3] & 0xc0 == 0x80
            else { return position }
            position += length
        }
        return nil
    }
}
