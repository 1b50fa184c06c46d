public import SyncCore

/// What an app sees and does by hand. Each call is one of the change log's, with its events and a look at the queue.
extension UploadQueue {
    /// Everything queued, in flight or blocked, in the queue's order.
    public func queued() async throws(StoreFailure) -> [QueuedChange] { try await log.queued() }

    /// Everything set aside, oldest first, with reason and payload.
    public func failures() async throws(StoreFailure) -> [FailedChange] { try await log.failures() }

    /// The changes that would go with this one if it were discarded or cancelled.
    public func dependants(of changeID: String) async throws(StoreFailure) -> [String] {
        try await log.dependants(of: changeID)
    }

    /// The same of several, in their order.
    public func dependants(of changeIDs: [String]) async throws(StoreFailure) -> [[String]] {
        try await log.dependants(of: changeIDs)
    }

    /// Puts a failed change back in its place, as a successor, and frees what it blocked.
    /// - Returns: the key under which it goes now.
    @discardableResult
    public func retry(_ changeID: String) async throws(StoreFailure) -> String {
        let key = try await log.retry(changeID)
        streams.events.send(.retried(changeID, as: key))
        try await changed()
        return key
    }

    /// How many changes are retried in one transaction: the app's writes wait for that long.
    private static let retriedTogether = 500

    /// Puts all failed changes back, the oldest first.
    /// - Returns: the keys under which they go now.
    /// - Throws: the first failure; what it was not in the way of is retried all the same.
    @discardableResult
    public func retryAll() async throws(StoreFailure) -> [String] {
        var keys: [String] = []
        var failure: StoreFailure?
        var rest = try await log.failures().map(\.queued.change.id)[...]
        while !rest.isEmpty {
            let ids = Array(rest.prefix(Self.retriedTogether))
            rest = rest.dropFirst(ids.count)
            do throws(StoreFailure) {
                for (id, outcome) in zip(ids, try await log.retry(ids)) {
                    switch outcome {
                    case .retried(let key):
                        streams.events.send(.retried(id, as: key))
                        keys.append(key)
                    // Somebody else has retried or discarded it since the list was read, or it went with another of its unit.
                    case .notFailed: continue
                    case .failed(let found): failure = failure ?? found
                    }
                }
            } catch {
                // What was retried before is to go.
                failure = failure ?? error
                break
            }
        }
        try await changed()
        if let failure { throw failure }
        return keys
    }

    /// Gives a failed change up, with what needs it (``dependants(of:)`` lists that before).
    /// - Returns: the keys of all that was discarded.
    @discardableResult
    public func discard(_ changeID: String) async throws(StoreFailure) -> [String] {
        let keys = try await log.discard(changeID)
        streams.events.send(.discarded(keys))
        try await changed()
        return keys
    }

    /// Takes a change back: at once if it was never sent, by an inverse if it may have had its effect.
    @discardableResult
    public func cancel(_ changeID: String) async throws(StoreFailure) -> CancelOutcome {
        let outcome = try await log.cancel(changeID)
        switch outcome {
        case .cancelled(let keys): streams.events.send(.cancelled(keys))
        case .inverse(let key): streams.events.send(.inverted(changeID, by: key))
        case .tooLate: return outcome
        }
        try await changed()
        return outcome
    }

    /// What happens from now on; keeps the newest 1,024 for a slow listener.
    public nonisolated func events() -> AsyncStream<UploadEvent> { streams.events.stream() }

    /// How many changes are where: begins with the newest known, keeps only the newest.
    public nonisolated func counts() -> AsyncStream<UploadCounts> { streams.counts.stream() }

    /// How far the present drain has come, or the next one if there is none now; keeps only the newest, and ends with it.
    public nonisolated func progress() -> AsyncStream<UploadProgress> { streams.progress.stream() }

    private func changed() async throws(StoreFailure) {
        tell(try await log.summary(), left: 0)
        wake()
    }
}
