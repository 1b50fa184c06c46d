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
    /// What was decided about.
    let dirty: DirtyRecord
    /// What its key stands for, where that is not the change's own digest.
    var digest: ContentDigest?
    var decision: Decision
    var isClamped = false
    /// The id that the server gave to a created record, where it is not the device's.
    var serverID: String?
    /// Whether the key stands for this from now on, where the change has a sequence; else the outcome follows from what is
    /// stored anyway, or leaves no trace.
    var isStored = false
    /// The highest stamp that the device must move past.
    var stamp: Stamp?

    var changeID: String { dirty.changeID }
    var device: String { dirty.device }
    /// Where it is to be stored.
    var storedSequence: Int64? { isStored ? dirty.sequence : nil }
}

/// One member of `dirtyRecords`, read.
///
/// A class: it is handed from one step to the next, and each copy of a value would count a reference for every text in it.
final class DirtyRecord: Sendable {
    let changeID: String
    let device: String
    /// Of a malformed change only where it could be read.
    let sequence: Int64?
    let record: RecordKey?
    let isCreate: Bool
    let unit: String?
    let intent: String?
    let digest: ContentDigest
    /// The same without the ids of records; `nil` where those stay as they are told.
    let namelessDigest: ContentDigest?
    let content: Content

    enum Content: Sendable {
        case change(IncomingChange)
        case malformed(Rejection)
    }

    init(
        changeID: String, device: String, sequence: Int64?, record: RecordKey?, isCreate: Bool, unit: String?,
        intent: String?, digest: ContentDigest, namelessDigest: ContentDigest? = nil, content: Content
    ) {
        self.changeID = changeID
        self.device = device
        self.sequence = sequence
        self.record = record
        self.isCreate = isCreate
        self.unit = unit
        self.intent = intent
        self.digest = digest
        self.namelessDigest = namelessDigest
        self.content = content
    }
}
