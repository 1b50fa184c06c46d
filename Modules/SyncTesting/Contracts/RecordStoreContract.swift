public import SyncCore

/// A record store over ``RecordStoreContract/schema``, and how the suite looks at and edits its rows.
public struct RecordStoreSubject: Sendable {
    public var store: any RecordStore
    /// The fields that the device shows for a record; `nil` if it has no row.
    public var row: @Sendable (RecordKey) async throws -> [String: FieldValue]?
    /// Writes fields of a record as the app does; a record that is not there is made.
    public var write: @Sendable (RecordKey, [String: FieldValue]) async throws -> Void
    /// Lets the disk fail within the next slice, wherever it can; with `false` it works again. `nil` where none can fail.
    public var failDisk: (@Sendable (Bool) async throws -> Void)?

    public init(
        store: any RecordStore, row: @escaping @Sendable (RecordKey) async throws -> [String: FieldValue]?,
        write: @escaping @Sendable (RecordKey, [String: FieldValue]) async throws -> Void,
        failDisk: (@Sendable (Bool) async throws -> Void)? = nil
    ) {
        self.failDisk = failDisk
        self.store = store
        self.row = row
        self.write = write
    }
}

/// What every ``RecordStore`` must keep; run each rule on a fresh, empty one that was made for ``schema``.
public enum RecordStoreContract {
    /// Boards with a name; cards with a name and a number that adds up, in a board.
    public static let entities = [
        EntitySchema("board", fields: [.text("name")]),
        EntitySchema("card", fields: [.parent("idBoard", "board"), .text("name"), .integer("votes", rule: .sum)]),
    ]

    public static let rules: [ContractRule<RecordStoreSubject>] = slices + passes + positions + failing

    static func board(_ id: String, _ name: String, _ version: Int64) -> ServerRecord {
        ServerRecord(key: RecordKey("board", id), version: version, fields: ["name": .string(name)])
    }

    static func card(_ id: String, board: String, _ version: Int64, votes: Int64 = 0) -> ServerRecord {
        ServerRecord(
            key: RecordKey("card", id), version: version,
            fields: ["idBoard": .string(board), "name": .string("card \(id)"), "votes": .int(votes)])
    }

    static func rule(
        _ name: String, _ body: @escaping @Sendable (RecordStoreSubject, Expectation) async throws -> Void
    ) -> ContractRule<RecordStoreSubject> {
        ContractRule("RecordStore", name) { subject, expect in
            try await subject.store.bind(dataset: "d", epoch: "e")
            try await body(subject, expect)
        }
    }

    private static let slices: [ContractRule<RecordStoreSubject>] = [
        rule("a slice brings its rows and its checkpoint") { subject, expect in
            let report = try await subject.store.apply(
                PageSlice(records: [board("a", "A", 1), card("b", board: "a", 2)], from: 0, checkpoint: 2, epoch: "e"))
            try expect.equal(report.applied, 2, "applied")
            try expect.equal(await subject.store.position().checkpoint, 2, "checkpoint")
            try expect.equal(await subject.row(RecordKey("board", "a"))?["name"], .string("A"), "the row")
        },
        rule("I5: a slice that was asked from above the present checkpoint is dropped") { subject, expect in
            let report = try await subject.store.apply(
                PageSlice(records: [board("a", "A", 9)], from: 8, checkpoint: 9, epoch: "e"))
            try expect.isTrue(report.wasDropped, "it was not dropped")
            try expect.equal(await subject.store.position().checkpoint, 0, "checkpoint")
            try expect.equal(await subject.row(RecordKey("board", "a")), nil, "the row")
        },
        rule("a slice of another epoch is dropped") { subject, expect in
            let report = try await subject.store.apply(
                PageSlice(records: [board("a", "A", 1)], from: 0, checkpoint: 1, epoch: "other"))
            try expect.isTrue(report.wasDropped, "it was not dropped")
            try expect.equal(await subject.row(RecordKey("board", "a")), nil, "the row")
        },
        rule("a record below the version held is not taken") { subject, expect in
            _ = try await subject.store.apply(
                PageSlice(records: [board("a", "new", 5)], from: 0, checkpoint: 5, epoch: "e"))
            _ = try await subject.store.apply(
                PageSlice(records: [board("a", "old", 3)], from: 0, checkpoint: 3, epoch: "e"))
            try expect.equal(await subject.row(RecordKey("board", "a"))?["name"], .string("new"), "name")
            try expect.equal(await subject.store.position().checkpoint, 5, "the checkpoint never falls")
        },
        rule("a tombstone removes the row, a record without a row removes nothing") { subject, expect in
            _ = try await subject.store.apply(
                PageSlice(records: [board("a", "A", 1)], from: 0, checkpoint: 1, epoch: "e"))
            let dead = ServerRecord(key: RecordKey("board", "a"), version: 2, presence: .deleted)
            let unknown = ServerRecord(key: RecordKey("board", "z"), version: 3, presence: .deleted)
            _ = try await subject.store.apply(
                PageSlice(records: [dead, unknown], from: 1, checkpoint: 3, epoch: "e"))
            try expect.equal(await subject.row(RecordKey("board", "a")), nil, "the row")
        },
        rule("DAT-10 a child waits for its parent") { subject, expect in
            _ = try await subject.store.apply(
                PageSlice(records: [card("b", board: "a", 1)], from: 0, checkpoint: 1, epoch: "e"))
            try expect.equal(await subject.store.position().held, 1, "held")
            _ = try await subject.store.apply(
                PageSlice(records: [board("a", "A", 2)], from: 1, checkpoint: 2, epoch: "e"))
            try expect.equal(await subject.store.position().held, 0, "held after the parent came")
            try expect.isTrue(await subject.row(RecordKey("card", "b")) != nil, "the child did not come")
        },
        rule("I6: an unsent local value is what the device reads") { subject, expect in
            _ = try await subject.store.apply(
                PageSlice(records: [board("a", "A", 1)], from: 0, checkpoint: 1, epoch: "e"))
            try await subject.write(RecordKey("board", "a"), ["name": "mine"])
            _ = try await subject.store.apply(
                PageSlice(records: [board("a", "theirs", 2)], from: 1, checkpoint: 2, epoch: "e"))
            try expect.equal(await subject.row(RecordKey("board", "a"))?["name"], .string("mine"), "name")
        },
        rule("I6: an unsent sum is replayed on the server's value") { subject, expect in
            _ = try await subject.store.apply(
                PageSlice(
                    records: [board("a", "A", 1), card("b", board: "a", 2, votes: 1)], from: 0, checkpoint: 2,
                    epoch: "e"))
            try await subject.write(RecordKey("card", "b"), ["votes": 3])
            _ = try await subject.store.apply(
                PageSlice(records: [card("b", board: "a", 3, votes: 10)], from: 2, checkpoint: 3, epoch: "e"))
            try expect.equal(await subject.row(RecordKey("card", "b"))?["votes"], .int(12), "votes")
        },
        rule("a record with unsent changes is not removed by a tombstone") { subject, expect in
            _ = try await subject.store.apply(
                PageSlice(records: [board("a", "A", 1)], from: 0, checkpoint: 1, epoch: "e"))
            try await subject.write(RecordKey("board", "a"), ["name": "mine"])
            let dead = ServerRecord(key: RecordKey("board", "a"), version: 2, presence: .deleted)
            _ = try await subject.store.apply(PageSlice(records: [dead], from: 1, checkpoint: 2, epoch: "e"))
            try expect.equal(await subject.row(RecordKey("board", "a"))?["name"], .string("mine"), "name")
        },
    ]

