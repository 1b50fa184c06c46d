/// Texts of a usual length that were made lately: the ids of parents, dates and states of a page stand there again and
/// again, and the second time a text costs a comparison in place of memory of its own.
///
/// Bounded: one text for each of 64 places, each of at most 64 bytes.
struct RecentTexts: Sendable {
    private static let places = 64
    /// Shorter ones need no memory of their own.
    static let lengths = 16...64

    private struct Recent: Sendable {
        /// Where the text stands in the reader's bytes.
        var start: Int
        var length: Int
        var text: String
    }

    private var recent: ContiguousArray<Recent> = []
    /// Short readers are not worth it.
    private var made = 0

    /// The text of `length` bytes of ASCII at `start`; `length` is one of ``lengths``.
    @inline(__always)
    mutating func text(_ start: Int, _ length: Int, _ base: UnsafePointer<UInt8>) -> String {
        let bytes = UnsafeRawPointer(base + start)
        guard !recent.isEmpty else { return first(bytes, length) }
        let last = bytes.loadUnaligned(fromByteOffset: length - 8, as: UInt64.self)
        let hash = (bytes.loadUnaligned(as: UInt64.self) &* 31 &+ last) &* 0x9e37_79b9_7f4a_7c15
        let place = Int(truncatingIfNeeded: hash >> 58)
        if recent[place].length == length, Self.areSame(bytes, UnsafeRawPointer(base + recent[place].start), length) {
            return recent[place].text
        }
        let text = Self.make(bytes, length)
        recent[place] = Recent(start: start, length: length, text: text)
        return text
    }

    @inline(never)
    private mutating func first(_ bytes: UnsafeRawPointer, _ length: Int) -> String {
        made += 1
        if made > Self.places {
            recent = ContiguousArray(repeating: Recent(start: 0, length: 0, text: ""), count: Self.places)
        }
        return Self.make(bytes, length)
    }

    @inline(__always)
    private static func make(_ bytes: UnsafeRawPointer, _ length: Int) -> String {
        String(decoding: UnsafeRawBufferPointer(start: bytes, count: length), as: UTF8.self)
    }

    /// Eight bytes at a time, the last eight perhaps twice.
    @inline(__always)
    private static func areSame(_ a: UnsafeRawPointer, _ b: UnsafeRawPointer, _ length: Int) -> Bool {
        var index = 0
        while index + 8 < length {
            let isSame =
                a.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                == b.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            if !isSame { return false }
            index += 8
        }
        return a.loadUnaligned(fromByteOffset: length - 8, as: UInt64.self)
            == b.loadUnaligned(fromByteOffset: length - 8, as: UInt64.self)
    }
}
