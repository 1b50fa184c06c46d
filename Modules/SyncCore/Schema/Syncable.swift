/// A record type that syncs: its schema, and four steps that an odd entity may do its own way.
///
/// A declared model gets all four for nothing. An app implements them for what does not live in a table of this
/// database (files, another database). The engine goes over the handlers without knowing any of them, in the order in which
/// it was given them, never inside a transaction; a throw is reported for that entity and stops no other.
public protocol Syncable: Sendable {
    /// What the entity looks like.
    var schema: EntitySchema { get }
    /// Changes that the change log does not know yet; each becomes an entry, all in one transaction, before packaging.
    func collectDirty() async throws -> [FoundChange]
    /// What goes out for a change that is sent for the first time; by default the change as it is.
    func buildPayload(_ change: Change) throws -> Change
    /// A record came with a page or a verdict, or went with a full pass (`deleted`), or with a dropped root, a leave that had waited for
    /// unsent changes, or a create that the user gave up (`gone`), and that stands; by default nothing is left to do.
    ///
    /// The newest word on a record may be told twice, as after a kill. What this throws is offered again in the next cycle.
    func applyResponse(_ record: ServerRecord) async throws
    /// These changes were decided; by default nothing is left to do.
    func markSynced(_ changes: [Change]) async throws
}

extension Syncable {
    public func collectDirty() async throws -> [FoundChange] { [] }
    public func buildPayload(_ change: Change) throws -> Change { change }
    public func applyResponse(_ record: ServerRecord) async throws {}
    public func markSynced(_ changes: [Change]) async throws {}
}

/// A schema is its own handler: a declared entity needs nothing else.
extension EntitySchema: Syncable {
    public var schema: EntitySchema { self }
}

/// A change that a handler found, before it has a key, a sequence or a stamp.
public struct FoundChange: Sendable, Hashable {
    public var record: RecordKey
    public var operation: Operation
    public var fields: [String: FieldDelta]

    public init(record: RecordKey, operation: Operation, fields: [String: FieldDelta]) {
        self.record = record
        self.operation = operation
        self.fields = fields
    }
}
