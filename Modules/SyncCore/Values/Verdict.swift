/// The server's reason for a change that will never work as it is (PROTOCOL.md, `rejected`).
public struct Rejection: Sendable, Hashable, Error {
    /// The codes of the contract; one that is not known is kept as it came.
    public struct Code: RawRepresentable, Sendable, Hashable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public static let notFound = Code(rawValue: "notFound")
        public static let forbidden = Code(rawValue: "forbidden")
        public static let idTaken = Code(rawValue: "idTaken")
        public static let invalid = Code(rawValue: "invalid")
        public static let tooLarge = Code(rawValue: "tooLarge")
        public static let missingReference = Code(rawValue: "missingReference")
        public static let unknownEntity = Code(rawValue: "unknownEntity")
        public static let keyReused = Code(rawValue: "keyReused")
        public static let transaction = Code(rawValue: "transaction")
        public static let expired = Code(rawValue: "expired")

        /// Whether a change that is refused with this code was decided before, in a way that is not known here.
        ///
        /// So it is with `expired`, and with `keyReused` where the change was made under an earlier id of this device: that one
        /// sent it after the backup or copy was made that this one came from, with the stamps that it had by then.
        /// - Parameter device: the earlier device id that the change was made under, if any.
        package func meansDecided(under device: String?) -> Bool {
            self == .expired || self == .keyReused && device != nil
        }
    }

    public var code: Code
    /// A sentence for people.
    public var message: String
    /// The field at fault.
    public var field: String?
    /// The record that is missing, for `missingReference` (its id).
    public var reference: String?

    public init(code: Code, message: String, field: String? = nil, reference: String? = nil) {
        self.code = code
        self.message = message
        self.field = field
        self.reference = reference
    }
}

/// What the server decided about one change (PROTOCOL.md, *Results*).
public enum Verdict: Sendable, Hashable {
    /// Done as sent. `version` is the record's new one (absent for a delete of nothing); `overwrote` holds what it
    /// replaced that was not the change's `old`; `serverID` the id that a server with ids of its own gave.
    case applied(version: Int64?, overwrote: [String: FieldValue], serverID: String?)
    /// Decided, but at least one field, or a newer delete, of somebody else won.
    case merged(record: ServerRecord)
    /// Nothing done: a field under `check` has another value.
    case conflict(record: ServerRecord)
    /// Will never work as it is.
    case rejected(Rejection)
    /// Not decided, since the change `by` was not done.
    case blocked(by: String)
    /// Cannot be decided now.
    case retry(afterSeconds: Double?)

    /// Whether the change is over on the server: stored with its effect, and never to be sent again.
    public var isDecided: Bool {
        switch self {
        case .applied, .merged, .rejected: true
        case .conflict, .blocked, .retry: false
        }
    }
}

/// The verdict about the change that carries this key.
public struct ChangeResult: Sendable, Hashable {
    public var changeID: String
    /// For a duplicate, the first verdict.
    public var verdict: Verdict
    /// The key was decided before; this is the stored outcome.
    public var isDuplicate: Bool
    /// A stamp too far ahead counted as the server's now. An event, not a conflict.
    public var isClamped: Bool
    /// A pause that the server asked for with an answer to this change alone (`Backoff`), in seconds.
    public var backoffSeconds: Double?
    /// The id that a server with ids of its own gave to what a `merged` create made: one under a dead parent; or to what a create
    /// made that is `rejected` now since it was decided once (`expired`, `keyReused`).
    public var serverID: String?

    public init(
        changeID: String, verdict: Verdict, isDuplicate: Bool = false, isClamped: Bool = false,
        backoffSeconds: Double? = nil, serverID: String? = nil
    ) {
        self.changeID = changeID
        self.verdict = verdict
        self.isDuplicate = isDuplicate
        self.isClamped = isClamped
        self.backoffSeconds = backoffSeconds
        self.serverID = serverID
    }

    /// The id that the server gave to what the change made, wherever it tells it.
    package var serverIDOfMade: String? {
        if case .applied(_, _, let id?) = verdict { return id }
        return serverID
    }
}
