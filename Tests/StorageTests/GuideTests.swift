import Foundation
import GRDB
import Storage
import SyncCore
import SyncTesting
import Testing

/// The code of the guide, compiled and run.
@Suite struct GuideTests {
    @Test("a store opened in one line, written with plain GRDB and with a unit")
    func quickStart() async throws {
        let path = try folder()
        let schema = try Schema([
            EntitySchema("board", fields: [.text("name", required: true), .boolean("closed")]),
            EntitySchema("list", fields: [.text("name"), .parent("idBoard", "board")]),
        ])
        let store = try Store(path: path, schema: schema, account: "ada")

        // Plain GRDB: counted.
        try await store.database.write { db in
            try db.execute(sql: "INSERT INTO board (id, name) VALUES (?, ?)", arguments: ["b1", "Garden"])
        }
        // What SQL cannot say: an atomic unit, and what the user did.
        try await store.write(unit: true, intent: "archiveBoard") { db in
            try db.execute(sql: "UPDATE board SET closed = 1 WHERE id = 'b1'")
        }
        let operations = try await store.queued().map(\.change.operation)
        #expect(operations == [.create, .update])
        try await end(store, path)
    }

    @Test("a store whose time and keys a test chooses")
    func seams() async throws {
        let path = try folder()
        let myClock = ManualWallClock(5_000)
        let configuration = StoreConfiguration(clock: myClock, keySeed: 7, fixesTriggerClock: true)
        let store = try Store(
            path: path, schema: Schema([EntitySchema("board", fields: [.text("name")])]), configuration: configuration)
        try await store.write { db in try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
        let made = try await store.queued().first
        #expect(made?.change.stamp.milliseconds == 5_000)
        #expect(made?.change.id.hasPrefix("00000007-") == true)
        try await end(store, path)
    }

    @Test("a migration of the app's tables that waiting changes follow")
    func migration() async throws {
        let path = try folder()
        let early = try Store(path: path, schema: Schema([EntitySchema("board", fields: [.text("name")])]))
        try await early.write { db in try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
        try await early.close()

        var migrations = AppMigrations()
        migrations.register("titles", changes: [.rename(entity: "board", from: "name", to: "title")]) { db in
            try db.execute(sql: "ALTER TABLE board RENAME COLUMN name TO title")
        }
        let configuration = StoreConfiguration(createsTables: false, migrations: migrations)
        let store = try Store(
            path: path, schema: Schema([EntitySchema("board", fields: [.text("title")])]), configuration: configuration)
        let waiting = try await store.queued()
        #expect(waiting.first?.change.fields["title"]?.new == "A")
        try await end(store, path)
    }

    private func folder() throws -> String {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("guide-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder.appendingPathComponent("boards.sqlite").path
    }

    private func end(_ store: Store, _ path: String) async throws {
        try await store.close()
        try FileManager.default.removeItem(at: URL(fileURLWithPath: path).deletingLastPathComponent())
    }
}
