import Logging
public import Storage
public import SyncCore

/// What is kept of a cycle: why it began, what it did, how long it took; no contents.
///
/// The last ``EngineConfiguration/keptCycles`` that made a request stand in the database and outlive the program.
public struct CycleRecord: Sendable, Hashable {
    /// Grows by one with each cycle; 0 before it was written.
    public var number: Int64
    /// When it began, milliseconds since 1970.
    public var atMilliseconds: Int64
    /// Why it began: a name of ``Scheduler/Trigger``.
    public var cause: String
    /// How long it took, by the monotonic clock.
    public var durationMilliseconds: Int64
    /// `complete`, or what ended it, as ``CycleEnd/name`` has it.
    public var end: String
    /// The end in words; `nil` for a complete one.
    public var message: String?
    /// Whether everything up to the server's present version came, whatever became of the push.
    public var isPulled: Bool
    /// A push failed, or was too slow, and took the pull along: the next cycle asks first (decision 330).
    public var isPullOwed: Bool
    /// It was complete, and left something that is not in step: changes that wait or are set aside, records that are held.
    public var isWaiting: Bool
    /// When everything was last known to be in step, by this cycle or before it; `nil` where that is not known.
    public var lastSyncedMilliseconds: Int64?
    /// Figures by name, without those that are 0: `sent`; by verdict `acknowledged`, `merged`, `conflicts`, `refused`,
    /// `postponed`; `received`, `held`, `removed`, `requests`, `bytesSent`, `bytesReceived`.
    public var counts: [String: Int64]

    init(
        _ beginning: Beginning, _ report: CycleReport, now: Int64, isPullOwed: Bool, synced: Int64?,
        isWaiting: Bool = false
    ) {
        number = 0
        atMilliseconds = beginning.wall
        cause = beginning.cause.rawValue
        durationMilliseconds = now - beginning.elapsed
        end = report.end.name
        isPulled = report.isPulled
        self.isPullOwed = isPullOwed
        self.isWaiting = isWaiting && report.end == .complete
        lastSyncedMilliseconds = synced
        // An answer's own words may hold anything; the class and the status are enough here.
        message = report.end == .complete ? nil : report.end.shortCause
        counts = report.counts
        noteSynced()
    }

    /// Reads one that was kept; `nil` for a text of another program's.
    init?(_ stored: StoredText) {
        guard let value = Self.value(stored.text), case .object(let members) = value,
            case .string(let cause)? = members["cause"], case .string(let end)? = members["end"],
            case .int(let duration)? = members["duration"]
        else { return nil }
        number = stored.number
        atMilliseconds = stored.atMilliseconds
        self.cause = cause
        self.end = end
        // Records of earlier versions do not say it.
        isPulled = members["pulled"].map { $0 == true } ?? (end == "complete")
        isPullOwed = members["owed"] == true
        isWaiting = members["waiting"] == true
        durationMilliseconds = duration
        if case .int(let time)? = members["synced"] { lastSyncedMilliseconds = time }
        if case .string(let text)? = members["message"] { message = text }
        counts = [:]
        if case .object(let figures)? = members["counts"] {
            for case (let name, .int(let figure)) in figures { counts[name] = figure }
        }
        noteSynced()
    }

    /// A complete one says by itself when all was in step, if it left nothing.
    private mutating func noteSynced() {
        guard end == CycleEnd.complete.name, !isWaiting else { return }
        lastSyncedMilliseconds = max(lastSyncedMilliseconds ?? .min, atMilliseconds + durationMilliseconds)
    }

    /// A stored text with its place.
    struct StoredText {
        var number: Int64
        var atMilliseconds: Int64
        var text: String
    }

    private static func value(_ text: String) -> FieldValue? {
        do { return try FieldValue(json: text) } catch { return nil }  // kept: another version's
    }

    /// Compact JSON, members in the order of their names.
    var text: String {
        var writer = JSONWriter(capacity: 160)
        writer.beginObject()
        writer.key("cause")
        writer.string(cause)
        writer.key("counts")
        writer.beginObject()
        for (name, figure) in counts.sorted(by: { $0.key < $1.key }) {
            writer.key(name)
            writer.int(figure)
        }
        writer.endObject()
        writer.key("duration")
        writer.int(durationMilliseconds)
        writer.key("end")
        writer.string(end)
        if let message {
            writer.key("message")
            writer.string(message)
        }
        if isPullOwed {
            writer.key("owed")
            writer.bool(true)
        }
        writer.key("pulled")
        writer.bool(isPulled)
        if end != CycleEnd.complete.name || isWaiting, let lastSyncedMilliseconds {
            writer.key("synced")
            writer.int(lastSyncedMilliseconds)
        }
        if isWaiting {
            writer.key("waiting")
            writer.bool(true)
        }
        writer.endObject()
        return String(decoding: writer.takeBytes(), as: UTF8.self)
    }
}

extension CycleReport {
    /// The figures by name, without those that are 0.
    var counts: [String: Int64] {
        let figures = [
            ("sent", sent), ("acknowledged", acknowledged), ("merged", merged), ("conflicts", conflicts),
            ("refused", refused), ("postponed", postponed), ("received", received), ("held", held),
            ("removed", removed),
            ("requests", requests), ("bytesSent", bytesSent), ("bytesReceived", bytesReceived),
        ]
        var counts: [String: Int64] = [:]
        for (name, figure) in figures where figure != 0 { counts[name] = Int64(figure) }
        return counts
    }
}

extension CycleReport {
    /// What a log is told of it: no word of an answer's or of a record's.
    func logged(_ cause: Scheduler.Trigger, milliseconds: Int64) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            "cause": "\(cause.rawValue)", "end": "\(end.name)", "milliseconds": "\(milliseconds)",
        ]
        if end != .complete, let words = end.shortCause, words != end.name { metadata["message"] = "\(words)" }
        for (name, figure) in counts { metadata[name] = "\(figure)" }  // any order
        return metadata
    }
}

extension CycleEnd {
    /// One word for it, the same in every language and version.
    public var name: String {
        switch self {
        case .complete: "complete"
        case .exchange(let failure): failure.kind.rawValue
        case .store(let failure): "store.\(failure.kind.rawValue)"
        case .needsCredentials: "needsCredentials"
        case .otherDataset: "otherDataset"
        case .awaitsConfirmation: "awaitsConfirmation"
        case .leaseHeld: "leaseHeld"
        case .notNow: "notNow"
        case .cancelled: "cancelled"
        case .tooLong: "tooLong"
        }
    }

    /// The cause without any word of an answer's or of a record's.
    var shortCause: String? {
        guard case .exchange(let failure) = self else { return name }
        return [failure.status.map { "status \($0)" }, failure.redactedCode].compactMap { $0 }.joined(separator: " ")
    }
}

extension SyncEngine {
    /// The last cycles that made a request, newest first; they outlive the program.
    public func recentCycles(limit: Int = 100) async throws(StoreFailure) -> [CycleRecord] {
        try await store.recentCycles(limit: limit)
    }
}

extension Store {
    /// The last cycles that made a request, newest first; they outlive the program, and no engine is needed to read them.
    public func recentCycles(limit: Int = 100) async throws(StoreFailure) -> [CycleRecord] {
        try cycles(limit: limit).compactMap {
            CycleRecord(.init(number: $0.number, atMilliseconds: $0.atMilliseconds, text: $0.summary))
        }
    }
}
