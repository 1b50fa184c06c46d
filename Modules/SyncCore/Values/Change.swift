/// What a change does to its record.
public enum Operation: String, Sendable, Hashable, CaseIterable {
    case create, update, delete
}

/// How two writes of one field become one value (PROTOCOL.md, `rule`).
public enum MergeRule: String, Sendable, Hashable, CaseIterable {
    /// The last writer wins, by stamp, device and sequence; absent on the wire.
    case lastWriter
    /// The server adds `new` − `old`.
    case sum
    /// A set of distinct scalars: what is put in and taken out counts, per element the last writer wins.
    case union
    /// Done only over the value that was seen; else the client merges.
    case check
}

/// What one change does to one field.
public struct FieldDelta: Sendable, Hashable {
    /// The value before; `nil` for a create.
    public var old: FieldValue?
    /// The value after; `null` clears.
    public var new: FieldValue
    /// The field's rule.
    public var rule: MergeRule
    /// The field's own stamp, where it is not its change's (changes that were merged keep each field's).
    public var stamp: Stamp?

    public init(old: FieldValue?, new: FieldValue, rule: MergeRule = .lastWriter, stamp: Stamp? = nil) {
        self.old = old
        self.new = new
        self.rule = rule
        self.stamp = stamp
    }
}

/// One change of one record, as the queue holds it and the wire carries it.
///
/// From the first try on, `id` means the same fields, stamps and `baseVersion` for ever.
public struct Change: Sendable, Hashable, Identifiable {
    /// The idempotency key (`changeID`), a UUID in lower case, made with the local write.
    public var id: String
    /// 1, 2, 3 … in the order in which this device made its changes; none is used twice.
    public var sequence: Int64
    /// The record.
    public var record: RecordKey
    public var operation: Operation
    /// The declared schema version under which it was made.
    public var schemaVersion: Int
    /// The hybrid logical time of the write.
    public var stamp: Stamp
    /// The record's version last accepted here when it was first sent; `nil` where there was none.
    public var baseVersion: Int64?
    /// Per field, before and after; empty for a delete.
    public var fields: [String: FieldDelta]
    /// The id of the atomic unit that it belongs to (`transaction` on the wire).
    public var unit: String?
    /// The app's name for what the user did.
    public var intent: String?
    /// The earlier device id under which it was made (a restored or copied device).
    public var deviceID: String?

    public init(
        id: String, sequence: Int64, record: RecordKey, operation: Operation, schemaVersion: Int = 1, stamp: Stamp,
        baseVersion: Int64? = nil, fields: [String: FieldDelta] = [:], unit: String? = nil, intent: String? = nil,
        deviceID: String? = nil
    ) {
        self.id = id
        self.sequence = sequence
        self.record = record
        self.operation = operation
        self.schemaVersion = schemaVersion
        self.stamp = stamp
        self.baseVersion = baseVersion
        self.fields = fields
        self.unit = unit
        self.intent = intent
        self.deviceID = deviceID
    }
}
