internal import SyncCore

/// Takes bytes that are of one exact form, the one in which they were written here; anything else is for a reader of JSON.
struct PlainText {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { offset == bytes.count }

    /// Whether the text stood here.
    mutating func take(_ text: StaticString) -> Bool {
        let length = text.utf8CodeUnitCount
        guard offset + length <= bytes.count else { return false }
        for index in 0..<length where bytes[offset + index] != text.utf8Start[index] { return false }
        offset += length
        return true
    }

    /// Whether the text stood here.
    mutating func take(_ text: UnsafeRawBufferPointer) -> Bool {
        let end = offset + text.count
        guard end <= bytes.count, UnsafeRawBufferPointer(rebasing: bytes[offset..<end]).hasSameBytes(as: text) else {
            return false
        }
        offset = end
        return true
    }

    /// An integer of at most 18 digits, which is what no sum of them can be too large for.
    mutating func takeInteger() -> Int64? {
        var number: Int64 = 0
        let start = offset
        while offset < bytes.count, case 0x30...0x39 = bytes[offset] {
            number = number &* 10 &+ Int64(bytes[offset] &- 0x30)
            offset += 1
        }
        guard (1...18).contains(offset - start), offset - start == 1 || bytes[start] != 0x30 else { return nil }
        return number
    }

    /// The bytes of an id (``RecordID/isID(_:)``).
    mutating func takeID() -> Slice<UnsafeRawBufferPointer>? {
        let start = offset
        while offset < bytes.count, RecordID.isAllowed(bytes[offset]) { offset += 1 }
        return offset > start ? bytes[start..<offset] : nil
    }
}
