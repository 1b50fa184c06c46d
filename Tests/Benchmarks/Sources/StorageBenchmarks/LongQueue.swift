import Foundation
import GRDB
import Measuring
import Storage
import SyncCore

/// What a long queue costs: a captured write, and opening the file with taking the first change, with 1,000,000 changes
/// waiting against 1,000.
enum LongQueue {
    static func run(in folder: URL) async throws -> [Figure] {
        let short = try await measure(folder.appendingPathComponent("short.sqlite").path, waiting: 1_000)
        let long = try await measure(folder.appendingPathComponent("long.sqlite").path, waiting: 1_000_000)
        return [
            Figure(
                name: "enqueue-p99", what: "p99 of a captured update with 1,000,000 changes waiting, against 1,000",
                value: long.enqueue * 1e6, unit: "us", bare: short.enqueue * 1e6, goal: 1.2),
            Figure(
                name: "open-and-claim",
                what: "opening and taking the first change with 1,000,000 waiting, against 1,000",
                value: long.open * 1e3, unit: "ms", bare: short.open * 1e3, goal: 3),
        ]
    }

    private static func measure(_ path: String, waiting: Int) async throws -> (enqueue: Double, open: Double) {
        let schema = try ApplySlices.schema()
        let store = try Store(path: path, schema: schema)
        try await store.database.write { db in
            for n in 0..<1_000 {
                try db.execute(sql: "INSERT INTO card (id, field0) VALUES (?, 'x')", arguments: [ApplySlices.id(n)])
            }
        }
        for round in 1..<(waiting / 1_000) {
            try await store.database.write { db in
                try db.execute(sql: "UPDATE card SET field1 = ?", arguments: ["round \(round)"])
            }
        }
        try await store.database.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        var times: [Double] = []
        for n in 0..<5_000 {
            times.append(
                try seconds {
                    try store.database.write { db in
                        try db.execute(
                            sql: "UPDATE card SET field2 = ? WHERE id = ?",
                            arguments: ["n \(n)", ApplySlices.id(n % 1_000)])
                    }
                })
        }
        times.sort()
        try await store.close()
        var opens: [Double] = []
        let clock = ContinuousClock()
        for _ in 0..<7 {
            let start = clock.now
            let again = try Store(path: path, schema: schema)
            _ = try await again.settle(Settlement(), claim: ClaimLimits(maxChanges: 1))
            opens.append((clock.now - start) / .seconds(1))
            try await again.close()
        }
        opens.sort()
        return (times[times.count * 99 / 100], opens[opens.count / 2])
    }
}
