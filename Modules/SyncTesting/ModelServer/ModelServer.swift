public import SyncCore
import Foundation

/// A server that is obviously correct: a dictionary, a log and a key table, speaking PROTOCOL.md's section 1 on values.
///
/// It keeps every accepted write and works out what a record shows from the whole set, so nothing of it depends on the
/// order of arrival. ``ruling`` lets a test refuse or put off single changes. It serves one account, ``ModelAccounts`` several;
/// requests and answers get lost on the way to it, a ``LossyExchange``. It is everybody's, so ``close()`` does nothing.
public final class ModelServer: Exchange, @unchecked Sendable {
    // Sendable: `state`, `rule` and `pageLimit` are used under `lock` alone.

    /// What a test wants for a change that was not decided before.
    public enum Ruling: Sendable {
        case decide
        case reject(Rejection)
        case retry(afterSeconds: Double?)
    }

    /// One decided change, in the order in which they were decided.
    public struct Effect: Sendable, Hashable {
        public let device: String
        public let change: Change
        public let verdict: Verdict
        public let cycleID: String
        /// A stamp too far ahead counted as the server's now.
        public let isClamped: Bool

        package init(device: String, change: Change, verdict: Verdict, cycleID: String, isClamped: Bool) {
            (self.device, self.change, self.verdict) = (device, change, verdict)
            (self.cycleID, self.isClamped) = (cycleID, isClamped)
        }
    }

    /// Everything that the server knows: a backup.
    public struct Backup: Sendable {
        let state: ModelState
    }

    private let lock = NSLock()
    private let schema: Schema
    private let clock: any WallClock
    private var state: ModelState
    private var rule: @Sendable (Change) -> Ruling = { _ in .decide }
    private var pageLimit: Int
    private let maxChanges: Int
    private let makesIDs: Bool
    private var epochs = 1

    /// - Parameters:
    ///   - pageLimit: the most records in one page, whatever a request asks for.
    ///   - maxChanges: the most changes in one request; more are answered with 413.
    ///   - makesIDs: whether it decides as one that makes its own ids: what names a record whose create was not done waits for that. It
    ///     tells none: who asks names each record as it is called here.
    public init(
        schema: Schema, clock: any WallClock, dataset: String = "d-1", epoch: String = "e-1", pageLimit: Int = 500,
        maxChanges: Int = 1_000, makesIDs: Bool = false
    ) {
        self.makesIDs = makesIDs
        self.schema = schema
        self.clock = clock
        self.pageLimit = pageLimit
        self.maxChanges = maxChanges
        state = ModelState(dataset: dataset, epoch: epoch)
    }

    /// Asked for each change that has no outcome yet.
    public var ruling: @Sendable (Change) -> Ruling {
        get { lock.withLock { rule } }
        set { lock.withLock { rule = newValue } }
    }

    /// Every decided change, in order.
    public var effects: [Effect] { lock.withLock { state.log } }

    /// The highest version handed out.
    public var head: Int64 { lock.withLock { state.head } }

    public var epoch: String { lock.withLock { state.epoch } }

    /// All records that ever were, sorted by name.
    public var records: [ServerRecord] {
        lock.withLock { state.records.keys.sorted().compactMap { state.seen($0) } }
    }

    /// The records that readers see.
    public var liveRecords: [ServerRecord] { records.filter { $0.presence == .live } }

    /// Everything as it is now.
    public func backup() -> Backup { lock.withLock { Backup(state: state) } }

    /// Puts a backup in place; history was replaced, so the epoch is a new one.
    public func restore(_ backup: Backup) {
        lock.withLock {
            epochs += 1
            state = backup.state
            state.epoch = "e-\(epochs)"
        }
    }

    /// Forgets tombstones up to the present version: older checkpoints are answered with `checkpointExpired`.
    public func forgetTombstones() {
        lock.withLock {
            state.oldestVersion = state.head
            state.leavings = []
        }
    }

