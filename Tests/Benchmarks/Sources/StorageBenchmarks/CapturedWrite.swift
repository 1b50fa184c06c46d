import Foundation
import GRDB
import Measuring
import Storage
import SyncCore

/// What capture costs a local write: the same update of one field of a row of 12 columns, with and without triggers.
enum CapturedWrite {
    static func run(in folder: URL) async throws -> [Figure] {
        let rows = 1_000
        let updates = 5_000
        let names = (0..<11).map { "field\($0)" }
        let schema = try Schema([EntitySchema("card", fields: names.map { .text($0) })])
        let store = try Store(path: folder.appendingPathComponent("captured.sqlite").path, schema: schema)
        let bare = try DatabasePool(path: folder.appendingPathComponent("bare.sqlite").path, configuration: plain())
        try await bare.write { db in
            let columns = names.map { "\($0) TEXT" }.joined(separator: ", ")
            try db.execute(sql: "CREATE TABLE card (id TEXT PRIMARY KEY NOT NULL, \(columns))")
        }
        let captured = store.database
        for database in [captured, bare] as [any DatabaseWriter] { try fill(database, rows, names) }
        try settleAll(captured)

        // Alternating, so that a machine that slows down slows both.
        var single: [(Double, Double)] = []
        var bulk: [(Double, Double)] = []
        for round in 0..<7 {
            single.append(
                (
                    try each(captured, updates, rows, round) / Double(updates),
                    try each(bare, updates, rows, round) / Double(updates)
                ))
            try settleAll(captured)
            bulk.append(
                (try inOne(captured, 10_000, rows, round) / 10_000, try inOne(bare, 10_000, rows, round) / 10_000))
            try settleAll(captured)
        }
        try await store.close()
        var statements: [(Double, Double)] = []
        for _ in 0..<5 {
            let again = try Store(
                path: folder.appendingPathComponent("statements-\(statements.count).sqlite").path, schema: schema)
            try fill(again.database, rows, names)
            let all = try AllStatements(folder.appendingPathComponent("all-\(statements.count).sqlite").path, names)
            try fill(all.database, rows, names)
            statements.append(
                (
                    try inOne(again.database, 10_000, rows, 1) / 10_000,
                    try seconds {
                        try all.database.write { db in
                            for index in 0..<10_000 {
                                try update(db, index, rows, 1)
                                try all.record(db, index, id((index * 7) % rows))
                            }
                        }
                    } / 10_000
                ))
            try await again.close()
        }
        return [
            figure(
                "captured-write-statements",
                "10,000 captured one-field updates in one transaction, against the update, look and record of it bare",
                statements, goal: 1.5),
            figure(
                "captured-write", "one captured one-field update in its own transaction, against bare GRDB's", single,
                goal: 2.5),
            figure(
                "captured-write-bulk", "10,000 captured one-field updates in one transaction, against bare GRDB's",
                bulk, goal: 8),
        ]
    }

    private static func figure(_ name: String, _ what: String, _ runs: [(Double, Double)], goal: Double) -> Figure {
        let middle = runs.sorted { $0.0 / $0.1 < $1.0 / $1.1 }[runs.count / 2]
        return Figure(
            name: name, what: what, value: middle.0 * 1e6, unit: "us", bare: middle.1 * 1e6, goal: goal)
    }

    private static func plain() -> Configuration {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = NORMAL") }
        return configuration
    }

    private static func fill(_ database: any DatabaseWriter, _ rows: Int, _ names: [String]) throws {
        try database.write { db in
            let marks = names.map { _ in "?" }.joined(separator: ", ")
            let sql = "INSERT INTO card (id, \(names.joined(separator: ", "))) VALUES (?, \(marks))"
            for row in 0..<rows {
                try db.execute(
                    sql: sql,
                    arguments: StatementArguments([id(row)] + names.map { "\($0) of the card number \(row)" }))
            }
        }
    }

    /// Empties the queue, so that each round begins alike.
    private static func settleAll(_ database: any DatabaseWriter) throws {
        try database.write { try $0.execute(sql: "DELETE FROM sync_change") }
    }

    private static func each(_ database: any DatabaseWriter, _ count: Int, _ rows: Int, _ round: Int) throws -> Double {
        try seconds {
            for index in 0..<count {
                try database.write { try update($0, index, rows, round) }
            }
        }
    }

    private static func inOne(_ database: any DatabaseWriter, _ count: Int, _ rows: Int, _ round: Int) throws -> Double
    {
        try seconds {
            try database.write { db in
                for index in 0..<count { try update(db, index, rows, round) }
            }
        }
    }

    private static func update(_ db: Database, _ index: Int, _ rows: Int, _ round: Int) throws {
        let statement = try db.cachedStatement(sql: "UPDATE card SET field3 = ? WHERE id = ?")
        try statement.execute(arguments: ["edit \(index) of round \(round)", id((index * 7) % rows)])
    }

    private static func id(_ row: Int) -> String { "0195a3f2-c4d1-7000-8000-\(String(row + 100_000_000_000))" }
}

/// A plain database that does by three statements what a captured write does by one: the row, a look at clock and newest
/// change for the next number and stamp, and the queue.
private struct AllStatements {
    let database: DatabasePool

    init(_ path: String, _ names: [String]) throws {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = NORMAL") }
        database = try DatabasePool(path: path, configuration: configuration)
        try database.write { db in
            let columns = names.map { "\($0) TEXT" }.joined(separator: ", ")
            try db.execute(sql: "CREATE TABLE card (id TEXT PRIMARY KEY NOT NULL, \(columns))")
            try db.execute(
                sql: """
                    CREATE TABLE clock (one INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, stamp INTEGER NOT NULL);
                    INSERT INTO clock VALUES (1, 0, 0);
                    CREATE TABLE change (
                      position INTEGER PRIMARY KEY, sequence INTEGER, key TEXT, entity TEXT, id TEXT, operation INTEGER,
                      schema INTEGER, stamp INTEGER, madeAt INTEGER, fields TEXT);
                    CREATE INDEX change_record ON change (entity, id);
                    """)
        }
    }

    func record(_ db: Database, _ index: Int, _ id: String) throws {
        let look = """
            SELECT sequence, stamp, (SELECT max(position) FROM change),
              (SELECT stamp FROM change WHERE position = (SELECT max(position) FROM change)) FROM clock WHERE one = 1
            """
        guard let row = try Row.fetchOne(db.cachedStatement(sql: look)) else { return }
        let number = max(row[0] as Int64, row[2] as Int64? ?? 0) + 1
        let stamp = max(row[1] as Int64 + 1, (row[3] as Int64? ?? 0) + 1, 1_700_000_000_000 << 16)
        let sql = """
            INSERT INTO change (position, sequence, key, entity, id, operation, schema, stamp, madeAt, fields)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """
        try db.cachedStatement(sql: sql).execute(arguments: [
            number, number, "0195a3f2-c4d1-4000-8000-\(100_000_000_000 + index)", "card", id, 1, 1,
            stamp, 1_700_000_000_000,
            #"{"field3":{"old":"edit \#(index) of round 0","new":"edit \#(index) of round 1"}}"#,
        ])
    }
}
