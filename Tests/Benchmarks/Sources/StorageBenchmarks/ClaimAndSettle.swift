import Foundation
import GRDB
import Measuring
import Storage
import SyncCore

/// What the queue's way out costs: 10,000 creates claimed in requests of 500, and acknowledged with the next claim, against
/// the bare statements: read the rows, mark them, keep a version for each, take them away.
enum ClaimAndSettle {
    private static let count = 10_000
    private static let batch = 500

    static func run(in folder: URL) async throws -> [Figure] {
        var runs: [(Double, Double)] = []
        for round in 0..<5 {
            let store = try Store(path: folder.appendingPathComponent("claim\(round).sqlite").path, schema: schema())
            try await store.database.write { db in
                for n in 0..<count {
                    try db.cachedStatement(
                        sql: "INSERT INTO card (id, name, desc, closed, due, pos) VALUES (?, ?, ?, ?, ?, ?)"
                    ).execute(arguments: [
                        ApplySlices.id(n), "Task \(n)", "buy \(n) and call \(n)", n % 3 == 0,
                        "2026-11-10T08:00:00.000Z",
                        Double(n),
                    ])
                }
            }
            let bare = try DatabasePool(path: folder.appendingPathComponent("claim-bare\(round).sqlite").path)
            try fillBare(bare, from: store.database)
            let clock = ContinuousClock()
            var start = clock.now
            var claim = try await store.settle(Settlement(), claim: ClaimLimits(maxChanges: batch))
            while !claim.changes.isEmpty {
                let outcomes = claim.changes.map {
                    Settlement.Outcome(
                        changeID: $0.change.id,
                        kind: .applied(version: $0.change.sequence + 100, overwrote: [:], serverID: nil))
                }
                claim = try await store.settle(
                    Settlement(outcomes: outcomes), claim: ClaimLimits(maxChanges: batch))
            }
            let own = (clock.now - start) / .seconds(1)
            start = clock.now
            try takeBare(bare)
            runs.append((own, (clock.now - start) / .seconds(1)))
            try await store.close()
            try bare.close()
        }
        let middle = runs.sorted { $0.0 / $0.1 < $1.0 / $1.1 }[runs.count / 2]
        let scale = 1e6 / Double(count)
        return [
            Figure(
                name: "claim-and-settle",
                what: "a create claimed and acknowledged, 500 at once, against the bare statements",
                value: middle.0 * scale, unit: "us a change", bare: middle.1 * scale, goal: .infinity)
        ]
    }

    private static func schema() throws -> Schema {
        try Schema([
            EntitySchema(
                "card", fields: [.text("name"), .text("desc"), .boolean("closed"), .date("due"), .real("pos")])
        ])
    }

    private static func fillBare(_ bare: DatabasePool, from store: any DatabaseWriter) throws {
        let rows = try store.read {
            try Row.fetchAll($0, sql: "SELECT position, key, id, stamp, fields FROM sync_change")
        }
        try bare.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE change (position INTEGER PRIMARY KEY, key TEXT, id TEXT, stamp INTEGER, fields TEXT,
                      state INTEGER NOT NULL DEFAULT 0);
                    CREATE INDEX change_record ON change (id);
                    CREATE TABLE record (id TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID;
                    """)
            let insert = try db.cachedStatement(
                sql: "INSERT INTO change (position, key, id, stamp, fields) VALUES (?, ?, ?, ?, ?)")
            for row in rows { try insert.execute(arguments: StatementArguments(row.databaseValues)) }
        }
    }

    private static func takeBare(_ bare: DatabasePool) throws {
        var length = 0
        for first in stride(from: 0, to: count, by: batch) {
            try bare.write { db in
                let select = try db.cachedStatement(
                    sql:
                        "SELECT position, key, id, stamp, fields FROM change WHERE state = 0 ORDER BY position LIMIT 500"
                )
                let rows = try Row.fetchCursor(select)
                while let row = try rows.next() {
                    length += (row[4] as String).utf8.count + (row[1] as String).utf8.count
                }
                let range: StatementArguments = [first + 1, first + batch]
                try db.cachedStatement(sql: "UPDATE change SET state = 1 WHERE position BETWEEN ? AND ?")
                    .execute(arguments: range)
            }
            try bare.write { db in
                let range: StatementArguments = [first + 1, first + batch]
                try db.cachedStatement(
                    sql: "INSERT INTO record SELECT id, position FROM change WHERE position BETWEEN ? AND ?"
                ).execute(arguments: range)
                try db.cachedStatement(sql: "DELETE FROM change WHERE position BETWEEN ? AND ?").execute(
                    arguments: range)
            }
        }
        precondition(length > 0)
    }
}