    /// Forgets records altogether, as a server does that keeps a tombstone no longer: what is said of them later is said of
    /// records that never were.
    package func forget(_ isForgotten: (RecordKey) -> Bool) {
        lock.withLock {
            for key in state.records.keys.filter(isForgotten) { state.records[key] = nil }
            let left = state.records
            state.leavings.removeAll { left[$0.record] == nil }
        }
    }

    public func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        try answer(request)
    }

    public func close() async {}

    /// One round trip, without any waiting.
    /// - Throws: ``ExchangeFailure`` for another history (409, 410) and for a request that is none (400).
    public func answer(_ request: ExchangeRequest) throws(ExchangeFailure) -> ExchangeAnswer {
        lock.lock()
        defer { lock.unlock() }
        try check(request)
        if let settled = request.settled { settle(settled, device: request.deviceID) }
        let batch = ModelBatch(
            decision: ModelDecision(schema: schema, now: clock.nowMilliseconds), requestDevice: request.deviceID,
            isStrict: request.isStrict, makesIDs: makesIDs, cycleID: request.cycleID, scopes: request.scopes,
            ruling: rule)
        let results = batch.decide(request.changes, in: &state)
        state.tellLeavesAgain()
        return page(request, results: results)
    }

    private func check(_ request: ExchangeRequest) throws(ExchangeFailure) {
        if let dataset = request.dataset, dataset != state.dataset {
            throw ExchangeFailure(
                kind: .history, status: 409, code: "otherDataset", message: "another data set", reachedServer: true)
        }
        if let epoch = request.epoch, epoch != state.epoch { throw epochChanged }
        let checkpoints = request.scopes.map { Array($0.values) } ?? [request.lastSyncVersion]
        if checkpoints.contains(where: { $0 > state.head }) { throw epochChanged }
        if !request.fullPass, checkpoints.contains(where: { $0 < state.oldestVersion && $0 != 0 }) {
            throw ExchangeFailure(
                kind: .history, status: 410, code: "checkpointExpired", message: "tombstones are gone",
                reachedServer: true, epoch: state.epoch)
        }
        guard request.changes.count <= maxChanges else {
            throw ExchangeFailure(
                kind: .tooLarge, status: 413, code: "tooLarge", message: "more than \(maxChanges) changes",
                reachedServer: true)
        }
        guard request.limit >= 1,
            Set(request.changes.map(\.id)).count == request.changes.count
        else {
            throw ExchangeFailure(
                kind: .unknown, status: 400, code: "malformed", message: "not a request of this contract",
                reachedServer: true)
        }
    }

    private var epochChanged: ExchangeFailure {
        ExchangeFailure(
            kind: .history, status: 410, code: "epochChanged", message: "history was replaced", reachedServer: true,
            epoch: state.epoch)
    }

    /// Forgets at once what a device needs no more: a server may, so this one does.
    private func settle(_ sequence: Int64, device: String) {
        state.settled[device] = max(state.settled[device] ?? 0, sequence)
        state.keys = state.keys.filter { name, outcome in name.device != device || outcome.sequence > sequence }
    }

    private func page(_ request: ExchangeRequest, results: [ChangeResult]) -> ExchangeAnswer {
        let all = (request.scopes.map { state.changes(of: $0) } ?? state.changes(since: request.lastSyncVersion))
            .filter { $0.presence == .live || $0.version > state.oldestVersion }
        let records = Array(all.prefix(min(request.limit, pageLimit)))
        let hasMore = records.count < all.count
        return ExchangeAnswer(
            dataset: state.dataset, epoch: state.epoch,
            currentSyncVersion: hasMore ? records.last?.version ?? state.head : state.head,
            hasMore: hasMore, serverTimeMilliseconds: clock.nowMilliseconds, stamp: state.stamp,
            oldestVersion: state.oldestVersion,
            checksum: request.wantsChecksum && !hasMore ? state.checksum(of: request.scopes) : nil,
            results: results, page: ArrayPage(records))
    }
}
