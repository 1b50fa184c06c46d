import GRDB
import SyncCore
import Testing

@testable import Storage

@Suite("What giving up a change costs")
struct GivingUpCostTests {
    private final class Counter: @unchecked Sendable {
        // Sendable: counted by the one connection that writes.
        private(set) var value = 0
        func count() { value += 1 }
    }

    /// Statements that it takes to cancel a board's create with so many lists, each with a card, that need it.
    private func statements(toCancel lists: Int) async throws -> Int {
        let f = try Fixture()
        try await f.store.database.write { db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'B')")
            for list in 0..<lists {
                try db.execute(
                    sql: "INSERT INTO list (id, idBoard, name) VALUES (?, 'b1', 'L')", arguments: ["l\(list)"])
                try db.execute(
                    sql: "INSERT INTO card (id, idList, name) VALUES (?, ?, 'C')", arguments: ["c\(list)", "l\(list)"])
            }
        }
        let create = try #require(try f.changes().first).id
        let counter = Counter()
        try await f.store.database.writeWithoutTransaction { db in
            db.trace { if case .statement = $0 { counter.count() } }
        }
        let outcome = try await f.store.cancel(create)
        try await f.store.database.writeWithoutTransaction { $0.trace(nil) }
        guard case .cancelled(let keys) = outcome else {
            Issue.record("\(outcome)")
            return 0
        }
        #expect(keys.count == 1 + 2 * lists)
        #expect(try f.int("SELECT count(*) FROM board") == 0)
        #expect(try f.int("SELECT count(*) FROM card") == 0)
        try await f.store.close()
        return counter.value
    }

    @Test("QUE-05 with four times as many changes that need it, four times as many statements")
    func cancelling() async throws {
        let few = try await statements(toCancel: 25)
        let many = try await statements(toCancel: 100)
        #expect(many < 5 * few, "\(few) and \(many)")
    }
}
