public import SyncCore

/// A state log in memory: counts that a test puts on records.
public actor InMemoryStateLog: StateLog {
    private var entries: [RecordKey: (ancestors: [RecordKey], counts: StateCounts)] = [:]
    private let broadcast = Broadcast()

    public init() {}

    /// Says how many changes a record has, and what it is under (nearest first).
    public func put(_ record: RecordKey, under ancestors: [RecordKey], _ counts: StateCounts) {
        entries[record] = (ancestors, counts)
        broadcast.speak()
    }

    public func counts(for record: RecordKey?) async throws(StoreFailure) -> StateCounts {
        var total = StateCounts()
        for (key, entry) in entries {  // any order
            if let record, key != record, !entry.ancestors.contains(record) { continue }
            total.failed += entry.counts.failed
            total.uploading += entry.counts.uploading
            total.waiting += entry.counts.waiting
        }
        return total
    }

    public nonisolated func stateChanges() -> AsyncStream<Void> { broadcast.listen() }
}
