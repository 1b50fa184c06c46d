import BoardsModel
import Ferry
import GRDB
import Logging
import ServiceLifecycle
import SyncCore
import Testing

/// The engine as one service among an app's others, as `Docs/Engine.md` shows it.
private struct SyncService: Service {
    let engine: SyncEngine

    func run() async throws {
        try await cancelWhenGracefulShutdown { try await engine.run() }
        await engine.close()
    }
}

@Suite("the engine as a service of swift-service-lifecycle")
struct ServiceTests {
    @Test(
        "it syncs while the group runs, and a graceful shutdown ends it with the group", .timeLimit(.minutes(1)))
    func gracefulShutdown() async throws {
        let shop = try Workshop()
        let server = try await ServerProcess(shop)
        defer { #expect(server.stop() == 0) }
        let store = try Store(path: shop.file("service.sqlite"), schema: Schema(BoardEntities.all))
        let exchange = try BatchExchange(endpoint: server.url, http: AsyncHTTPClientTransport())
        let engine = SyncEngine(store: store, exchange: exchange)
        let group = ServiceGroup(
            services: [SyncService(engine: engine)], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            try await store.database.write {
                try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b-1', 'Garden')")
            }
            #expect(try await engine.settled(RecordKey("board", "b-1"), timeout: .seconds(300)) == .decided)
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
        // What is written after the end waits for the next run.
        try await store.database.write { try $0.execute(sql: "UPDATE board SET name = 'Orchard' WHERE id = 'b-1'") }
        #expect(try await store.summary().pending == 1)
        try await store.close()
    }
}
