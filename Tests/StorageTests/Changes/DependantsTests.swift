import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("What would go with several changes")
struct DependantsTests {
    /// So many lists whose creates were refused, each with a card that was made in it, and is in the next one by now, or in none
    /// of them; with edits, deletes, a unit and references among them.
    private func refusedLists(_ count: Int) async throws -> (Fixture, keys: [String]) {
        let f = try Fixture()
        try await f.applyBoard()
        for n in 0..<count {
            try f.sql("INSERT INTO list (id, name, idBoard) VALUES (?, 'L', 'b1')", ["n\(n)"])
        }
        let claim = try await f.claim()
        let refused = claim.keys.map { Settlement.Outcome(changeID: $0, kind: .refused()) }
        for n in 0..<count {
            try f.insertCard("k\(n)", list: "n\(n)")
            if n % 2 == 0 { try f.sql("UPDATE card SET idTwin = ? WHERE id = 'c1'", ["k\(n)"]) }
            if n % 3 == 0 { try f.sql("UPDATE card SET idList = ? WHERE id = ?", ["n\((n + 1) % count)", "k\(n)"]) }
            if n % 4 == 0 { try f.sql("UPDATE list SET name = 'M' WHERE id = ?", ["n\(n)"]) }
            if n % 5 == 0 { try f.sql("DELETE FROM card WHERE id = ?", ["k\(n)"]) }
            if n % 7 == 0 {
                try await f.store.write(unit: true) { db in
                    try db.execute(
                        sql: "INSERT INTO card (id, name, idList, pos) VALUES (?, 'u', ?, 1)",
                        arguments: ["u\(n)", "n\(n)"])
                    try db.execute(
                        sql: "INSERT INTO card (id, name, idList, pos) VALUES (?, 'u', 'l1', 1)",
                        arguments: ["v\(n)"])
                }
            }
        }
        _ = try await f.store.settle(Settlement(outcomes: refused), claim: nil)
        let queued = try await f.store.queued().map(\.change.id)
        let failed = try await f.store.failures().map(\.queued.change.id)
        #expect(failed.count == count)
        return (f, failed + queued + ["nowhere"])
    }

    @Test("QUE-03 several are answered as each by itself")
    func same() async throws {
        let (f, keys) = try await refusedLists(30)
        var each: [[String]] = []
        for key in keys { each.append(try await f.store.dependants(of: key)) }
        #expect(try await f.store.dependants(of: keys) == each)
        #expect(each.count { !$0.isEmpty } > 30)
        #expect(try await f.store.dependants(of: Array(keys.prefix(1))) == Array(each.prefix(1)))
        #expect(try await f.store.dependants(of: [String]()) == [])
    }

    private final class Counter: @unchecked Sendable {
        // Sendable: counted by the one connection that writes.
        private(set) var value = 0
        func count() { value += 1 }
    }

    @Test("QUE-14 of four times as many failures it takes about four times as many statements")
    func cost() async throws {
        var counts: [Int] = []
        for size in [20, 80] {
            let (f, keys) = try await refusedLists(size)
            let counter = Counter()
            let table = f.store.context.changes
            try await f.store.database.write { db in
                db.trace { if case .statement = $0 { counter.count() } }
                _ = try table.dependants(db, of: Array(keys.prefix(size)))
                db.trace(nil)
            }
            counts.append(counter.value)
        }
        #expect(counts[1] < 6 * counts[0], "\(counts)")
    }
}
