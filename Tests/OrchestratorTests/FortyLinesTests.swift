import Foundation
import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncServer
import SyncTesting
import Testing

/// The sample of `Samples/Tasks.swift`: compiled, counted and run as it is.
@Suite struct FortyLinesTests {
    private static let sample = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "Samples/Tasks.swift")

    @Test("Declaring three entities and a server takes at most 40 lines")
    func lines() throws {
        let text = try String(contentsOf: Self.sample, encoding: .utf8)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count <= 40)
        #expect(text.components(separatedBy: "EntitySchema(").count - 1 == 3)
        #expect(text.contains("endpoint: server"))
    }

    @Test("The sample syncs: what one device writes into its own tables, another has")
    func runs() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "sample-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let entities = [
            ServerEntity("project", collection: "projects"),
            ServerEntity("task", collection: "tasks", parents: [.init(field: "idProject", entity: "project")]),
            ServerEntity("note", collection: "notes", parents: [.init(field: "idTask", entity: "task")]),
        ]
        let service = try SyncService(
            path: folder.appending(path: "server.sqlite").path,
            configuration: ServerConfiguration(entities: entities, synchronous: .normal), clock: ManualWallClock(),
            randomness: SeededRandomness(seed: 7))
        let http = ServiceHTTP { service.sync(account: "account", body: $0) }
        let a = try makeEngine(
            file: folder.appending(path: "a.sqlite").path, server: "https://tasks.invalid", http: http)
        let b = try makeEngine(
            file: folder.appending(path: "b.sqlite").path, server: "https://tasks.invalid", http: http)
        try await a.store.database.write { db in
            try db.execute(sql: "INSERT INTO project (id, name) VALUES ('p-1', 'Garden')")
            try db.execute(
                sql: "INSERT INTO task (id, idProject, name, tags) VALUES ('t-1', 'p-1', 'Sow', '[\"spring\"]')")
            try db.execute(sql: "INSERT INTO note (id, idTask, text) VALUES ('n-1', 't-1', 'not before April')")
        }
        // By the system's clock: it takes its time on a machine that is busy elsewhere.
        let pushed = try await a.engine.sync(for: .seconds(3_600))
        #expect(pushed.isInStep && pushed.report.acknowledged == 3)
        let pulled = try await b.engine.sync(for: .seconds(3_600))
        #expect(pulled.isInStep && pulled.report.received == 3)
        let text = try await b.store.database.read { try String.fetchOne($0, sql: "SELECT text FROM note") }
        #expect(text == "not before April")
        for device in [a, b] { try await device.store.close() }
        try service.close()
        try FileManager.default.removeItem(at: folder)
    }
}
