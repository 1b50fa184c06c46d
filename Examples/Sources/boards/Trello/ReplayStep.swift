import SyncCore

/// One step of replaying an action on the local database.
enum ReplayStep: Sendable, Hashable {
    /// Create the record with these fields if it is not here and its parent is.
    case mention(RecordKey, [String: FieldValue])
    /// Create the record; one that is here already is left as it is.
    case create(RecordKey, [String: FieldValue])
    /// Set these fields of a record that is here; `before` is what the export says they were.
    case update(RecordKey, before: [String: FieldValue], after: [String: FieldValue])
    /// Put an element into a set, or take it out.
    case put(RecordKey, field: String, FieldValue)
    case take(RecordKey, field: String, FieldValue)
    case delete(RecordKey)

    /// Whether the step only makes sure that something is there, and is no edit of its own.
    var isMention: Bool {
        if case .mention = self { true } else { false }
    }
}

/// An action of an export, sorted into steps; `nil` steps are of a kind that `boards` does not know.
struct ReplayAction: Sendable {
    let kind: String
    let time: Timestamp
    let steps: [ReplayStep]?
}

/// All actions of an export, oldest first.
struct ReplayPlan: Sendable {
    let actions: [ReplayAction]

    /// Reads and orders the actions; those of one millisecond stay in the order in which Trello wrote them.
    /// - Throws: a ``Problem`` for an action without a kind or a date, or with a value of another type.
    init(_ export: BoardExport, schema: Schema) throws(Problem) {
        var read: [ReplayAction] = []
        for action in export.actions { read.append(try ActionReader(action, schema: schema).action()) }
        // Trello writes the newest first; a file that was turned round is taken as it stands.
        if let first = read.first, let last = read.last, first.time >= last.time { read.reverse() }
        actions = read.enumerated()
            .sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }
            .map(\.element)
    }
}
