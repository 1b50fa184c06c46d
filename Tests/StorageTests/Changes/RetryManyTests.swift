import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("Retrying several changes at once")
struct RetryManyTests {
    /// Three cards whose edits, of which the second is a delete, were refused.
    private func refused() async throws -> (Fixture, keys: [String]) {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        for id in ["c2", "c3"] { try fixture.insertCard(id) }
        try await fixture.drain()
        try fixture.sql("UPDATE card SET name = 'B' WHERE id = 'c1'")
        try fixture.sql("DELETE FROM card WHERE id = 'c2'")
        try fixture.sql("UPDATE card SET name = 'D' WHERE id = 'c3'")
        let claim = try await fixture.claim()
        try await fixture.settle(
            (claim.keys[0], .refused()), (claim.keys[1], .refused()), (claim.keys[2], .refused()))
        #expect(try await fixture.store.failures().count == 3)
        return (fixture, claim.keys)
    }

    @Test("what is retried shows again, and goes in its place")
    func shows() async throws {
        let (fixture, keys) = try await refused()
        let outcomes = try await fixture.store.retry(keys.reversed())
        let claim = try await fixture.claim()
        #expect(outcomes.reversed() == claim.keys.map(RetryOutcome.retried))
        #expect(claim.told == ["update card c1", "delete card c2", "update card c3"])
        #expect(try fixture.card("name") == "B")
        #expect(try !fixture.hasCard("c2"))
        #expect(try fixture.int("SELECT count(*) FROM sync_event WHERE kind = 'retried'") == 3)
        try await fixture.drain()
    }

    @Test(
        "one that breaks a foreign key of the app's, at once or at the commit, stays set aside; the others go",
        arguments: ["", "DEFERRABLE INITIALLY DEFERRED"])
    func foreignKey(when: String) async throws {
        let (fixture, keys) = try await refused()
        try fixture.sql("CREATE TABLE note (id TEXT PRIMARY KEY, card TEXT NOT NULL REFERENCES card (id) \(when))")
        try fixture.sql("INSERT INTO note VALUES ('n', 'c2')")
        let outcomes = try await fixture.store.retry(keys)
        guard case .retried = outcomes[0], case .failed(let failure) = outcomes[1], case .retried = outcomes[2] else {
            Issue.record("\(outcomes)")
            return
        }
        #expect(failure.code == Store.foreignKeyCode)
        #expect(try await fixture.store.failures().map(\.queued.change.id) == [keys[1]])
        #expect(try fixture.card("name") == "B" && fixture.hasCard("c2") && fixture.card("name", "c3") == "D")
        try fixture.sql("DELETE FROM note")
        #expect(try await fixture.store.retry(keys[1...].map { $0 })[1] == .notFailed)
        #expect(try !fixture.hasCard("c2"))
        #expect(try await fixture.claim().told == ["update card c1", "delete card c2", "update card c3"])
        try await fixture.drain()
    }

    @Test("one that an error of the app's own trigger breaks off leaves nothing of itself; the others go")
    func brokenTrigger() async throws {
        let (fixture, keys) = try await refused()
        try fixture.sql(
            """
            CREATE TRIGGER broken AFTER UPDATE ON card WHEN NEW.name = 'B' BEGIN SELECT json('{'); END
            """)
        let events = try fixture.int("SELECT count(*) FROM sync_event")
        let outcomes = try await fixture.store.retry([keys[0], keys[2]])
        guard case .failed(let failure) = outcomes[0], case .retried = outcomes[1] else {
            Issue.record("\(outcomes)")
            return
        }
        #expect(failure.kind == .unexpected)
        #expect(try await fixture.store.failures().map(\.queued.change.id) == Array(keys.prefix(2)))
        #expect(try fixture.card("name") == "Card" && fixture.card("name", "c3") == "D")
        #expect(try fixture.int("SELECT count(*) FROM sync_event") == (events ?? 0) + 1)
        try fixture.sql("DROP TRIGGER broken")
        for outcome in try await fixture.store.retry(keys) { if case .failed = outcome { Issue.record("\(outcome)") } }
        #expect(try await fixture.claim().told == ["update card c1", "delete card c2", "update card c3"])
        try await fixture.drain()
    }

    @Test("with ten times as many, ten times as many statements, and one commit")
    func cost() async throws {
        let few = try await statements(of: 10)
        let many = try await statements(of: 100)
        #expect(few.commits == 1 && many.commits == 1)
        #expect(many.all < 12 * few.all, "\(few) and \(many)")
    }

    private final class Counter: @unchecked Sendable {
        // Sendable: counted by the one connection that writes.
        private(set) var all = 0
        private(set) var commits = 0
        func count(_ sql: String) {
            all += 1
            if sql.hasPrefix("COMMIT") { commits += 1 }
        }
    }

    private func statements(of count: Int) async throws -> (all: Int, commits: Int) {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        for number in 0..<count { try fixture.insertCard("n\(number)") }
        let claim = try await fixture.claim()
        let outcomes = claim.keys.map { Settlement.Outcome(changeID: $0, kind: .refused()) }
        _ = try await fixture.store.settle(Settlement(outcomes: outcomes), claim: nil)
        let counter = Counter()
        try await fixture.store.database.writeWithoutTransaction { db in
            db.trace { if case .statement(let statement) = $0 { counter.count(statement.sql) } }
        }
        let retried = try await fixture.store.retry(claim.keys)
        try await fixture.store.database.writeWithoutTransaction { $0.trace(nil) }
        #expect(retried.count == count)
        #expect(try await fixture.store.failures().isEmpty)
        try await fixture.drain()
        return (counter.all, counter.commits)
    }
}
