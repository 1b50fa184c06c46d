/// Base64 with padding and without line breaks (RFC 4648, section 4).
enum Base64 {
    private static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 0xff, count: 256)
        for (value, letter) in alphabet.enumerated() { values[Int(letter)] = UInt8(value) }
        return values
    }()

    static func append(_ bytes: [UInt8], to text: inout [UInt8]) {
        text.reserveCapacity(text.count + (bytes.count + 2) / 3 * 4)
        var index = 0
        while index + 2 < bytes.count {
            let group =
                UInt32(bytes[index]) << 16 | UInt32(bytes[index + 1]) << 8 | UInt32(bytes[index + 2])
            text.append(alphabet[Int(group >> 18 & 0x3f)])
            text.append(alphabet[Int(group >> 12 & 0x3f)])
            text.append(alphabet[Int(group >> 6 & 0x3f)])
            text.append(alphabet[Int(group & 0x3f)])
            index += 3
        }
        guard index < bytes.count else { return }
        let hasTwo = index + 1 < bytes.count
        let group = UInt32(bytes[index]) << 16 | (hasTwo ? UInt32(bytes[index + 1]) << 8 : 0)
        text.append(alphabet[Int(group >> 18)])
        text.append(alphabet[Int(group >> 12 & 0x3f)])
        text.append(hasTwo ? alphabet[Int(group >> 6 & 0x3f)] : UInt8(ascii: "="))
        text.append(UInt8(ascii: "="))
    }

    /// The bytes, or `nil` for anything that ``append(_:to:)`` would not have written.
    static func decode(_ text: String.UTF8View) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 4 * 3)
        var group: UInt32 = 0
        var letters = 0
        var padding = 0
        for letter in text {
            letters += 1
            if letter == UInt8(ascii: "=") {
                padding += 1
                group <<= 6
            } else {
                let value = values[Int(letter)]
                guard value != 0xff, padding == 0 else { return nil }
                group = group << 6 | UInt32(value)
            }
            guard letters % 4 == 0 else { continue }
            guard padding <= 2, group & (padding == 2 ? 0xffff : padding == 1 ? 0xff : 0) == 0 else {
                return nil
            }
            bytes.append(UInt8(truncatingIfNeeded: group >> 16))
            if padding < 2 { bytes.append(UInt8(truncatingIfNeeded: group >> 8)) }
            if padding < 1 { bytes.append(UInt8(truncatingIfNeeded: group)) }
            // Padding in a group that is not the last makes the next letter fail; its own `=` must, too.
            guard padding == 0 || letters == text.count else { return nil }
            group = 0
        }
        return letters % 4 == 0 ? bytes : nil
    }
}
