/// The hybrid logical time of a write: milliseconds since 1970, and a counter for writes within one millisecond.
///
/// Its text is 12 lower-case hex digits of milliseconds, `-`, and 4 of counter (`0195a3f2c4d1-0004`), so that texts
/// sort as stamps do. The milliseconds have 48 bits. Source of the rule: "Logical Physical Clocks", Kulkarni et al., 2014.
public struct Stamp: Sendable, Hashable, Comparable {
    /// Milliseconds in the upper 48 bits, the counter in the lower 16.
    public let packed: UInt64

    /// The stamp with this packed form.
    public init(packed: UInt64) { self.packed = packed }

    /// The stamp of a time and a counter; milliseconds above 48 bits are cut to the greatest.
    public init(milliseconds: UInt64, counter: UInt16) {
        packed = min(milliseconds, Self.greatestMilliseconds) << 16 | UInt64(counter)
    }

    /// Before every other stamp.
    public static let zero = Stamp(packed: 0)
    static let greatestMilliseconds: UInt64 = 0xffff_ffff_ffff

    /// Milliseconds since 1970-01-01T00:00:00Z.
    public var milliseconds: UInt64 { packed >> 16 }

    /// The counter within the millisecond.
    public var counter: UInt16 { UInt16(truncatingIfNeeded: packed) }

    /// The next greater stamp; the counter carries into the milliseconds, and the greatest stamp stays.
    public var successor: Stamp { packed == .max ? self : Stamp(packed: packed + 1) }

    public static func < (a: Stamp, b: Stamp) -> Bool { a.packed < b.packed }
}

extension Stamp: LosslessStringConvertible {
    /// The stamp of a text of exactly the documented form; anything else is `nil`.
    public init?(_ description: String) {
        var packed: UInt64 = 0
        var length = 0
        for byte in description.utf8 {
            length += 1
            if length == 13 {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): packed = packed << 4 | UInt64(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): packed = packed << 4 | UInt64(byte - UInt8(ascii: "a") + 10)
            default: return nil
            }
            guard length <= 17 else { return nil }
        }
        guard length == 17 else { return nil }
        self.packed = packed
    }

    public var description: String {
        String(unsafeUninitializedCapacity: 17) { buffer in
            var rest = packed
            for index in stride(from: 16, through: 0, by: -1) {
                if index == 12 {
                    buffer[index] = UInt8(ascii: "-")
                    continue
                }
                let digit = UInt8(truncatingIfNeeded: rest & 0xf)
                buffer[index] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
                rest >>= 4
            }
            return 17
        }
    }
}
