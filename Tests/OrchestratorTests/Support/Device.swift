import Foundation
import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing
import UploadQueue

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
    let clock: VirtualClock
    private let folder: URL
    private let isGuest: Bool

    /// - Parameters:
    ///   - other: another process's part in this one: its file is this device's, too.
    ///   - executor: what the store runs on; the one that drives virtual time, or a thread of its own.
    init(
        _ exchange: any Exchange, seed: UInt64 = 1, onFileOf other: Device? = nil,
        wall: ManualWallClock = ManualWallClock(),
        clock: VirtualClock = VirtualClock(), executor: (any SerialExecutor)? = FileExecutor(),
        hints: (any HintSource)? = nil, configuration: EngineConfiguration = EngineConfiguration(),
        policy: UploadPolicy = UploadPolicy()
    ) throws {
        self.wall = wall
        self.clock = clock
        folder =
            other?.folder
            ?? FileManager.default.temporaryDirectory.appendingPathComponent("engine-\(UUID().uuidString)")
        isGuest = other != nil
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        var settings = StoreConfiguration()
        settings.clock = wall
        settings.monotonicClock = clock
        settings.fixesTriggerClock = true
        settings.keySeed = Int64(seed)
        settings.executor = executor
        store = try Store(
            path: folder.appendingPathComponent("device.sqlite").path, schema: Self.parsed, configuration: settings)
        engine = SyncEngine(
            store: store, exchange: exchange, hints: hints, configuration: configuration, policy: policy,
            wallClock: wall, clock: clock, randomness: SeededRandomness(seed: seed), ids: SeededIDs(seed: seed))
    }

    /// A board, written as an app does.
    func addBoard(_ id: String, _ name: String = "Garden") async throws {
        try await write("INSERT INTO board (id, name) VALUES ('\(id)', '\(name)')")
    }

    /// Closes the store and takes the folder away, where it is its own.
    func end() async throws {
        try await store.close()
        if isGuest { return }
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
