public import SyncCore

/// A change log in memory: what ``ChangeLog`` and ``ChangeRepair`` promise, without SQLite.
///
/// For tests of what stands on the seam, and to run an upload queue alone. It knows changes and what they need, and no
/// rows: what the server said of a record is in ``bases()``, what was overwritten or lost in ``journal()``.
/// "Durable" means here that a new queue over the same log goes on where the old one was, as after a restart.
public actor InMemoryChangeLog: ChangeLog, ChangeRepair {
    /// A value that somebody lost, or that was replaced unseen.
    public struct JournalEntry: Sendable, Hashable {
        public enum Kind: Sendable, Hashable { case overwrote, merged, conflicted, clamped }
        public var changeID: String
        public var kind: Kind
        public var record: ServerRecord?
        public var values: [String: FieldValue]
    }

    var book: LogBook
    /// The values that writes by ``subject()`` left, where a table would have them.
    var rows: [RecordKey: [String: FieldValue]] = [:]
    /// Makes the next calls fail, first come first served; for tests of what happens then.
    private var failures: [StoreFailure] = []
    private let notifier = LogNotifier()
    private let wallClock: any WallClock
    private let ids: any IDSource
    private var clock = HybridClock()

    /// An empty log.
    /// - Parameters:
    ///   - schema: says which fields refer to other records; without it changes need only their own record's create.
    public init(
        schema: Schema? = nil, deviceID: String = "device", deltas: any DeltaCalculation = LastWriterDeltas(),
        wallClock: any WallClock, ids: any IDSource
    ) {
        book = LogBook(schema: schema, deviceID: deviceID, deltas: deltas)
        self.wallClock = wallClock
        self.ids = ids
    }

    // MARK: What an app does

    /// One local write.
    public struct Write: Sendable, Hashable {
        public var operation: Operation
        public var record: RecordKey
        public var fields: [String: FieldDelta]
        public var intent: String?

        public init(
            _ operation: Operation, _ record: RecordKey, _ fields: [String: FieldDelta] = [:], intent: String? = nil
        ) {
            self.operation = operation
            self.record = record
            self.fields = fields
            self.intent = intent
        }
    }

    /// Records a local write; its key is made with it.
    @discardableResult
    public func write(
        _ operation: Operation, _ record: RecordKey, _ fields: [String: FieldDelta] = [:], intent: String? = nil
    ) -> Change {
        write([Write(operation, record, fields, intent: intent)])[0]
    }

    /// Records the writes of one transaction; as a unit they are one for the server, too.
    @discardableResult
    public func write(_ writes: [Write], isUnit: Bool = false) -> [Change] {
        let unit = isUnit ? ids.makeID() : nil
        let now = wallClock.nowMilliseconds
        let changes = writes.map { write in
            let stamp = clock.tick(wallMilliseconds: UInt64(max(0, now)))
            let change = Change(
                id: ids.makeID(), sequence: book.nextSequence(), record: write.record, operation: write.operation,
                stamp: stamp, fields: write.fields, unit: unit, intent: write.intent)
            book.append(change, madeAt: now)
            return change
        }
        book.block()
        notifier.notify()
        return changes
    }

    // MARK: ChangeLog

    public func settle(_ settlement: Settlement, claim: ClaimLimits?) async throws(StoreFailure) -> Claim {
        try fail()
        let before = book.freeCount
        for outcome in settlement.outcomes { book.settle(outcome, now: wallClock.nowMilliseconds, ids: ids) }
        if let stamp = settlement.stamp { clock.observe(stamp) }
        if let schedule = settlement.schedule { book.schedule = schedule }
        book.block()
        let changes = claim.map { book.claim($0) } ?? []
        if book.freeCount > before { notifier.notify() }
        return Claim(changes: changes, settled: book.settled, deviceID: book.deviceID, summary: book.summary)
    }

    public func settle(
        _ settlement: Settlement, behind claim: Claim, limits: ClaimLimits?
    ) async throws(StoreFailure) -> Claim { try await settle(settlement, claim: nil) }

    public func putBack(_ claim: Claim) async throws(StoreFailure) { try await countAsSent(claim) }

    public func summary() async throws(StoreFailure) -> QueueSummary {
        try fail()
        return book.summary
    }

    public nonisolated func notices() -> AsyncStream<Void> { notifier.stream() }

    // MARK: ChangeRepair

    public func queued() async throws(StoreFailure) -> [QueuedChange] {
        try fail()
        return book.present.filter { !$0.isFailed }.map(\.queued)
    }

    public func failures() async throws(StoreFailure) -> [FailedChange] {
        try fail()
        return book.failures
    }

    public func dependants(of changeID: String) async throws(StoreFailure) -> [String] {
        try fail()
        return try book.dependants(of: changeID)
    }

    public func retry(_ changeID: String) async throws(StoreFailure) -> String {
        try fail()
        let key = try book.retry(changeID, ids: ids)
        notifier.notify()
        return key
    }

    public func retry(_ changeIDs: [String]) async throws(StoreFailure) -> [RetryOutcome] {
        try fail()
        let outcomes = try book.retry(changeIDs, ids: ids)
        notifier.notify()
        return outcomes
    }

    public func discard(_ changeID: String) async throws(StoreFailure) -> [String] {
        try fail()
        let keys = try book.discard(changeID)
        notifier.notify()
        return keys
    }

    public func cancel(_ changeID: String) async throws(StoreFailure) -> CancelOutcome {
        try fail()
        let now = wallClock.nowMilliseconds
        let stamp = clock.tick(wallMilliseconds: UInt64(max(0, now)))
        let outcome = try book.cancel(changeID, stamp: stamp, now: now, ids: ids)
        notifier.notify()
        return outcome
    }

    // MARK: For tests

    /// The next call fails like this, and does nothing else; calls add up.
    public func failNext(_ failure: StoreFailure) { failures.append(failure) }

    /// Calls that were to fail, and were not made yet, do not fail any more.
    public func stopFailing() { failures = [] }

    /// What the server said last of each record.
    public func bases() -> [RecordKey: ServerRecord] { book.bases }

    /// What was overwritten, merged, met in conflict or clamped, in order.
    public func journal() -> [JournalEntry] { book.journal }

    /// What is claimed and was never settled is uncertain from now on, as after a crash.
    public func crash() { book.crash() }

    private func fail() throws(StoreFailure) {
        guard !failures.isEmpty else { return }
        throw failures.removeFirst()
    }
}
