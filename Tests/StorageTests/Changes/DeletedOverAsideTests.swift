import GRDB
@testable import Storage
import SyncCore
import Testing

/// A record is deleted over an edit of it that lies aside, and the delete is done (Decision 504).
@Suite struct DeletedOverAsideTests {
    enum Aside: CaseIterable {
        case perhapsDone, kept
    }

    private let limits = ClaimLimits(merges: false)

    /// - Parameter isPaged: whether the answer to the delete is lost, and its page comes before the verdict.
    /// - Returns: the edit's key.
    private func begin(_ f: Fixture, _ aside: Aside, isPaged: Bool = false) async throws -> String {
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        let edit = try await f.claim(limits).keys[0]
        let reason = SetAsideReason(code: "http", message: "413")
        try await f.settle((edit, .setAside(reason, staysUncertain: aside == .perhapsDone)))
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let delete = try await f.claim(limits)
        try #require(delete.told == ["delete card c1"])
        if isPaged {
            try await f.settle((delete.keys[0], .unanswered))
            try await f.apply(record("card", "c1", 12, [:], .deleted))
            _ = try await f.claim(limits)
        }
        try await f.settle((delete.keys[0], .applied(12)))
        return edit
    }

    private func fixture(_ aside: Aside) throws -> Fixture {
        try Fixture(boardSchema(refusal: aside == .kept ? .keep : .revert))
    }

    @Test(
        "its row stays away, also where a page told of its death first (seed 2001087)", arguments: Aside.allCases,
        [false, true])
    func stays(aside: Aside, isPaged: Bool) async throws {
        let f = try fixture(aside)
        _ = try await begin(f, aside, isPaged: isPaged)
        #expect(try !f.hasCard())
        #expect(try await f.store.failures().count == 1)
    }

    @Test("its row stays away when a page tells of its death, too", arguments: Aside.allCases)
    func page(aside: Aside) async throws {
        let f = try fixture(aside)
        _ = try await begin(f, aside)
        try await f.apply(record("card", "c1", 12, [:], .deleted))
        #expect(try !f.hasCard())
    }

    @Test(
        "the edit goes again: what it did before the delete brings nothing back", arguments: Aside.allCases,
        [true, false])
    func again(aside: Aside, isDone: Bool) async throws {
        let f = try fixture(aside)
        _ = try await f.store.retry(try await begin(f, aside))
        #expect(try !f.hasCard())
        let key = try await f.claim(limits).keys[0]
        let dead = record("card", "c1", 12, [:], .deleted)
        let outcome = Settlement.Outcome(
            changeID: key, kind: isDone ? .applied(8) : .merged(dead), isRepeated: isDone)
        _ = try await f.store.settle(Settlement(outcomes: [outcome]), claim: nil)
        #expect(try !f.hasCard())
        #expect(try f.int("SELECT count(*) FROM sync_event WHERE kind = 'revived'") == 0)
        try await f.drain()
    }

    @Test(
        "the edit goes again, and is done after the delete, since both are ahead of the server's clock: it brings it back (seed 2101874)",
        arguments: Aside.allCases, [true, false])
    func againLater(aside: Aside, isRepeated: Bool) async throws {
        let f = try fixture(aside)
        _ = try await f.store.retry(try await begin(f, aside))
        let key = try await f.claim(limits).keys[0]
        let outcome = Settlement.Outcome(changeID: key, kind: .applied(14), isRepeated: isRepeated)
        _ = try await f.store.settle(Settlement(outcomes: [outcome]), claim: nil)
        #expect(try f.card("name") == "Mine")
        #expect(try f.int("SELECT count(*) FROM sync_event WHERE kind = 'revived'") == 1)
    }

    @Test("the edit is given up: nothing is left of it", arguments: Aside.allCases)
    func givenUp(aside: Aside) async throws {
        let f = try fixture(aside)
        _ = try await f.store.discard(try await begin(f, aside))
        #expect(try !f.hasCard())
        #expect(try await f.store.failures().isEmpty)
    }

    @Test("what is made anew has nothing of the edit", arguments: Aside.allCases)
    func anew(aside: Aside) async throws {
        let f = try fixture(aside)
        _ = try await begin(f, aside)
        try f.sql("INSERT INTO card (id, idList, pos) VALUES ('c1', 'l1', 2)")
        #expect(try f.card("name") == nil)
        let create = try await f.claim(limits)
        try #require(create.told == ["create card c1"])
        try await f.settle((create.keys[0], .applied(14)))
        #expect(try f.card("name") == nil)
    }

    @Test("somebody else's later edit brings it back", arguments: Aside.allCases)
    func theirs(aside: Aside) async throws {
        let f = try fixture(aside)
        _ = try await begin(f, aside)
        try await f.apply(record("card", "c1", 15, ["name": "Theirs", "idList": "l1", "pos": 3.0]))
        #expect(try f.card("pos") == "3.0")
    }
}
