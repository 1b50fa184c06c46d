/// A number of JSON, as near as Swift's types come to it.
enum NumberToken {
    case int(Int64)
    case double(Double)
    /// Beyond what a `FieldValue` holds; the nearest double, which may be infinite.
    case unfit(nearest: Double)
}

/// 10^0 to 10^22, the powers of ten that a double holds exactly.
private let exactPowers: [Double] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
    1e18, 1e19, 1e20,
    1e21, 1e22,
]

/// A longer number is not worth its work; RFC 8259, section 6, leaves the limit to the reader.
private let greatestLength = 4096

extension JSONReader {
    /// Takes an integer that surely fits and is surely whole; else takes nothing, and ``scanNumber()`` says what it is.
    @inline(__always)
    mutating func takePlainInteger() -> Int64? {
        var position = offset
        let isNegative = base[position] == UInt8(ascii: "-")
        if isNegative { position &+= 1 }
        let start = position
        var value: UInt64 = 0
        while position < end, case let digit = base[position] &- UInt8(ascii: "0"), digit < 10 {
            value = value &* 10 &+ UInt64(digit)
            position &+= 1
        }
        let count = position - start
        guard count > 0, count < 19, position < end, base[position] != UInt8(ascii: "."),
            base[position] | 0x20 != UInt8(ascii: "e"), count == 1 || base[start] != UInt8(ascii: "0")
        else { return nil }
        offset = position
        return isNegative ? -Int64(value) : Int64(value)
    }

    /// Takes a number: an integer without fraction and exponent stays one, everything else is the nearest double.
    mutating func scanNumber() throws(JSONFailure) -> NumberToken {
        let start = offset
        let isNegative = base[offset] == UInt8(ascii: "-")
        if isNegative { offset &+= 1 }
        // Up to 19 digits fit into 64 bits unsigned; what follows is counted only.
        var mantissa: UInt64 = 0
        var digits = 0
        let integerStart = offset
        try scanDigits(into: &mantissa, digits: &digits)
        if base[integerStart] == UInt8(ascii: "0"), offset - integerStart > 1 {
            offset = integerStart + 1
            throw failure(.syntax, "no digit after a leading zero")
        }
        var exponent = 0
        var isInteger = true
        if offset < end, base[offset] == UInt8(ascii: ".") {
            isInteger = false
            offset &+= 1
            let fraction = offset
            try scanDigits(into: &mantissa, digits: &digits)
            exponent -= offset - fraction
        }
        if offset < end, base[offset] | 0x20 == UInt8(ascii: "e") {
            isInteger = false
            exponent += try scanExponent()
        }
        if isInteger, digits <= 19 {
            if isNegative, mantissa <= UInt64(Int64.max) + 1 {
                return .int(Int64(truncatingIfNeeded: 0 &- mantissa))
            }
            if !isNegative, mantissa <= UInt64(Int64.max) { return .int(Int64(mantissa)) }
        }
        guard offset - start <= greatestLength else {
            return .unfit(nearest: isNegative ? -.infinity : .infinity)
        }
        let value = double(
            from: start, mantissa: mantissa, digits: digits, exponent: exponent, isNegative)
        return isInteger || !value.isFinite ? .unfit(nearest: value) : .double(value)
    }

    /// Takes one digit or more; leading zeros count for nothing.
    @inline(__always)
    private mutating func scanDigits(into mantissa: inout UInt64, digits: inout Int)
        throws(JSONFailure)
    {
        let start = offset
        while offset < end, case let digit = base[offset] &- UInt8(ascii: "0"), digit < 10 {
            if digits > 0 || digit > 0 {
                if digits < 19 { mantissa = mantissa &* 10 &+ UInt64(digit) }
                digits += 1
            }
            offset &+= 1
        }
        guard offset > start else { throw failure(offset < end ? .syntax : .truncated, "a digit") }
    }

    private mutating func scanExponent() throws(JSONFailure) -> Int {
        offset &+= 1
        var isNegative = false
        if offset < end, base[offset] == UInt8(ascii: "+") || base[offset] == UInt8(ascii: "-") {
            isNegative = base[offset] == UInt8(ascii: "-")
            offset &+= 1
        }
        let start = offset
        var exponent = 0
        while offset < end, case let digit = base[offset] &- UInt8(ascii: "0"), digit < 10 {
            exponent = min(exponent * 10 + Int(digit), 1_000_000)
            offset &+= 1
        }
        guard offset > start else { throw failure(offset < end ? .syntax : .truncated, "a digit") }
        return isNegative ? -exponent : exponent
    }

    /// The nearest double: by one exact multiplication where mantissa and power are exact ("How to Read Floating Point
    /// Numbers Accurately", Clinger, 1990), else by the standard library.
    private func double(
        from start: Int, mantissa: UInt64, digits: Int, exponent: Int, _ isNegative: Bool
    ) -> Double {
        if digits <= 19, mantissa <= 1 << 53, exponent.magnitude <= 22 {
            let power = exactPowers[Int(exponent.magnitude)]
            let value = exponent < 0 ? Double(mantissa) / power : Double(mantissa) * power
            return isNegative ? -value : value
        }
        let text = String(
            decoding: UnsafeBufferPointer(start: base + start, count: offset - start), as: UTF8.self)
        // The grammar is checked, and every number of JSON is one of Swift's.
        return Double(text) ?? .infinity
    }
}
