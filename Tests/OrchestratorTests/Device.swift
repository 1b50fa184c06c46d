import Foundation
import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing

/// One device: a store in a folder of its own, an engine, and clocks that the test moves.
final class Device: Sendable {
    static let schema = [
        EntitySchema("board", fields: [.text("name"), .text("desc")]),
        EntitySchema("list", fields: [.text("name"), .parent("idBoard", "board")]),
        EntitySchema("card", fields: [.text("name"), .text("desc"), .real("pos"), .parent("idList", "list")]),
    ]

    static let parsed: Schema = {
        do { return try Schema(schema) } catch { fatalError("\(error)") }
    }()

    let store: Store
    let engine: SyncEngine
    let wall: ManualWallClock
    let clock = VirtualClock()
    private let folder: URL

    init(_ exchange: any Exchange, seed: UInt64 = 1, wall: ManualWallClock = ManualWallClock()) throws {
        self.wall = wall
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("engine-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        var configuration = StoreConfiguration()
        configuration.clock = wall
        configuration.fixesTriggerClock = true
        configuration.keySeed = Int64(seed)
        store = try Store(
            path: folder.appendingPathComponent("device.sqlite").path, schema: Self.parsed,
            configuration: configuration)
        engine = SyncEngine(
            store: store, exchange: exchange, wallClock: wall, clock: clock, randomness: SeededRandomness(seed: seed),
            ids: SeededIDs(seed: seed))
    }

    /// Closes the store and takes the folder away.
    func end() async throws {
        try await store.close()
        try FileManager.default.removeItem(at: folder)
    }

    func write(_ sql: String) async throws {
        try await store.write { db in try db.execute(sql: sql) }
    }

    /// All rows of an entity in one canonical text each.
    func rows(_ entity: String) throws -> [String] {
        try store.database.read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM \(entity) ORDER BY id").map { row in
                row.map { "\($0)=\($1)" }.joined(separator: " ")
            }
        }
    }
}
