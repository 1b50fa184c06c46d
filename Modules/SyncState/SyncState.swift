public import SyncCore

/// How a record stands, with everything under it: the worst of all counts.
public enum RecordState: String, Sendable, Hashable, CaseIterable {
    /// A change was set aside.
    case failed
    /// A change is on its way, or was sent and has no verdict.
    case syncing
    /// A change waits.
    case queued
    /// Nothing waits here.
    case synced

    /// Failed before syncing before queued before synced.
    public init(_ counts: StateCounts) {
        self =
            counts.failed > 0 ? .failed : counts.uploading > 0 ? .syncing : counts.waiting > 0 ? .queued : .synced
    }
}

/// The honest indicator: how a record stands, from durable facts only (I8).
///
/// Owns nothing but a reference to the log; each answer is read anew.
public actor SyncState {
    private let log: any StateLog

    public init(log: any StateLog) { self.log = log }

    /// How a record stands with everything under it; the whole store for `nil`.
    public func state(of record: RecordKey?) async throws(StoreFailure) -> RecordState {
        RecordState(try await log.counts(for: record))
    }

    /// How a record stands, now and after each change of it, without repeats; the stream ends with its listener's task
    /// or at the first failure of the store, which is thrown.
    public nonisolated func states(of record: RecordKey?) -> StateSequence { StateSequence(log: log, record: record) }
}

/// The states of one record as they change; pulls, so that a slow listener costs nothing.
public struct StateSequence: AsyncSequence, Sendable {
    let log: any StateLog
    let record: RecordKey?

    public func makeAsyncIterator() -> Iterator {
        Iterator(log: log, record: record, changes: log.stateChanges().makeAsyncIterator())
    }

    public struct Iterator: AsyncIteratorProtocol {
        let log: any StateLog
        let record: RecordKey?
        var changes: AsyncStream<Void>.Iterator
        var last: RecordState?

        public mutating func next() async throws(StoreFailure) -> RecordState? { try await next(isolation: #isolation) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(StoreFailure) -> RecordState? {
            if last == nil {
                let first = RecordState(try await log.counts(for: record))
                last = first
                return first
            }
            while await changes.next(isolation: actor) != nil {
                let state = RecordState(try await log.counts(for: record))
                guard state != last else { continue }
                last = state
                return state
            }
            return nil
        }
    }
}
