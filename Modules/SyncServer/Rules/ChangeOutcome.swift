internal import SyncCore

/// What was decided about one change.
enum Decision: Sendable {
    case applied(version: Int64?, overwrote: [(name: String, value: FieldValue)])
    case merged(RecordView)
    case conflict(RecordView)
    case rejected(Rejection)
    case blocked(by: String)
    case retry(after: Double?)
    /// Decided before.
    case duplicate(StoredOutcome)

    /// The word on the wire.
    var verdict: String {
        switch self {
        case .applied: "applied"
        case .merged: "merged"
        case .conflict: "conflict"
        case .rejected: "rejected"
        case .blocked: "blocked"
        case .retry: "retry"
        case .duplicate: "duplicate"
        }
    }

    /// Whether what the change wanted stands, or lost by the rules.
    var isDone: Bool {
        switch self {
        case .applied, .merged: true
        case .conflict, .rejected, .blocked, .retry: false
        case .duplicate(let first): first.verdict != "rejected"
        }
    }

    var isRejection: Bool {
        switch self {
        case .rejected: true
        case .duplicate(let first): first.verdict == "rejected"
        default: false
        }
    }
}

/// A decision, with what belongs to it.
struct ChangeOutcome: Sendable {
    var changeID: String
    var device: String
    var sequence: Int64?
    var decision: Decision
    var isClamped = false
    /// The id that the server gave to a created record, where it is not the device's.
    var serverID: String?
    /// What the key stands for from now on; `nil` where nothing is stored (the outcome follows from what is stored
    /// anyway, or leaves no trace).
    var digest: ContentDigest?
    /// The app's name for what the user did, kept with the outcome.
    var intent: String?
    /// The highest stamp that the device must move past.
    var stamp: Stamp?
}

/// One member of `dirtyRecords`, read.
struct DirtyRecord: Sendable {
    var changeID: String
    var device: String
    /// Of a malformed change only where it could be read.
    var sequence: Int64?
    var record: RecordKey?
    var isCreate: Bool
    var unit: String?
    var intent: String?
    var digest: ContentDigest
    var content: Content

    enum Content: Sendable {
        case change(IncomingChange)
        case malformed(Rejection)
    }
}
