import SyncCore
import Testing

@testable import Storage

/// Deletes that were sent and taken back, as the simulator found them.
@Suite("Deletes that are taken back, found by the simulator")
struct FoundInTakenBackDeletesTests {
    @Test(
        "Seed 69741: a refused delete that is tried again over somebody's tombstone has nothing to bring back when it is taken back"
    )
    func deletedWhatIsDead() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let first = try await f.claim().keys[0]
        try await f.settle((first, .unanswered))
        try await f.apply(record("card", "c1", 7, [:], .deleted))
        #expect(try await f.claim().keys == [first])
        try await f.settle((first, .refused()))
        let again = try await f.store.retry(first)
        #expect(try await f.claim().keys == [again])
        try await f.settle((again, .unanswered))
        #expect(try await f.store.cancel(again) == .tooLate)
        #expect(try f.changes().map(\.id) == [again])
    }

    @Test(
        "Seed 867: what was made under a record that lives again waits for it, although its delete was done in the same request"
    )
    func madeUnderTheRevived() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try await f.apply(record("list", "l9", 5, ["name": "List", "idBoard": "b1"]))
        try f.sql("DELETE FROM list WHERE id = 'l9'")
        let delete = try await f.claim().keys[0]
        try await f.settle((delete, .unanswered))
        guard case .inverse = try await f.store.cancel(delete) else { return #expect(Bool(false), "no inverse") }
        try f.sql("INSERT INTO card (id, name, idList) VALUES ('n', 'N', 'l9')")
        let keys = try await f.claim().keys
        #expect(keys.count == 3)
        try await f.settle(
            (keys[0], .applied(version: nil, overwrote: [:], serverID: nil)),
            (keys[1], .merged(record("list", "l9", 6, [:], .deleted))), (keys[2], .applied(43)))
        try await f.apply(record("list", "l9", 40, ["name": "List", "idBoard": "b1"]))
        #expect(try f.hasCard("n"))
        #expect(try await f.store.position().held == 0)
    }
}
