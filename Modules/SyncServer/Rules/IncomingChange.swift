internal import SyncCore

/// One change as a device sent it, well formed, its stamps already clamped to the server's clock.
struct IncomingChange: Sendable, Hashable {
    /// What it does to one field.
    struct Field: Sendable, Hashable {
        var name: String
        /// The value before; `nil` where none was told.
        var old: FieldValue?
        var new: FieldValue
        var rule: MergeRule
        var stamp: Stamp
    }

    /// The idempotency key.
    var id: String
    /// The device under which it was made.
    var device: String
    var sequence: Int64
    var record: RecordKey
    var operation: Operation
    var stamp: Stamp
    var baseVersion: Int64?
    /// In the order of their names, each once.
    var fields: [Field]
    var unit: String?
    var intent: String?
    /// Whether a stamp of it was too far ahead.
    var isClamped = false
    /// How many bytes it took on the wire.
    var size = 0
    /// Whether it refers to a record by a name of the device's that stands for the server's id since an earlier request: what is kept
    /// is not what was said.
    var isTranslated = false

    /// The place of the change itself: of its delete, or of its being a create.
    var tag: WriteTag { WriteTag(stamp: stamp, device: device, sequence: sequence) }

    func tag(of field: Field) -> WriteTag {
        WriteTag(stamp: field.stamp, device: device, sequence: sequence)
    }

    /// The highest stamp of it, for the answer's `stamp`.
    var highestStamp: Stamp {
        fields.reduce(stamp) { Swift.max($0, $1.stamp) }
    }
}
