/// The name of a record: its entity and its id. Ids of different entities are independent (PROTOCOL.md, *Records*).
public struct RecordKey: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// The entity's name, as on the wire (`card`).
    public let entity: String
    /// The record's id: 1 to 128 bytes of letters, digits, `-`, `_`, `.`, `:`; UUIDs in lower case.
    public let id: String

    /// The name of the record `id` of `entity`.
    public init(_ entity: String, _ id: String) {
        self.entity = entity
        self.id = id
    }

    public var description: String { "\(entity) \(id)" }

    public static func < (a: RecordKey, b: RecordKey) -> Bool { (a.entity, a.id) < (b.entity, b.id) }

    /// Whether a text may be an id at all: PROTOCOL.md, section 4, *Limits*.
    public static func isValidID(_ id: some StringProtocol) -> Bool { isValidID(String(id)) }

    /// Whether a text may be an id at all: PROTOCOL.md, section 4, *Limits*.
    public static func isValidID(_ id: String) -> Bool {
        var id = id
        return id.withUTF8 { isValidID(bytes: UnsafeRawBufferPointer($0)) }
    }

    /// Whether the UTF-8 of a text may be an id; asked of every record of every page, so without generic code.
    package static func isValidID(bytes: UnsafeRawBufferPointer) -> Bool {
        guard (1...128).contains(bytes.count) else { return false }
        // One bit for each byte that an id may have: `-`, `.`, digits, `:`; then letters and `_`.
        let low: UInt64 = 1 << 45 | 1 << 46 | 0x3ff << 48 | 1 << 58
        let high: UInt64 = 0x3ff_ffff << 1 | 1 << 31 | 0x3ff_ffff << 33
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            let set = byte < 64 ? low : byte < 128 ? high : 0
            if set >> UInt64(byte & 63) & 1 == 0 { return false }
            index += 1
        }
        return true
    }
}
