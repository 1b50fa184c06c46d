import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("What needs a change that was set aside")
struct NeedTests {
    @Test("QUE-03 what needs a refused create waits for it, without attempts, and goes after a retry")
    func cascade() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("INSERT INTO list (id, name, idBoard) VALUES ('A', 'A', 'b1')")
        try fixture.insertCard("B", list: "A")
        try fixture.sql("UPDATE list SET name = 'A2' WHERE id = 'A'")
        try fixture.sql("UPDATE card SET name = 'B2' WHERE id = 'B'")
        try fixture.insertCard("free")
        let claim = try await fixture.claim(ClaimLimits(maxChanges: 2))
        #expect(claim.told == ["create list A", "create card B"])
        let key = claim.keys[0]
        let settled = try await fixture.settle((key, .refused()), (claim.keys[1], .unanswered))
        #expect(settled.summary.blocked == 3 && settled.summary.failed == 1 && settled.summary.pending == 1)
        let queued = try await fixture.store.queued()
        #expect(queued.map(\.blockedBy) == [key, key, key, nil])
        #expect(queued.map(\.state) == [.blocked, .blocked, .blocked, .pending])
        #expect(try await fixture.store.dependants(of: key).count == 3)
        #expect(try await fixture.claim().told == ["create card free"])
        let retried = try await fixture.store.retry(key)
        let next = try await fixture.claim()
        #expect(next.told == ["create list A", "create card B", "update list A", "update card B", "create card free"])
        #expect(next.keys[0] == retried && retried != key)
        #expect(next.changes[1].change == claim.changes[1].change)
        #expect(next.changes.allSatisfy { $0.attempts == 0 })
        // The successor's number is the highest, and nothing before it is settled that is not.
        #expect(next.settled < claim.changes[1].change.sequence)
        try await fixture.drain()
    }

    @Test("QUE-03 what is written later under a refused create waits, too")
    func laterChildren() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("INSERT INTO list (id, name, idBoard) VALUES ('A', 'A', 'b1')")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .refused()))
        try fixture.insertCard("B", list: "A")
        try fixture.sql("UPDATE card SET idTwin = 'B' WHERE id = 'c1'")
        #expect(try await fixture.claim().changes.isEmpty)
        #expect(try await fixture.states() == ["create card B blocked", "update card c1 blocked"])
        let discarded = try await fixture.store.discard(claim.keys[0])
        #expect(discarded.count == 2)
        #expect(try fixture.int("SELECT count(*) FROM list WHERE id = 'A'") == 0)
        #expect(try !fixture.hasCard("B"))
        #expect(try await fixture.store.failures().isEmpty)
        // What only refers to one of them waits no longer, and goes.
        #expect(try fixture.card("idTwin") == "B")
        #expect(try await fixture.claim().told == ["update card c1"])
        try await fixture.drain()
    }

    /// A card, `c1`, was moved into a list whose create was refused, under the key that is returned; another, `c2`, was edited.
    private func movedIntoRefused() async throws -> (Fixture, refused: String) {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.insertCard("c2")
        try await fixture.drain()
        try fixture.sql("INSERT INTO list (id, name, idBoard) VALUES ('A', 'A', 'b1')")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .refused()))
        try fixture.sql("UPDATE card SET idList = 'A' WHERE id = 'c1'")
        try fixture.sql("UPDATE card SET name = 'other' WHERE id = 'c2'")
        return (fixture, claim.keys[0])
    }

    @Test("QUE-07 seed 6810: what follows a change of its record that waits, waits with it, and goes after it")
    func behindWhatWaits() async throws {
        let (fixture, refused) = try await movedIntoRefused()
        try fixture.sql("DELETE FROM card WHERE id = 'c1'")
        // Before a claim has marked them, and after it.
        let states = ["update card c1 blocked", "update card c2 pending", "delete card c1 blocked"]
        #expect(try await fixture.states() == states)
        #expect(try await fixture.claim().told == ["update card c2"])
        #expect(try await fixture.store.summary().blocked == 2)
        try fixture.sql("UPDATE card SET name = 'again' WHERE id = 'c2'")
        let retried = try await fixture.store.retry(refused)
        let next = try await fixture.claim()
        #expect(next.keys.first == retried)
        #expect(next.told.filter { $0.hasSuffix("c1") } == ["update card c1", "delete card c1"])
    }

    @Test("QUE-07 seed 32168: a create and a later edit stay two around a waiting unit that refers to the record")
    func aroundWhatWaits() async throws {
        let (fixture, refused) = try await movedIntoRefused()
        try fixture.sql("INSERT INTO list (id, name, idBoard) VALUES ('B', 'B', 'b1')")
        try await fixture.store.write(unit: true) { db in
            try db.execute(sql: "INSERT INTO card (id, name, idList, pos) VALUES ('c3', 'three', 'B', 1)")
            try db.execute(sql: "UPDATE card SET name = 'mine' WHERE id = 'c1'")
        }
        try fixture.sql("UPDATE list SET name = 'later' WHERE id = 'B'")
        let claim = try await fixture.claim()
        try #require(claim.told == ["update card c2", "create list B", "update list B"])
        // Nobody got it, and what the unit waited for comes.
        try await fixture.settle(
            (claim.keys[0], .unanswered), (claim.keys[1], .unanswered), (claim.keys[2], .unanswered))
        _ = try await fixture.store.retry(refused)
        #expect(
            try await fixture.claim().told == [
                "create list A", "update card c1", "update card c2", "create list B", "create card c3",
                "update card c1", "update list B",
            ])
    }

    @Test("QUE-07 a create and a later edit stay two around what cannot be read, which may refer to the record")
    func aroundWhatCannotBeRead() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("INSERT INTO list (id, name, idBoard) VALUES ('B', 'B', 'b1')")
        try fixture.insertCard("c3", list: "B")
        try fixture.sql("UPDATE list SET name = 'later' WHERE id = 'B'")
        try fixture.sql("UPDATE sync_change SET fields = '{' WHERE id = 'c3'")
        #expect(try await fixture.claim().told == ["create list B", "update list B"])
    }

    @Test("QUE-04 what waits behind a change that is taken back waits for nothing that it does not need")
    func behindWhatIsTakenBack() async throws {
        let (fixture, _) = try await movedIntoRefused()
        try fixture.sql("UPDATE card SET name = 'mine' WHERE id = 'c1'")
        #expect(try await fixture.claim().told == ["update card c2"])
        let moving = try #require(try await fixture.store.queued().first { $0.change.record.id == "c1" })
        #expect(try await fixture.store.cancel(moving.change.id) == .cancelled([moving.change.id]))
        let next = try await fixture.claim()
        #expect(next.told.contains("update card c1"))
        #expect(next.changes.first { $0.change.record.id == "c1" }?.change.fields["name"]?.new == .string("mine"))
    }

    @Test("DAT-09 a child refused for a parent whose create was set aside is blocked by it, and stays")
    func missingParent() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.sql("INSERT INTO list (id, name, idBoard) VALUES ('A', 'A', 'b1')")
        try fixture.insertCard("B", list: "A")
        let claim = try await fixture.claim()
        try await fixture.settle(
            (claim.keys[0], .refused("quota")), (claim.keys[1], .refused("missingReference", reference: "A")))
        #expect(try fixture.hasCard("B"))
        let queued = try await fixture.store.queued()
        #expect(queued.map(\.state) == [.blocked])
        #expect(queued[0].blockedBy == claim.keys[0])
        // The refusal is bound to the old key.
        #expect(queued[0].change.id != claim.keys[1])
        #expect(try await fixture.store.failures().count == 1)
        _ = try await fixture.store.retry(claim.keys[0])
        #expect(try await fixture.claim().told == ["create list A", "create card B"])
    }

    @Test("missingReference to what nobody creates here is a failure")
    func missingElsewhere() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try fixture.insertCard("B")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .refused("missingReference", reference: "zz")))
        #expect(try await fixture.store.failures().count == 1)
    }
}
