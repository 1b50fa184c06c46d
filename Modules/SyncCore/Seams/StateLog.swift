/// The durable facts behind the indicator: how many changes wait, go and failed, for a record and everything under it.
///
/// Asked for by SyncState, given by Storage.
public protocol StateLog: Sendable {
    /// The counts of a record with all that is under it; of the whole store for `nil`.
    func counts(for record: RecordKey?) async throws(StoreFailure) -> StateCounts
    /// Speaks after each commit that may have changed a count; keeps only the newest.
    func stateChanges() -> AsyncStream<Void>
}

/// How many changes are in which state.
public struct StateCounts: Sendable, Hashable {
    public var failed: Int
    /// On the way, or sent without a verdict.
    public var uploading: Int
    /// Never sent, or blocked.
    public var waiting: Int

    public init(failed: Int = 0, uploading: Int = 0, waiting: Int = 0) {
        self.failed = failed
        self.uploading = uploading
        self.waiting = waiting
    }
}
