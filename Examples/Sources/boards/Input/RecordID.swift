import SyncCore

/// Ids as the program takes them: checked, and UUIDs in lower case (PROTOCOL.md, *Records*).
enum RecordID {
    /// The id that a text means; `nil` for what cannot be one.
    static func read(_ text: String) -> String? {
        guard RecordKey.isValidID(text) else { return nil }
        return isUUID(text) ? text.lowercased() : text
    }

    private static func isUUID(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 36 else { return false }
        return bytes.enumerated().allSatisfy { place, byte in
            if [8, 13, 18, 23].contains(place) { return byte == UInt8(ascii: "-") }
            return Character(UnicodeScalar(byte)).isHexDigit
        }
    }
}
