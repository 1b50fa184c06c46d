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
        // Asked of every record of every page, so without generic code.
        var id = id
        return id.withUTF8 { bytes in
            guard (1...128).contains(bytes.count) else { return false }
            for byte in bytes {
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
                    UInt8(ascii: ":"):
                    continue
                default: return false
                }
            }
            return true
        }
    }
}
