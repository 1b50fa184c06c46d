/// What a field holds, and so how its column and its JSON are read.
public enum FieldKind: String, Sendable, Hashable, CaseIterable {
    /// A string; column TEXT.
    case text
    /// A 64-bit integer; column INTEGER.
    case integer
    /// A double; column REAL. Whole numbers are taken, too.
    case real
    /// true or false; column BOOLEAN (0 or 1).
    case boolean
    /// A time, RFC 3339 with milliseconds in UTC (`2026-11-21T08:00:00.123Z`); column TEXT.
    case date
    /// Any JSON value; column TEXT, compact JSON.
    case json
    /// Bytes; column BLOB.
    case data
}

/// That a field holds the id of a record of another entity.
public struct Reference: Sendable, Hashable {
    /// The entity referred to.
    public let entity: String
    /// Whether the record referred to is the parent: what is deleted, moved and shown with it goes along.
    public let isParent: Bool

    public init(entity: String, isParent: Bool) {
        self.entity = entity
        self.isParent = isParent
    }
}

/// One declared field of an entity.
public struct FieldSchema: Sendable, Hashable {
    /// The name on the wire.
    public let name: String
    /// The column; the name, if nothing else is said.
    public let column: String
    public let kind: FieldKind
    public let rule: MergeRule
    public let reference: Reference?
    /// Whether a record without a value for it is refused at the write.
    public let isRequired: Bool

    public init(
        _ name: String, column: String? = nil, kind: FieldKind, rule: MergeRule = .lastWriter,
        reference: Reference? = nil, isRequired: Bool = false
    ) {
        self.name = name
        self.column = column ?? name
        self.kind = kind
        self.rule = rule
        self.reference = reference
        self.isRequired = isRequired
    }

    public static func text(_ name: String, rule: MergeRule = .lastWriter, required: Bool = false) -> FieldSchema {
        FieldSchema(name, kind: .text, rule: rule, isRequired: required)
    }
    public static func integer(_ name: String, rule: MergeRule = .lastWriter) -> FieldSchema {
        FieldSchema(name, kind: .integer, rule: rule)
    }
    public static func real(_ name: String) -> FieldSchema { FieldSchema(name, kind: .real) }
    public static func boolean(_ name: String) -> FieldSchema { FieldSchema(name, kind: .boolean) }
    public static func date(_ name: String) -> FieldSchema { FieldSchema(name, kind: .date) }
    public static func json(_ name: String, rule: MergeRule = .lastWriter) -> FieldSchema {
        FieldSchema(name, kind: .json, rule: rule)
    }
    public static func data(_ name: String) -> FieldSchema { FieldSchema(name, kind: .data) }
    /// The id of the record's parent, an `entity`.
    public static func parent(_ name: String, _ entity: String) -> FieldSchema {
        FieldSchema(name, kind: .text, reference: Reference(entity: entity, isParent: true), isRequired: true)
    }
    /// The id of another record, an `entity`, that is not the parent.
    public static func reference(_ name: String, _ entity: String) -> FieldSchema {
        FieldSchema(name, kind: .text, reference: Reference(entity: entity, isParent: false))
    }
}

/// How the store notices that the app changed a record (DESIGN.md, D9).
public enum CaptureMode: String, Sendable, Hashable, CaseIterable {
    /// Triggers record each change with its values before and after: the default.
    case triggers
    /// A flag and an edit counter in the row; the deltas are computed when the change is collected. The table has the
    /// columns `is_dirty`, `edits`, `updated_at` and `last_synced_at` beside the declared ones.
    case dirtyFlag
    /// Only what the app hands over in so many words.
    case explicit
}

/// What this device shows after the server has refused an update or a delete for good.
///
/// Either way the change is set aside with its reason and payload, and holds nothing up. A refused create stays in any
/// case: a refusal is not a deletion.
public enum RefusalRule: String, Sendable, Hashable, CaseIterable {
    /// The record as the server has it, with what still waits on top: the default.
    case revert
    /// The refused values, until the app retries or discards the change: for what a user would miss, such as a long text.
    case keep
}

/// A declared record type: its name, its table and its fields.
public struct EntitySchema: Sendable, Hashable {
    /// The name on the wire (`card`).
    public let name: String
    /// The app's table; the name, if nothing else is said.
    public let table: String
    /// The column that holds the record's id; `id`, if nothing else is said.
    public let keyColumn: String
    /// The declared fields in declared order, the id not among them.
    public let fields: [FieldSchema]
    /// The version of this declaration, sent with each change.
    public let version: Int
    public let capture: CaptureMode
    /// What a refused update or delete leaves behind.
    public let refusal: RefusalRule

    public init(
        _ name: String, table: String? = nil, keyColumn: String = "id", version: Int = 1,
        capture: CaptureMode = .triggers, refusal: RefusalRule = .revert, fields: [FieldSchema]
    ) {
        self.name = name
        self.table = table ?? name
        self.keyColumn = keyColumn
        self.version = version
        self.capture = capture
        self.refusal = refusal
        self.fields = fields
    }

    /// The field of this name.
    public func field(_ name: String) -> FieldSchema? { fields.first { $0.name == name } }

    /// The fields that hold a parent's id.
    public var parents: [FieldSchema] { fields.filter { $0.reference?.isParent == true } }
}
