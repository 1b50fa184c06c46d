internal import SyncCore

/// Two hashes of a change's content, to tell the same key with other content. No defence against an attacker: whoever
/// finds two contents with one digest deceives only the device that sent both.
struct ContentDigest: Sendable, Hashable {
    private(set) var first: UInt64 = 0xcbf2_9ce4_8422_2325
    private(set) var second: UInt64 = 0x9ae1_6a3b_2f90_404f

    init() {}

    init(first: UInt64, second: UInt64) {
        self.first = first
        self.second = second
    }

    @inline(__always)
    mutating func add(byte: UInt8) {
        // FNV-1a, and a second one with a prime of its own.
        first = (first ^ UInt64(byte)) &* 0x100_0000_01b3
        second = (second ^ UInt64(byte)) &* 0x9e37_79b9_7f4a_7c15
        second ^= second >> 29
    }

    mutating func add(text: String) {
        var text = text
        // On a copy, which stays in registers.
        let digest = self
        self = text.withUTF8 { bytes in
            var digest = digest
            var index = 0
            while index < bytes.count {
                digest.add(byte: bytes[index])
                index += 1
            }
            // 0xff is in no UTF-8, so no two lists of texts run together.
            digest.add(byte: 0xff)
            return digest
        }
    }

    /// A text that may be absent, which is not the same as empty.
    mutating func add(optional text: String?) {
        guard let text else {
            add(byte: 0)
            return add(byte: 0xff)
        }
        add(byte: 1)
        add(text: text)
    }

    /// The same as its text would give.
    mutating func add(stamp: Stamp?) {
        add(byte: stamp == nil ? 0 : 1)
        if let stamp {
            var shift: UInt64 = 64
            while shift > 0 {
                shift -= 4
                let digit = UInt8(truncatingIfNeeded: stamp.packed >> shift & 0xf)
                add(byte: digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
                if shift == 16 { add(byte: UInt8(ascii: "-")) }
            }
        }
        add(byte: 0xff)
    }

    mutating func add(number: Int64) {
        var rest = number
        for _ in 0..<8 {
            add(byte: UInt8(truncatingIfNeeded: rest))
            rest >>= 8
        }
    }

    mutating func add(bytes: some Sequence<UInt8>) {
        for byte in bytes { add(byte: byte) }
        add(byte: 0xff)
    }

    /// A value, so that values that are the same JSON give the same.
    mutating func add(value: FieldValue) {
        switch value {
        case .null: add(byte: 0)
        case .bool(let value): add(byte: value ? 2 : 1)
        case .int(let value):
            add(byte: 3)
            add(number: value)
        case .double(let value):
            guard let exact = Int64(exactly: value) else {
                add(byte: 4)
                return add(number: Int64(bitPattern: value.bitPattern))
            }
            add(value: .int(exact))
        case .string(let value):
            add(byte: 5)
            add(text: value)
        case .data(let value):
            add(byte: 6)
            add(number: Int64(value.count))
            add(bytes: value)
        case .array(let elements):
            add(byte: 7)
            add(number: Int64(elements.count))
            for element in elements { add(value: element) }
        case .object(let members):
            add(byte: 8)
            add(number: Int64(members.count))
            for (name, value) in members.sorted(by: { $0.key < $1.key }) {
                add(text: name)
                add(value: value)
            }
        }
    }
}
