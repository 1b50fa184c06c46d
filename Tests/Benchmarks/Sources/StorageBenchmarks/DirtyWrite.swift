import Foundation
import GRDB
import Measuring
import Storage
import SyncCore

/// What a dirty flag costs a local write: the first edit of a row in step, and a further one, against a bare one.
enum DirtyWrite {
    static let names = (0..<11).map { "field\($0)" }
    static let rows = 5_000

    static func run(in folder: URL) async throws -> [Figure] {
        let schema = try Schema([EntitySchema("card", capture: .dirtyFlag, fields: names.map { .text($0) })])
        let store = try Store(path: folder.appendingPathComponent("dirty.sqlite").path, schema: schema)
        let bare = try DatabasePool(path: folder.appendingPathComponent("dirty-bare.sqlite").path)
        try await bare.write { db in
            let columns = names.map { "\($0) TEXT" }.joined(separator: ", ")
            try db.execute(sql: "CREATE TABLE card (id TEXT PRIMARY KEY NOT NULL, \(columns))")
        }
        let marked = store.database
        for database in [marked, bare] as [any DatabaseWriter] { try fill(database) }
        var first: [(Double, Double)] = []
        var further: [(Double, Double)] = []
        for round in 0..<5 {
            try await marked.write { db in
                try db.execute(sql: "DELETE FROM sync_dirty")
                try db.execute(sql: "UPDATE card SET is_dirty = 0")
            }
            first.append((try each(marked, 2 * round), try each(bare, 2 * round)))
            further.append((try each(marked, 2 * round + 1), try each(bare, 2 * round + 1)))
        }
        try await store.close()
        return [
            figure("dirty-write-first", "the first edit of a row under a dirty flag, in its own transaction", first),
            figure("dirty-write-further", "a further edit of the same row", further),
        ]
    }

    private static func figure(_ name: String, _ what: String, _ runs: [(Double, Double)]) -> Figure {
        let middle = runs.sorted { $0.0 / $0.1 < $1.0 / $1.1 }[runs.count / 2]
        return Figure(
            name: name, what: what + ", against bare GRDB's", value: middle.0 * 1e6, unit: "us", bare: middle.1 * 1e6,
            goal: 2.5)
    }

    private static func fill(_ database: any DatabaseWriter) throws {
        try database.write { db in
            let marks = names.map { _ in "?" }.joined(separator: ", ")
            let statement = try db.cachedStatement(
                sql: "INSERT INTO card (id, \(names.joined(separator: ", "))) VALUES (?, \(marks))")
            for row in 0..<rows {
                try statement.execute(
                    arguments: StatementArguments([ApplySlices.id(row)] + names.map { "\($0) of the card \(row)" }))
            }
        }
    }

    private static func each(_ database: any DatabaseWriter, _ round: Int) throws -> Double {
        try seconds {
            for row in 0..<rows {
                try database.write { db in
                    try db.cachedStatement(sql: "UPDATE card SET field3 = ? WHERE id = ?")
                        .execute(arguments: ["edit of round \(round)", ApplySlices.id(row)])
                }
            }
        } / Double(rows)
    }
}
