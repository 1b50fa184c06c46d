import SyncCore

/// The in-memory queue itself: a value, so that each call of the log is one step.
///
/// Places never move: a successor takes its predecessor's, what leaves frees its own, new ones come at the end.
struct LogBook: Sendable {
    let schema: Schema?
    let deltas: any DeltaCalculation
    let deviceID: String
    var schedule = QueueSchedule()
    var bases: [RecordKey: ServerRecord] = [:]
    var journal: [InMemoryChangeLog.JournalEntry] = []
    /// By place; `nil` where a change has left.
    private var slots: [LogEntry?] = []
    /// The first place that may be taken.
    private var head = 0
    private var places: [String: Int] = [:]
    private var lastSequence: Int64 = 0
    private var tally: [QueuedChange.State: Int] = [:]
    /// Something happened that may block or free changes.
    private var mayBlock = false

    init(schema: Schema?, deviceID: String, deltas: any DeltaCalculation) {
        self.schema = schema
        self.deviceID = deviceID
        self.deltas = deltas
    }

    // MARK: Places

    mutating func nextSequence() -> Int64 {
        lastSequence += 1
        return lastSequence
    }

    func place(of id: String) -> Int? { places[id] }

    subscript(place: Int) -> LogEntry? {
        get { slots[place] }
        set {
            if let old = slots[place] {
                tally[old.state, default: 0] -= 1
                places[old.change.id] = nil
            }
            slots[place] = newValue
            if let newValue {
                tally[newValue.state, default: 0] += 1
                places[newValue.change.id] = place
            }
            while head < slots.count, slots[head] == nil { head += 1 }
        }
    }

    /// The places from the head on, the free ones among them.
    var range: Range<Int> { head..<slots.count }

    /// All that is there, in the queue's order.
    var present: [LogEntry] { slots[head...].compactMap { $0 } }

    mutating func append(_ change: Change, madeAt: Int64) {
        slots.append(nil)
        self[slots.count - 1] = LogEntry(change: change, madeAt: madeAt, needs: needs(of: change))
        // Blocked from the start, where what it needs was set aside.
        if tally[.failed, default: 0] + tally[.blocked, default: 0] > 0 { mayBlock = true }
    }

    /// The record itself, and those that its reference fields name, or its parents alone.
    func needs(of change: Change, parentsOnly: Bool = false) -> Set<RecordKey> {
        var needs: Set = [change.record]
        for field in schema?[change.record.entity]?.fields ?? [] {
            if parentsOnly, field.reference?.isParent == false { continue }
            if let reference = field.reference, case .string(let id)? = change.fields[field.name]?.new {
                needs.insert(RecordKey(reference.entity, id))
            }
        }
        return needs
    }

    // MARK: Figures

    var summary: QueueSummary {
        var oldest: Int64?
        for place in range {
            guard let entry = slots[place], !entry.isFailed, entry.blockedBy == nil else { continue }
            // A successor keeps its predecessor's time, so that the first is the oldest.
            oldest = entry.madeAt
            break
        }
        return QueueSummary(
            pending: tally[.pending, default: 0],
            inFlight: tally[.uploading, default: 0] + tally[.uncertain, default: 0],
            blocked: tally[.blocked, default: 0], failed: tally[.failed, default: 0], oldestMilliseconds: oldest,
            schedule: schedule)
    }

    /// What may be claimed.
    var freeCount: Int { tally[.pending, default: 0] + tally[.uncertain, default: 0] }

    var hasBlocked: Bool { tally[.blocked, default: 0] > 0 }

    /// Every sequence up to this one is decided and recorded, or was cancelled unsent.
    var settled: Int64 {
        var least = lastSequence + 1
        for place in range {
            guard let entry = slots[place], !entry.isDecided else { continue }
            least = min(least, entry.change.sequence)
            // What stands behind one that is nobody's successor was made later than it.
            if !entry.isSuccessor { break }
        }
        return least - 1
    }

    var failures: [FailedChange] {
        let all = present.compactMap { entry -> FailedChange? in
            guard case .failed(let reason, let time, let staysUncertain) = entry.standing else { return nil }
            return FailedChange(
                queued: entry.queued, reason: reason, failedAtMilliseconds: time, isUncertain: staysUncertain)
        }
        return all.enumerated().sorted { a, b in
            (a.element.failedAtMilliseconds, a.offset) < (b.element.failedAtMilliseconds, b.offset)
        }.map(\.element)
    }

    // MARK: Need

    /// Something left, failed or came back: what is blocked is worked out anew by the next `block()`.
    mutating func needsBlocking() { mayBlock = true }

    /// Blocks what needs a create, or a member of its unit, that was set aside, and frees what no longer does.
    mutating func block() {
        guard mayBlock else { return }
        mayBlock = false
        var creates: [RecordKey: Blocker] = [:]
        var units: [String: String] = [:]
        var creating: [RecordKey: Int] = [:]
        for place in range {
            guard let entry = slots[place] else { continue }
            if entry.change.operation == .create { creating[entry.change.record] = place }
            guard entry.isFailed else { continue }
            if entry.change.operation == .create {
                creates[entry.change.record] = Blocker(place: place, key: entry.change.id)
            }
            if let unit = entry.change.unit { units[unit] = units[unit] ?? entry.change.id }
        }
        // A blocked create blocks in turn, and a unit all its members, wherever they stand.
        var isSettled = false
        var blockers: [Int: String] = [:]
        while !isSettled {
            isSettled = true
            for place in range where blockers[place] == nil {
                guard let entry = slots[place], !entry.isFailed else { continue }
                guard let by = blocker(of: entry, at: place, creates, units, creating) else { continue }
                blockers[place] = by
                isSettled = false
                if entry.change.operation == .create { creates[entry.change.record] = Blocker(place: place, key: by) }
                if let unit = entry.change.unit { units[unit] = units[unit] ?? by }
            }
        }
        for place in range {
            guard var entry = slots[place], !entry.isFailed, entry.blockedBy != blockers[place] else { continue }
            entry.blockedBy = blockers[place]
            // What waits is with no sender.
            if entry.blockedBy != nil { entry.standing = .queued }
            self[place] = entry
        }
    }

    /// A create that others wait for, and where it stands: only what comes after it needs it.
    private struct Blocker {
        var place: Int
        var key: String
    }

    private func blocker(
        of entry: LogEntry, at place: Int, _ creates: [RecordKey: Blocker], _ units: [String: String],
        _ creating: [RecordKey: Int]
    ) -> String? {
        if let unit = entry.change.unit, let by = units[unit] { return by }
        if let missing = entry.missing, let by = creates[missing] { return by.key }
        // A create that comes later would never come if this one did not let it pass.
        if let missing = entry.missing, let later = creating[missing], later > place { return slots[later]?.change.id }
        for need in entry.needs.sorted() {
            if let by = creates[need], by.place < place { return by.key }
        }
        return nil
    }
}
