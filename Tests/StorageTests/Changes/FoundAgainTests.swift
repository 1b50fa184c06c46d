import GRDB
@testable import Storage
import SyncCore
import SyncTesting
import Testing

/// What a handler finds again, and otherwise, while the queue has it already.
@Suite struct FoundAgainTests {
    private static let board = RecordKey("board", "b-1")

    private func create(_ fields: [String: FieldValue], _ key: RecordKey = board) -> FoundChange {
        FoundChange(
            record: key, operation: .create, fields: fields.mapValues { FieldDelta(old: nil, new: $0) })
    }

    private func update(_ fields: [String: FieldValue], _ key: RecordKey = board) -> FoundChange {
        FoundChange(
            record: key, operation: .update, fields: fields.mapValues { FieldDelta(old: nil, new: $0) })
    }

    private func delete(_ key: RecordKey = board) -> FoundChange {
        FoundChange(record: key, operation: .delete, fields: [:])
    }

    @Test("DAT-27 several changes of one record that are found again and again are in the queue once")
    func severalOfOne() async throws {
        let f = try Fixture()
        let found = [create(["name": "A", "closed": .null]), update(["closed": true]), update(["name": "B"])]
        #expect(try await f.store.recordNew(found) == 3)
        for _ in 0..<3 { #expect(try await f.store.recordNew(found) == 0) }
        // The parts of it as well, where a later one does not say otherwise.
        #expect(try await f.store.recordNew([update(["closed": true])]) == 0)
        #expect(try await f.store.recordNew([update(["name": "B"])]) == 0)
        #expect(try await f.store.recordNew(found + [update(["name": "C"])]) == 1)
        #expect(try await f.store.recordNew(found + [update(["name": "C"])]) == 0)
        #expect(try f.queue().count == 4)
    }

    @Test("DAT-27 a record that is deleted and made anew is found again without an end to it")
    func madeAnew() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b-1", 1, ["name": "Old"]))
        let found = [delete(), create(["name": "New"])]
        #expect(try await f.store.recordNew(found) == 2)
        for _ in 0..<3 { #expect(try await f.store.recordNew(found) == 0) }
        #expect(try await f.store.recordNew(found + [delete()]) == 1)
        for _ in 0..<3 { #expect(try await f.store.recordNew(found + [delete()]) == 0) }
        // A create behind a delete begins anew, and stays one (decision 420).
        #expect(try await f.store.recordNew([create(["name": "Newer"])]) == 1)
        #expect(try f.changes().map(\.operation) == [.delete, .create, .delete, .create])
    }

    @Test("What is found as made while its create waits is an edit of that: of what differs, with what was before")
    func createBehindCreate() async throws {
        let f = try Fixture()
        #expect(try await f.store.recordNew([create(["name": "1", "closed": true])]) == 1)
        let sent = try await f.claim().keys
        try await f.settle((sent[0], .unanswered))
        #expect(try await f.store.recordNew([create(["name": "2", "closed": true])]) == 1)
        let last = try #require(try f.changes().last)
        #expect(last.operation == .update)
        #expect(last.fields == ["name": FieldDelta(old: "1", new: "2")])
        #expect(try await f.store.recordNew([create(["name": "2", "closed": true])]) == 0)
    }

    @Test("What is found as made though the server knows it is an edit; what the server has as deleted is made anew")
    func createOfKnown() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b-1", 1, ["name": "1"]))
        #expect(try await f.store.recordNew([create(["name": "2"])]) == 1)
        let last = try #require(try f.changes().last)
        #expect(last.operation == .update)
        #expect(last.fields["name"] == FieldDelta(old: "1", new: "2"))
        // Found just as it is known: sent all the same, as the handler is told of what is decided.
        let key = RecordKey("board", "b-3")
        try await f.apply(record("board", "b-3", 2, ["name": "1"]))
        #expect(try await f.store.recordNew([create(["name": "1"], key)]) == 1)
        #expect(try f.changes().last?.fields == ["name": FieldDelta(old: "1", new: "1")])
        try await f.apply(record("board", "b-2", 3, ["name": "1"]), record("board", "b-2", 4, [:], .deleted))
        #expect(try await f.store.recordNew([create(["name": "2"], RecordKey("board", "b-2"))]) == 1)
        #expect(try f.changes().last?.operation == .create)
    }
}
