import SyncCore
import SyncState
import Testing

/// A log whose counts are set by the test, which speaks when it is told to.
private actor ScriptedLog: StateLog {
    private var present = StateCounts()
    private let stream: AsyncStream<Void>
    private let speaking: AsyncStream<Void>.Continuation

    init() { (stream, speaking) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }

    func set(_ counts: StateCounts) {
        present = counts
        speaking.yield()
    }
    func end() { speaking.finish() }
    func counts(for record: RecordKey?) async throws(StoreFailure) -> StateCounts { present }
    nonisolated func stateChanges() -> AsyncStream<Void> { stream }
}

@Suite struct SyncStateTests {
    @Test(
        "Failed comes before syncing before queued before synced",
        arguments: [
            (StateCounts(failed: 1, uploading: 1, waiting: 1), RecordState.failed),
            (StateCounts(uploading: 1, waiting: 1), .syncing),
            (StateCounts(waiting: 1), .queued),
            (StateCounts(), .synced),
        ])
    func precedence(counts: StateCounts, expected: RecordState) async throws {
        let log = ScriptedLog()
        await log.set(counts)
        #expect(try await SyncState(log: log).state(of: RecordKey("card", "1")) == expected)
    }

    @Test("A listener is told the present state at once, then each other one, and never the same twice")
    func stream() async throws {
        let log = ScriptedLog()
        var states = SyncState(log: log).states(of: nil).makeAsyncIterator()
        #expect(try await states.next() == .synced)
        await log.set(StateCounts(waiting: 1))
        #expect(try await states.next() == .queued)
        await log.set(StateCounts(failed: 2))
        #expect(try await states.next() == .failed)
        await log.end()
        #expect(try await states.next() == nil)
    }
}
