/// Everything that a ``SyncService`` is told once, at its start.
public struct ServerConfiguration: Sendable {
    /// How much a commit waits for the disk.
    public enum Synchronous: String, Sendable, Hashable {
        /// Every commit is on the disk before it is answered.
        case full
        /// A power loss may take the last moments; a crash of the process takes nothing.
        case normal
    }

    /// The kinds of records, by name.
    public var entities: [ServerEntity]
    /// What a request may hold.
    public var limits: ServerLimits
    /// How long what is over is kept.
    public var retention: ServerRetention
    public var synchronous: Synchronous
    /// Whether the server makes the ids of new records (24 hex digits) and answers `serverID`.
    public var makesIDs: Bool
    /// What it calls a new record that a device calls so; `nil` for the 24 hex digits. For who must tell a record under both names.
    package var idOfNew: (@Sendable (_ deviceID: String) -> String)?
    /// Whether history was replaced by an older state: the start begins a new epoch.
    public var isRestored: Bool
    /// Fields that no client may write.
    public var protectedFields: Set<String>
    /// The app's own say about each change before it is decided; `nil` allows all. It is asked within the transaction
    /// and the service's turn: it answers at once, and does not call the service.
    public var policy: (@Sendable (_ account: String, _ change: PolicyQuestion) -> PolicyAnswer)?

    public init(
        entities: [ServerEntity], limits: ServerLimits = ServerLimits(), retention: ServerRetention = ServerRetention(),
        synchronous: Synchronous = .full, makesIDs: Bool = false, isRestored: Bool = false,
        protectedFields: Set<String> = ServerConfiguration.usualProtectedFields,
        policy: (@Sendable (_ account: String, _ change: PolicyQuestion) -> PolicyAnswer)? = nil
    ) {
        self.entities = entities
        self.limits = limits
        self.retention = retention
        self.synchronous = synchronous
        self.makesIDs = makesIDs
        self.isRestored = isRestored
        self.protectedFields = protectedFields
        self.policy = policy
    }

    /// What belongs to the server in every data set.
    public static let usualProtectedFields: Set<String> = [
        "id", "version", "entity", "deleted", "gone", "dateLastActivity", "owner_id", "deleted_at",
    ]
}

/// What a request may hold (PROTOCOL.md, section 4, *Limits*), and what an answer will.
public struct ServerLimits: Sendable, Hashable {
    /// Bytes of a request after inflation.
    public var requestBytes = 8 << 20
    /// Containers within containers, counted from the body's root.
    public var depth = 64
    /// Changes of one request.
    public var dirtyRecords = 1_000
    /// Bytes of one field's compact JSON.
    public var fieldBytes = 1 << 20
    /// Scopes of one request: the contract knows no other bound than the request's bytes.
    public var scopes = Int.max
    /// Records of a page when the request asks for no number.
    public var usualPage = 500
    /// Records of a page, whatever the request asks for.
    public var greatestPage = 2_000
    /// Bytes of records after which a page ends; it always has one record.
    public var pageBytes = 4 << 20
    /// Bytes that stand beside the verdicts of one request, of more than one change, before it is refused as too large
    /// (413): a client halves it. What one change brings is bounded by its record.
    public var verdictBytes = 32 << 20
    /// How many records the changes of one request, of more than one, may pass on to (what is under a record that moves, dies or
    /// lives again, each time), before it is refused as too large (413): a client halves it.
    public var followedRecords = 200_000
    /// Records that requests decided together look at, after which the others wait for another turn
    /// (``SyncService/syncFirst(of:)``).
    public var turnRecords = 4_096
    /// How far a stamp may be ahead of the clock, in milliseconds.
    public var stampAhead: Int64 = 60_000

    /// Containers within containers of one field's value. A verdict's record stands deepest in an answer, its values
    /// five levels below the root (`results`, the result, `record`, `fields`): no answer is deeper than ``depth``.
    var valueDepth: Int { depth - 5 }

    public init() {}
}

/// How long what is over is kept (PROTOCOL.md: tombstones 90 days at least, outcomes a year at least).
public struct ServerRetention: Sendable, Hashable {
    private static let day: Int64 = 86_400_000

    /// Milliseconds from a record's death, or its leaving a scope, until nothing tells of it any more.
    public var tombstones: Int64 = 100 * day
    /// Milliseconds from a decision until its outcome is forgotten, if the device does not settle it before.
    public var outcomes: Int64 = 400 * day
    /// The least time between two prunings, each of which takes a bounded part.
    public var interval: Int64 = 60_000

    public init() {}
}

/// What the app's policy is asked about one change.
public struct PolicyQuestion: Sendable, Hashable {
    public var entity: String
    public var id: String
    public var operation: String
    public var changeID: String
}

/// What the app's policy says.
public enum PolicyAnswer: Sendable, Hashable {
    case allow
    /// `rejected` with `forbidden`; decided, and stored as such.
    case forbid(message: String)
    /// `retry`: nothing is decided now.
    case later(seconds: Double?)
}
