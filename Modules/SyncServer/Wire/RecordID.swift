/// What may be an id: of a record, a device, a change.
enum RecordID {
    /// PROTOCOL.md, section 4, *Limits*: 1 to 128 bytes of letters, digits, `-`, `_`, `.`, `:`.
    static func isID(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            guard !bytes.isEmpty, bytes.count <= 128 else { return false }
            for byte in bytes where !isAllowed(byte) { return false }
            return true
        }
    }

    /// Whether an id may have this byte.
    @inline(__always)
    static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x61...0x7a, 0x41...0x5a, 0x30...0x39, 0x2d, 0x5f, 0x2e, 0x3a: true
        default: false
        }
    }

    /// Of a record: an id, and a UUID only in lower case, so that none is told in two ways.
    static func isAllowed(_ id: String) -> Bool {
        guard isID(id) else { return false }
        guard id.utf8.count == 36 else { return true }
        var id = id
        return id.withUTF8 { bytes in
            var hasUpper = false
            for (index, byte) in bytes.enumerated() {
                switch index {
                case 8, 13, 18, 23:
                    guard byte == 0x2d else { return true }
                default:
                    switch byte {
                    case 0x30...0x39, 0x61...0x66: continue
                    case 0x41...0x46: hasUpper = true
                    default: return true
                    }
                }
            }
            return !hasUpper
        }
    }
}
