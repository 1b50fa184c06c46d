public import SyncCore

/// A state log, and how the suite puts facts into it.
public struct StateLogSubject: Sendable {
    public var log: any StateLog
    /// Puts changes in these numbers on a record that has these ancestors (nearest first).
    public var put: @Sendable (RecordKey, [RecordKey], StateCounts) async throws -> Void

    public init(
        log: any StateLog, put: @escaping @Sendable (RecordKey, [RecordKey], StateCounts) async throws -> Void
    ) {
        self.log = log
        self.put = put
    }
}

/// What every ``StateLog`` must keep; run each rule on a fresh, empty one.
public enum StateLogContract {
    public static let rules: [ContractRule<StateLogSubject>] = [
        ContractRule("StateLog", "an empty log counts nothing") { subject, expect in
            try expect.equal(await subject.log.counts(for: nil), StateCounts(), "all")
            try expect.equal(await subject.log.counts(for: RecordKey("board", "a")), StateCounts(), "one record")
        },
        ContractRule("StateLog", "a record counts with everything under it") { subject, expect in
            let (board, card) = (RecordKey("board", "a"), RecordKey("card", "b"))
            try await subject.put(board, [], StateCounts(waiting: 1))
            try await subject.put(card, [board], StateCounts(failed: 1, waiting: 1))
            try expect.equal(await subject.log.counts(for: board), StateCounts(failed: 1, waiting: 2), "board")
            try expect.equal(await subject.log.counts(for: card), StateCounts(failed: 1, waiting: 1), "card")
            try expect.equal(await subject.log.counts(for: nil), StateCounts(failed: 1, waiting: 2), "all")
        },
        ContractRule("StateLog", "what is under another record does not count") { subject, expect in
            let (one, other) = (RecordKey("board", "a"), RecordKey("board", "b"))
            try await subject.put(RecordKey("card", "c"), [one], StateCounts(waiting: 2))
            try expect.equal(await subject.log.counts(for: other), StateCounts(), "the other board")
        },
        ContractRule("StateLog", "who listens hears of a commit that changed a count, and then finds the new one") {
            subject, expect in
            var changes = subject.log.stateChanges().makeAsyncIterator()
            try await subject.put(RecordKey("board", "a"), [], StateCounts(waiting: 1))
            try expect.isTrue(await changes.next(isolation: #isolation) != nil, "the stream ended")
            try expect.equal(await subject.log.counts(for: nil), StateCounts(waiting: 1), "all")
        },
        ContractRule("StateLog", "of several commits that nobody heard the newest is kept; each listener hears it") {
            subject, expect in
            let (one, other) = (subject.log.stateChanges(), subject.log.stateChanges())
            try await subject.put(RecordKey("board", "a"), [], StateCounts(waiting: 1))
            try await subject.put(RecordKey("board", "b"), [], StateCounts(failed: 1))
            for stream in [one, other] {
                var iterator = stream.makeAsyncIterator()
                try expect.isTrue(await iterator.next(isolation: #isolation) != nil, "the stream ended")
            }
            try expect.equal(await subject.log.counts(for: nil), StateCounts(failed: 1, waiting: 1), "all")
        },
    ]
}
