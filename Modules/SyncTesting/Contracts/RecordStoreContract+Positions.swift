import SyncCore

extension RecordStoreContract {
    private static func apply(
        _ subject: RecordStoreSubject, _ records: [ServerRecord], from checkpoint: Int64, to version: Int64
    ) async throws(StoreFailure) {
        _ = try await subject.store.apply(
            PageSlice(records: records, from: checkpoint, checkpoint: version, epoch: "e"))
    }

    static let positions: [ContractRule<RecordStoreSubject>] = [
        rule("the server's data set, epoch and clock are in the position, and a slice leaves them") { subject, expect in
            try expect.equal(await subject.store.position().clockOffsetMilliseconds, nil, "before the first answer")
            for milliseconds in [Int64(5_000), -70_000] {
                try await subject.store.setClockOffset(milliseconds: milliseconds)
                try expect.equal(await subject.store.position().clockOffsetMilliseconds, milliseconds, "offset")
            }
            try await apply(subject, [board("a", "A", 1)], from: 0, to: 1)
            let position = try await subject.store.position()
            try expect.equal(position.clockOffsetMilliseconds, -70_000, "offset after a slice")
            try expect.equal(position.dataset, "d", "data set")
            try expect.equal(position.epoch, "e", "epoch")
        },
        rule("a page is asked for with the wanted limit, as long as none was anybody's death") { subject, expect in
            for limit in [500, 20, 500] {
                try expect.equal(await subject.store.beginPage(limit: limit), limit, "limit")
                try await subject.store.endPage()
            }
        },
        rule("who listens hears once a slice is complete, and finds it; the newest is kept") { subject, expect in
            var first = subject.store.applied().makeAsyncIterator()
            var second = subject.store.applied().makeAsyncIterator()
            try await apply(subject, [board("a", "A", 1)], from: 0, to: 1)
            try expect.isTrue(await first.next(isolation: #isolation) != nil, "the stream ended")
            try expect.equal(await subject.row(RecordKey("board", "a"))?["name"], .string("A"), "the row")
            try await apply(subject, [board("a", "B", 2)], from: 1, to: 2)
            try expect.isTrue(await first.next(isolation: #isolation) != nil, "the stream ended")
            try expect.isTrue(await second.next(isolation: #isolation) != nil, "the other's stream ended")
        },
        rule("what left for where nothing is asked for goes from here, and comes again with a later version") {
            subject, expect in
            try await apply(subject, [board("a", "A", 1), card("b", board: "a", 2)], from: 0, to: 2)
            let gone = ServerRecord(key: RecordKey("card", "b"), version: 3, presence: .gone)
            try await apply(subject, [gone], from: 2, to: 3)
            try expect.equal(await subject.row(RecordKey("card", "b")), nil, "the row")
            try expect.isTrue(await subject.row(RecordKey("board", "a")) != nil, "another row went")
            try expect.equal(await subject.store.position().checkpoint, 3, "checkpoint")
            try await apply(subject, [card("b", board: "a", 4)], from: 3, to: 4)
            try expect.isTrue(await subject.row(RecordKey("card", "b")) != nil, "it did not come again")
        },
    ]

    static let failing: [ContractRule<RecordStoreSubject>] = [
        rule("I4: of a slice over which the disk fails stands what the checkpoint says, no more and no less") {
            subject, expect in
            guard let failDisk = subject.failDisk else { return }
            try await apply(subject, [board("b1", "old", 1)], from: 0, to: 1)
            let long = String(repeating: "x", count: 20_000)
            let records = [board("b1", "new", 2)] + (2...40).map { board("b\($0)", long, Int64($0 + 1)) }
            try await failDisk(true)
            _ = try await expect.failure { () async throws(StoreFailure) in
                try await apply(subject, records, from: 1, to: 41)
            }
            let checkpoint = try await subject.store.position().checkpoint
            try expect.isTrue((1..<41).contains(checkpoint), "the checkpoint is at \(checkpoint)")
            let name = try await subject.row(RecordKey("board", "b1"))?["name"]
            try expect.equal(name, .string(checkpoint < 2 ? "old" : "new"), "the first")
            for record in records.dropFirst() {
                let isThere = try await subject.row(record.key) != nil
                try expect.equal(isThere, record.version <= checkpoint, "\(record.key) at checkpoint \(checkpoint)")
            }
            try await failDisk(false)
            try await apply(subject, records, from: 1, to: 41)
            try expect.equal(await subject.store.position().checkpoint, 41, "checkpoint, once it works again")
            for record in records {
                try expect.equal(await subject.row(record.key)?["name"], record.fields["name"], "\(record.key)")
            }
        }
    ]
}
