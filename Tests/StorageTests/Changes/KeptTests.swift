import GRDB
@testable import Storage
import SyncCore
import Testing

/// An entity that chooses to show on what was refused (DESIGN.md: "an entity may choose otherwise").
@Suite("A refused update or delete that its entity keeps")
struct KeptTests {
    /// A card whose name and votes were changed, and refused.
    private func refused() async throws -> (Fixture, key: String) {
        let fixture = try Fixture(boardSchema(refusal: .keep))
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B', votes = votes + 5 WHERE id = 'c1'")
        let claim = try await fixture.claim()
        let end = try await fixture.settle((claim.keys[0], .refused()))
        #expect(end.settled == claim.changes[0].change.sequence, "a decided change holds nothing up")
        return (fixture, claim.keys[0])
    }

    @Test("QUE-02 the row shows the refused values, the failure has reason and payload, and a restart changes neither")
    func shown() async throws {
        let (fixture, key) = try await refused()
        try await fixture.store.close()
        let again = try Fixture(boardSchema(refusal: .keep), file: fixture.file)
        #expect(try again.card("name") == "B")
        #expect(try again.card("votes") == "6")
        let failure = try #require(try await again.store.failures().first)
        #expect(failure.queued.change.id == key && failure.reason.code == "invalid" && !failure.isUncertain)
        #expect(failure.queued.change.fields["name"] == FieldDelta(old: "Card", new: "B"))
        #expect(try await again.store.summary().failed == 1)
        #expect(try await again.store.queued().isEmpty)
    }

