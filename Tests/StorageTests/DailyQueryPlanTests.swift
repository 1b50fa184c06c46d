import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("Query plans of a day")
struct DailyQueryPlanTests {
    /// Tables that hold one row, or few by their nature, may be read whole.
    private static let small: Set<String> = [
        "sync_clock", "sync_meta", "sync_lease", "sqlite_master", "sync_replaced", "sync_download", "sync_draft",
        // What one transaction touched.
        "sync_touched",
    ]

    @Test("QUE-14 no statement of the engine's daily work scans a table")
    func noScans() async throws {
        let seen = Tally()
        let file = try TestFile()
        let store = try Store(
            path: file.path, schema: boardSchema(),
            configuration: StoreConfiguration(
                clock: FixedClock(), snapshots: [Self.sizes],
                statementHook: { sql in
                    seen.add(sql())
                    return true
                }))
        let before = Set(seen.all)
        let f = Work(store: store)
        try await f.day()
        let statements = seen.all.filter { !before.contains($0) }.map { $0.replacing(" -- raw", with: "") }
        #expect(statements.count > 40)
        let kinds = ["SELECT", "UPDATE", "DELETE", "INSERT"]
        for sql in statements
        where kinds.contains(where: { sql.hasPrefix($0) }) && !sql.contains("ORDER BY number DESC") {
            // Temporary tables are the writing connection's.
            let plan = try await store.database.writeWithoutTransaction { db in
                try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN \(sql.replacing(/\?[0-9]*/, with: "NULL"))").map {
                    $0["detail"] as String
                }
            }
            for line in plan where line.hasPrefix("SCAN") {
                let table = String(line.dropFirst(5).prefix { $0 != " " })
                let isIndexed = line.contains("USING INDEX") || line.contains("USING COVERING INDEX")
                let isOrdered = (sql.contains("ORDER BY position") && sql.contains("LIMIT")) || sql.hasSuffix("LIMIT 1")
                if Self.small.contains(table) || line.contains("CONSTANT ROW") || line.contains("VIRTUAL TABLE")
                    || isIndexed || isOrdered
                {
                    continue
                }
                Issue.record("\(line): \(sql)")
            }
        }
        try await store.close()
    }

    /// How many cards a list has.
    private static let sizes = SnapshotBuilder(
        "sizes", subject: "list", dependsOn: [.entity("list"), .entity("card", ["idList"])],
        setUp: { db in try db.execute(sql: "CREATE TABLE IF NOT EXISTS size (id TEXT PRIMARY KEY, cards INTEGER)") },
        rebuild: { db, ids in
            for id in ids {
                try db.execute(
                    sql: "INSERT OR REPLACE INTO size SELECT ?1, count(*) FROM card WHERE idList = ?1", arguments: [id])
            }
        })

    /// What an ordinary day does, each thing once.
    private struct Work {
        let store: Store

        func day() async throws {
            let records = [
                record("board", "b1", 1, ["name": "A"]), record("list", "l1", 2, ["name": "L", "idBoard": "b1"]),
                record("card", "c1", 3, ["name": "C", "idList": "l1"]),
                record("card", "c2", 4, ["name": "orphan", "idList": "l2"]),
            ]
            _ = try await store.apply(PageSlice(records: records, from: 0, checkpoint: 4, epoch: "e-1"))
            try await store.write { db in
                try db.execute(sql: "INSERT INTO card (id, name, idList) VALUES ('c3', 'new', 'l1')")
                try db.execute(sql: "UPDATE card SET name = 'edit' WHERE id = 'c1'")
            }
            let claim = try await store.settle(Settlement(), claim: ClaimLimits())
            let page = [
                record("card", "c1", 5, ["name": "theirs", "idList": "l1"]), record("board", "b1", 6, [:], .deleted),
                record("list", "l2", 7, ["name": "L", "idBoard": "b1"]),
            ]
            _ = try await store.apply(PageSlice(records: page, from: 4, checkpoint: 7, epoch: "e-1"))
            _ = try await store.settle(
                Settlement(
                    outcomes: claim.changes.map {
                        .init(changeID: $0.change.id, kind: .applied(version: 8, overwrote: [:], serverID: nil))
                    }), claim: ClaimLimits())
            _ = try await store.counts(for: RecordKey("board", "b1"))
            _ = try await store.summary()
            _ = try await store.position()
            try await store.ask(DownloadRequest(scope: "board:b1", priority: 1))
            _ = try await store.claim()
            try await store.finish("board:b1")
        }
    }
}
