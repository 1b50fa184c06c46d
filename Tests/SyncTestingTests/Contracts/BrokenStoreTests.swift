import SyncCore
import SyncTesting
import Testing

@Suite("The suites of the durable seams find what is broken", .timeLimit(.minutes(20)))
struct BrokenStoreTests {
    @Test("no rule of a download log passes whatever it does")
    func downloads() async throws {
        let found = await broken(DownloadLogContract.rules, by: BrokenDownloads.Bug.allCases) {
            BrokenDownloads(bug: $0)
        }
        #expect(found == DownloadLogContract.rules.map(\.name))
    }

    @Test("no rule of a state log passes whatever it does")
    func states() async throws {
        let found = await broken(StateLogContract.rules, by: BrokenStates.Bug.allCases) { bug in
            let log = InMemoryStateLog()
            return StateLogSubject(log: BrokenStates(inner: log, bug: bug)) { record, ancestors, counts in
                await log.put(record, under: ancestors, counts)
            }
        }
        #expect(found == StateLogContract.rules.map(\.name))
    }

    @Test("no rule of a record store passes whatever it does")
    func records() async throws {
        let found = await broken(RecordStoreContract.rules, by: BrokenRecords.Bug.allCases) { bug in
            let store = InMemoryRecordStore(schema: try Schema(RecordStoreContract.entities))
            return RecordStoreSubject(
                store: BrokenRecords(inner: store, bug: bug), row: { await store.row($0) },
                write: { key, fields in if bug != .forgetsWrites { await store.write(key, fields) } },
                failDisk: { fails in
                    await store.failSlices(
                        fails ? StoreFailure(kind: .full, message: "no space") : nil, afterRecords: 7)
                })
        }
        #expect(found == RecordStoreContract.rules.map(\.name))
    }
}

/// A download log with one mistake.
private final class BrokenDownloads: DownloadLog {
    enum Bug: CaseIterable { case forgets, givesAlways, newestFirst, lowers, keepsAsked, takesAsOne }
    let inner = InMemoryDownloadLog()
    let bug: Bug
    init(bug: Bug) { self.bug = bug }

    func ask(_ request: DownloadRequest) async throws(StoreFailure) {
        switch bug {
        case .forgets: return
        case .newestFirst: try await inner.ask(DownloadRequest(scope: request.scope, priority: -request.priority))
        case .lowers:
            try await inner.finish(request.scope)
            try await inner.ask(request)
        default: try await inner.ask(request)
        }
    }
    func claim() async throws(StoreFailure) -> DownloadRequest? {
        let next = try await inner.claim()
        switch bug {
        case .givesAlways: return next ?? DownloadRequest(scope: "always", priority: 0)
        default: return next
        }
    }
    func finish(_ scope: String) async throws(StoreFailure) {
        try await inner.finish(scope)
        // What was asked for meanwhile goes, too.
        if bug == .takesAsOne, let next = try await inner.claim() { try await inner.finish(next.scope) }
    }
    func withdraw(_ scope: String) async throws(StoreFailure) {
        if bug != .keepsAsked { await inner.withdraw(scope) }
    }
}

/// A state log with one mistake.
private struct BrokenStates: StateLog {
    enum Bug: CaseIterable { case countsAll, countsNothing, countsOneMore, isSilent, saysOnceOnly }
    let inner: InMemoryStateLog
    let bug: Bug

    func counts(for record: RecordKey?) async throws(StoreFailure) -> StateCounts {
        switch bug {
        case .countsAll: return try await inner.counts(for: nil)
        case .countsNothing: return StateCounts()
        case .countsOneMore:
            var counts = try await inner.counts(for: record)
            counts.waiting += 1
            return counts
        case .isSilent, .saysOnceOnly: return try await inner.counts(for: record)
        }
    }

    func stateChanges() -> AsyncStream<Void> {
        switch bug {
        case .isSilent: AsyncStream { $0.finish() }
        default: inner.stateChanges()
        }
    }
}

/// A record store with one mistake.
private struct BrokenRecords: RecordStore {
    enum Bug: CaseIterable {
        case appliesNothing, takesAnyEpoch, takesAnyPlace, takesOlder, keepsTombstones, holdsNothing, forgetsWrites
        case checkpointAhead, checkpointBehind, removesTooMuch, removesNothing, asksNobody, isSilent, forgetsClock
        case halvesPages, deadOverWrites, removesUnsent, goesOn
    }
    let inner: InMemoryRecordStore
    let bug: Bug

    func position() async throws(StoreFailure) -> SyncPosition {
        var position = try await inner.position()
        switch bug {
        case .checkpointAhead: position.checkpoint += 1
        case .checkpointBehind: position.checkpoint = 0
        case .holdsNothing: position.held = 0
        case .forgetsClock: position.clockOffsetMilliseconds = nil
        default: break
        }
        return position
    }

    func apply(_ slice: PageSlice) async throws(StoreFailure) -> SliceReport {
        var slice = slice
        let present = try await inner.position()
        switch bug {
        case .appliesNothing: slice.records = []
        case .takesAnyEpoch: slice.epoch = present.epoch ?? slice.epoch
        case .takesAnyPlace: slice.from = min(slice.from, present.checkpoint)
        case .takesOlder:
            for place in slice.records.indices { slice.records[place].version += 100 - Int64(slice.records.count) }
        case .keepsTombstones: slice.records.removeAll { $0.presence != .live }
        case .deadOverWrites:
            for place in slice.records.indices where slice.records[place].presence == .deleted {
                slice.records[place].presence = .gone
            }
        default: break
        }
        return try await inner.apply(slice)
    }

    func bind(dataset: String?, epoch: String) async throws(StoreFailure) {
        try await inner.bind(dataset: dataset, epoch: epoch)
    }
    func setClockOffset(milliseconds: Int64) async throws(StoreFailure) {
        try await inner.setClockOffset(milliseconds: milliseconds)
    }
    func beginFullPass(epoch: String?) async throws(StoreFailure) {
        if bug == .goesOn, try await inner.position().isInFullPass { return }
        try await inner.beginFullPass(epoch: epoch)
    }

    func endFullPass(confirmed: Bool) async throws(StoreFailure) -> FullPassEnd {
        switch bug {
        case .removesNothing: return .removed(0)
        case .asksNobody: return try await inner.endFullPass(confirmed: true)
        case .removesUnsent:
            let epoch = try await inner.position().epoch ?? ""
            let key = RecordKey("board", "mine")
            _ = try await inner.apply(
                PageSlice(
                    records: [ServerRecord(key: key, version: 900, presence: .gone)], from: 0, checkpoint: 0,
                    epoch: epoch))
            return try await inner.endFullPass(confirmed: confirmed)
        default: return try await inner.endFullPass(confirmed: confirmed)
        }
    }

    func beginPage(limit: Int) async throws(StoreFailure) -> Int { bug == .halvesPages ? limit / 2 : limit }

    func applied() -> AsyncStream<Void> {
        bug == .isSilent ? AsyncStream { $0.finish() } : inner.applied()
    }
}