    @Test("another entity of the same file is reverted, as ever")
    func others() async throws {
        let (fixture, _) = try await refused()
        try fixture.sql("UPDATE list SET name = 'B' WHERE id = 'l1'")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .refused()))
        #expect(try fixture.text("SELECT name FROM list") == "List")
        #expect(try fixture.card("name") == "B")
    }

    @Test("DAT-29 a later edit goes to the server from what the server has, and is shown above the refused one")
    func laterEdit() async throws {
        let (fixture, key) = try await refused()
        try fixture.sql("UPDATE card SET name = 'C', votes = votes + 1 WHERE id = 'c1'")
        let claim = try await fixture.claim()
        #expect(claim.changes.map { $0.change.fields["name"]?.new } == ["C"])
        // The server adds what is new to what it has.
        let votes = try #require(claim.changes[0].change.fields["votes"])
        #expect(votes == FieldDelta(old: 1, new: 2, rule: .sum))
        try await fixture.settle((claim.keys[0], .applied(9)))
        #expect(try fixture.card("name") == "C")
        #expect(try fixture.card("votes") == "7")
        // No page tells of it: it follows from what this device sent, and what was refused is no part of it (OBS-09).
        #expect(try fixture.int("SELECT version FROM sync_record WHERE id = 'c1'") == 9)
        #expect(try await fixture.store.discard(key) == [key])
        #expect(try fixture.card("name") == "C")
        #expect(try fixture.card("votes") == "2")
        #expect(try fixture.text("SELECT base FROM sync_record WHERE id = 'c1'") == nil)
    }

    @Test("an edit that waited behind it goes from what the server has, once it is refused")
    func waitingEdit() async throws {
        let fixture = try Fixture(boardSchema(refusal: .keep))
        try await fixture.applyBoard()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        let first = try await fixture.claim()
        try fixture.sql("UPDATE card SET name = 'C' WHERE id = 'c1'")
        try await fixture.settle((first.keys[0], .refused()))
        let next = try await fixture.claim()
        #expect(next.changes.map { $0.change.fields["name"] } == [FieldDelta(old: "Card", new: "C")])
        #expect(try fixture.card("name") == "C")
        try await fixture.settle((next.keys[0], .refused()))
        #expect(try fixture.card("name") == "C")
        for key in [next.keys[0], first.keys[0]] { _ = try await fixture.store.discard(key) }
        #expect(try fixture.card("name") == "Card")
    }

    @Test("a page moves what is under it, and shows where nothing was refused; discard shows it whole")
    func page() async throws {
        let (fixture, key) = try await refused()
        try await fixture.apply(
            record("card", "c1", 9, ["name": "Server", "desc": "theirs", "idList": "l1", "votes": 10]))
        #expect(try fixture.card("name") == "B")
        #expect(try fixture.card("votes") == "15")
        #expect(try fixture.card("desc") == "theirs")
        _ = try await fixture.store.discard(key)
        #expect(try fixture.card("name") == "Server")
        #expect(try fixture.card("votes") == "10")
    }

    @Test("retry sends a successor with a new key, from what the server has now; the row stands still meanwhile")
    func retry() async throws {
        let (fixture, key) = try await refused()
        try await fixture.apply(record("card", "c1", 9, ["name": "Server", "idList": "l1", "votes": 10]))
        let next = try await fixture.store.retry(key)
        #expect(next != key)
        #expect(try fixture.card("name") == "B")
        #expect(try fixture.card("votes") == "15")
        let claim = try await fixture.claim()
        #expect(claim.keys == [next])
        #expect(claim.changes[0].change.fields["name"] == FieldDelta(old: "Server", new: "B"))
        try await fixture.settle((next, .applied(12)))
        #expect(try fixture.card("name") == "B")
        #expect(try await fixture.store.failures().isEmpty)
        #expect(try fixture.int("SELECT count(*) FROM sync_change") == 0)
    }

    @Test("a refused delete keeps the row away until it is discarded")
    func delete() async throws {
        let fixture = try Fixture(boardSchema(refusal: .keep))
        try await fixture.applyBoard()
        try fixture.sql("DELETE FROM card WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .refused("forbidden")))
        #expect(try !fixture.hasCard())
        try await fixture.apply(record("card", "c1", 9, ["name": "Server", "idList": "l1"]))
        #expect(try !fixture.hasCard())
        _ = try await fixture.store.discard(claim.keys[0])
        #expect(try fixture.card("name") == "Server")
    }

    @Test("a card made anew after a refused delete changes the one that the server still has")
    func madeAnew() async throws {
        let fixture = try Fixture(boardSchema(refusal: .keep))
        try await fixture.applyBoard()
        try fixture.sql("DELETE FROM card WHERE id = 'c1'")
        let claim = try await fixture.claim()
        try fixture.insertCard("c1", name: "anew")
        try await fixture.settle((claim.keys[0], .refused("forbidden")))
        #expect(try fixture.card("name") == "anew")
        let next = try await fixture.claim()
        #expect(next.told == ["update card c1"])
        try await fixture.settle((next.keys[0], .applied(9)))
        #expect(try fixture.card("name") == "anew")
        _ = try await fixture.store.discard(claim.keys[0])
        #expect(try fixture.card("name") == "anew")
    }

    @Test("DL-13 a record that left all scopes goes with its row; the refused values stay in the failure")
    func gone() async throws {
        let (fixture, key) = try await refused()
        try await fixture.apply(record("card", "c1", 9, [:], .gone))
        #expect(try !fixture.hasCard())
        #expect(try await fixture.store.failures().map(\.queued.change.id) == [key])
        _ = try await fixture.store.discard(key)
        #expect(try !fixture.hasCard())
    }

    @Test("a refused create stays whatever its entity chose")
    func create() async throws {
        let fixture = try Fixture(boardSchema(refusal: .keep))
        try await fixture.applyBoard()
        try fixture.insertCard("c2", name: "new")
        let claim = try await fixture.claim()
        try await fixture.settle((claim.keys[0], .refused()))
        #expect(try fixture.card("name", "c2") == "new")
        _ = try await fixture.store.discard(claim.keys[0])
        #expect(try !fixture.hasCard("c2"))
    }
}
