import Foundation
import GRDB
import Measuring
import Orchestrator
import Storage
import SyncCore
import SyncServer
import SyncTesting
import Transport

/// A cycle with nothing to do, without a network: what the engine and the two databases add to a round trip.
enum IdleCycle {
    static func run(_ parent: URL) async throws -> [Figure] {
        let folder = try Lab.folder(in: parent)
        let service = try Lab.service(folder, clock: SystemWallClock())
        let store = try Store(path: folder.appending(path: "device.sqlite").path, schema: try Lab.schema())
        let http = LineHTTP(service)
        let engine = SyncEngine(store: store, exchange: try BatchExchange(endpoint: "https://line.invalid", http: http))
        try await store.database.write { db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b-1', 'x')")
        }
        _ = try await engine.sync(for: .seconds(10))
        for _ in 0..<200 { await engine.syncNow() }
        _ = http.trips()
        var cycles: [Double] = []
        for _ in 0..<1_001 { cycles.append(await time { await engine.syncNow() }) }
        let trips = http.trips()
        // The same database: one row written in a transaction of its own, on its own thread as the store does it.
        try await store.database.write {
            try $0.execute(sql: "CREATE TABLE bare (id INTEGER PRIMARY KEY, value INTEGER)")
        }
        let pool = store.database
        var bare: [Double] = []
        for number in 0..<1_001 {
            bare.append(
                try seconds {
                    try pool.write { db in
                        try db.cachedStatement(sql: "INSERT OR REPLACE INTO bare VALUES (1, ?)").execute(arguments: [
                            number
                        ])
                    }
                })
        }
        try await store.close()
        try service.close()
        guard trips == cycles.count else { throw Unexpected(text: "\(trips) requests for \(cycles.count) cycles") }
        return [
            Figure(
                name: "engine-idle",
                what:
                    "a cycle with nothing to do without a network, the middle of 1,001, one request each, the server's core "
                    + "included; bare: one row written in a transaction of its own",
                value: middle(cycles) * 1e6, unit: "µs", bare: middle(bare) * 1e6, goal: 10)
        ]
    }

    struct Unexpected: Error { let text: String }

    private static func time(_ work: () async -> Void) async -> Double {
        let began = ContinuousClock.now
        await work()
        let took = ContinuousClock.now - began
        return Double(took.components.seconds) + Double(took.components.attoseconds) * 1e-18
    }

    private static func middle(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
}
