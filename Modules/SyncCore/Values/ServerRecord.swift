/// A record as the server says it is, from a page or a verdict.
public struct ServerRecord: Sendable, Hashable {
    /// What became of the record.
    public enum Presence: Sendable, Hashable {
        case live
        /// A tombstone.
        case deleted
        /// It left all scopes asked for; not a delete.
        case gone
    }

    public var key: RecordKey
    /// Grows in commit order; a client relies on the order only.
    public var version: Int64
    public var presence: Presence
    /// Its fields, declared here or not; may be empty for a tombstone, is empty for `gone`.
    public var fields: [String: FieldValue]

    public init(key: RecordKey, version: Int64, presence: Presence = .live, fields: [String: FieldValue] = [:]) {
        self.key = key
        self.version = version
        self.presence = presence
        self.fields = fields
    }
}
