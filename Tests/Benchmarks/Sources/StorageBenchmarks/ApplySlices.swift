import Foundation
import GRDB
import Measuring
import Storage
import SyncCore

/// What applying pages costs: 100,000 records in slices of 500, against one prepared upsert of the same rows in
/// transactions of the same size; and the same with 1,000 records that have unsent edits.
enum ApplySlices {
    static let count = 100_000
    static let slice = 500
    /// The figure is that of the round in the middle.
    static let rounds = 5
    static let names = (0..<11).map { "field\($0)" }

    static func run(in folder: URL) async throws -> [Figure] {
        var first: [(Double, Double)] = []
        var second: [(Double, Double)] = []
        var edited: [(Double, Double)] = []
        for round in 0..<rounds {
            let store = try Store(path: folder.appendingPathComponent("apply\(round).sqlite").path, schema: schema())
            let other = try Store(path: folder.appendingPathComponent("edited\(round).sqlite").path, schema: schema())
            let bare = try bare(folder.appendingPathComponent("bare\(round).sqlite").path)
            let new = try await times(round: 0, [store, other], bare)
            first.append((new[0], new[2]))
            try await other.database.write { db in
                for n in stride(from: 0, to: count, by: count / 1_000) {
                    try db.execute(sql: "UPDATE card SET field3 = 'mine' WHERE id = ?", arguments: [id(n)])
                }
            }
            // The log that the app's edits made is no part of what is measured.
            for each in [store, other] {
                try await each.database.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
            }
            let again = try await times(round: 1, [store, other], bare)
            second.append((again[0], again[2]))
            edited.append((again[1], again[0]))
            try await store.close()
            try await other.close()
            try bare.close()
        }
        return [
            figure(
                "apply-new", "100,000 new records in slices, against one prepared upsert of the same rows", first,
                1 / 0.6),
            figure("apply-known", "100,000 records again, all of them changed", second, 1 / 0.6),
            figure("apply-unsent", "100,000 records with 1,000 unsent edits among them, against none", edited, 1.1),
        ]
    }

    /// The same slices by turns into each store and into the bare table, so that a machine that slows down slows all.
    /// - Returns: the seconds of each, the bare table's last.
    private static func times(round: Int, _ stores: [Store], _ bare: DatabasePool) async throws -> [Double] {
        var times = Array(repeating: 0.0, count: stores.count + 1)
        let clock = ContinuousClock()
        for first in stride(from: 0, to: count, by: slice) {
            let records = (first..<min(first + slice, count)).map { record($0, round: round) }
            let from = Int64(round * count + first)
            for (index, store) in stores.enumerated() {
                let start = clock.now
                _ = try await store.apply(
                    PageSlice(records: records, from: from, checkpoint: from + Int64(records.count), epoch: "e"))
                times[index] += (clock.now - start) / .seconds(1)
            }
            times[stores.count] += try upsert(bare, records)
        }
        return times
    }

    static func schema() throws -> Schema { try Schema([EntitySchema("card", fields: names.map { .text($0) })]) }

    static func id(_ n: Int) -> String { "01908a2e-7c5b-7000-8000-\(String(1_000_000_000_000 + n).suffix(12))" }

    static func record(_ n: Int, round: Int) -> ServerRecord {
        let fields = names.map { ($0, FieldValue.string("\($0) of the card number \(n) in round \(round)")) }
        return ServerRecord(
            key: RecordKey("card", id(n)), version: Int64(round * count + n + 1),
            fields: Dictionary(uniqueKeysWithValues: fields))
    }

    private static func bare(_ path: String) throws -> DatabasePool {
        let pool = try DatabasePool(path: path)
        let columns = names.map { "\"\($0)\" TEXT" }.joined(separator: ", ")
        try pool.write { try $0.execute(sql: "CREATE TABLE card (id TEXT PRIMARY KEY NOT NULL, \(columns))") }
        return pool
    }

    private static func upsert(_ pool: DatabasePool, _ records: [ServerRecord]) throws -> Double {
        let columns = names.map { "\"\($0)\"" }.joined(separator: ", ")
        let sets = names.map { "\"\($0)\" = excluded.\"\($0)\"" }.joined(separator: ", ")
        let marks = Array(repeating: "?", count: names.count + 1).joined(separator: ", ")
        let sql = "INSERT INTO card (id, \(columns)) VALUES (\(marks)) ON CONFLICT (id) DO UPDATE SET \(sets)"
        return try seconds {
            for first in stride(from: 0, to: records.count, by: slice) {
                try pool.write { db in
                    let statement = try db.cachedStatement(sql: sql)
                    for record in records[first..<min(first + slice, records.count)] {
                        var values = [record.key.id.databaseValue]
                        for name in names {
                            guard case .string(let text)? = record.fields[name] else { continue }
                            values.append(text.databaseValue)
                        }
                        try statement.execute(arguments: StatementArguments(values))
                    }
                }
            }
        }
    }

    private static func figure(_ name: String, _ what: String, _ runs: [(Double, Double)], _ goal: Double) -> Figure {
        let middle = runs.sorted { $0.0 / $0.1 < $1.0 / $1.1 }[runs.count / 2]
        let scale = 1e6 / Double(count)
        return Figure(
            name: name, what: what, value: middle.0 * scale, unit: "us a record", bare: middle.1 * scale, goal: goal)
    }
}