    private static let passes: [ContractRule<RecordStoreSubject>] = [
        rule("a full pass begins at 0 and removes at its end what it did not bring") { subject, expect in
            let first = (1...10).map { board("b\($0)", "B", Int64($0)) }
            _ = try await subject.store.apply(PageSlice(records: first, from: 0, checkpoint: 10, epoch: "e"))
            try await subject.store.beginFullPass(epoch: "f")
            let begun = try await subject.store.position()
            try expect.equal(begun.checkpoint, 0, "checkpoint")
            try expect.isTrue(begun.isInFullPass, "not in a full pass")
            let again = (1...9).map { board("b\($0)", "B", Int64($0)) }
            _ = try await subject.store.apply(PageSlice(records: again, from: 0, checkpoint: 9, epoch: "f"))
            try expect.isTrue(await subject.row(RecordKey("board", "b10")) != nil, "it went before the end")
            try expect.equal(await subject.store.endFullPass(confirmed: false), .removed(1), "the end")
            try expect.equal(await subject.row(RecordKey("board", "b10")), nil, "the row")
            try expect.isTrue(try await !subject.store.position().isInFullPass, "still in a full pass")
        },
        rule("DL-10 an empty full pass waits for the app's word") { subject, expect in
            _ = try await subject.store.apply(
                PageSlice(records: [board("a", "A", 1)], from: 0, checkpoint: 1, epoch: "e"))
            try await subject.store.beginFullPass(epoch: "f")
            let end = try await subject.store.endFullPass(confirmed: false)
            try expect.equal(end, .awaitsConfirmation(missing: 1, of: 1), "the end")
            try expect.isTrue(await subject.row(RecordKey("board", "a")) != nil, "the row went")
            try expect.isTrue(await subject.store.position().awaitsConfirmation, "it does not say that it waits")
            try expect.equal(await subject.store.endFullPass(confirmed: true), .removed(1), "the confirmed end")
            try expect.equal(await subject.row(RecordKey("board", "a")), nil, "the row")
        },
        rule("a full pass that is begun while it runs begins anew: what it brought until then is to come again") {
            subject, expect in
            _ = try await subject.store.apply(
                PageSlice(records: [board("a", "A", 1), board("b", "B", 2)], from: 0, checkpoint: 2, epoch: "e"))
            try await subject.store.beginFullPass(epoch: "f")
            _ = try await subject.store.apply(
                PageSlice(records: [board("a", "A", 1)], from: 0, checkpoint: 1, epoch: "f"))
            try await subject.store.beginFullPass(epoch: "f")
            try expect.equal(await subject.store.position().checkpoint, 0, "checkpoint")
            _ = try await subject.store.apply(
                PageSlice(records: [board("b", "B", 2)], from: 0, checkpoint: 2, epoch: "f"))
            try expect.equal(await subject.store.endFullPass(confirmed: true), .removed(1), "the end")
            try expect.equal(await subject.row(RecordKey("board", "a")), nil, "the row")
        },
        rule("a full pass keeps what was never sent") { subject, expect in
            try await subject.write(RecordKey("board", "mine"), ["name": "mine"])
            try await subject.store.beginFullPass(epoch: "f")
            _ = try await subject.store.endFullPass(confirmed: true)
            try expect.equal(await subject.row(RecordKey("board", "mine"))?["name"], .string("mine"), "name")
        },
    ]
}
