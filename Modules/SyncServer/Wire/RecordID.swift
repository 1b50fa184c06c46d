internal import SyncCore

/// What may be an id: of a record, a device, a change.
enum RecordID {
    /// PROTOCOL.md, section 4, *Limits*: 1 to 128 bytes of letters, digits, `-`, `_`, `.`, `:`.
    static func isID(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { RecordKey.isValidID(bytes: UnsafeRawBufferPointer($0)) }
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
        var id = id
        return id.withUTF8 { bytes in
            guard RecordKey.isValidID(bytes: UnsafeRawBufferPointer(bytes)) else { return false }
            guard bytes.count == 36 else { return true }
            var hasUpper = false
            var index = 0
            while index < 36 {
                let byte = bytes[index]
                if index == 8 || index == 13 || index == 18 || index == 23 {
                    guard byte == 0x2d else { return true }
                } else {
                    switch byte {
                    case 0x30...0x39, 0x61...0x66: break
                    case 0x41...0x46: hasUpper = true
                    default: return true
                    }
                }
                index += 1
            }
            return !hasUpper
        }
    }
}
