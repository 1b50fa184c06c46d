import Foundation
import GRDB
import SyncCore
import Testing

@testable import Storage

/// A file on which another process has a lock (PRC-10).
@Suite("A locked file")
struct LockedFileTests {
    /// Somebody else, in the middle of a transaction.
    private final class Other {
        private let queue: DatabaseQueue

        init(_ path: String, _ sql: String...) throws {
            var settings = Configuration()
            settings.allowsUnsafeTransactions = true
            queue = try DatabaseQueue(path: path, configuration: settings)
            try queue.writeWithoutTransaction { db in for line in sql { try db.execute(sql: line) } }
        }

        func end() throws {
            try queue.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
            try queue.close()
        }
    }

    private func made() async throws -> TestFile {
        let file = try TestFile()
        let store = try Store(path: file.path, schema: boardSchema())
        try await store.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
        try await store.close()
        return file
    }

    @Test(
        "PRC-10 who only looks waits for no writer, and can write nothing",
        arguments: ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
    func looking(lock: String) async throws {
        let file = try await made()
        let other = try Other(file.path, lock)
        let store = try #require(try Store(forReading: file.path, schema: boardSchema()))
        #expect(try await store.queued().map(\.change.record.id) == ["b1"])
        #expect(try await store.summary().pending == 1)
        #expect(try await store.failures().isEmpty)
        #expect(try await store.position().checkpoint == 0)
        #expect(try await store.database.read { try String.fetchAll($0, sql: "SELECT name FROM board") } == ["A"])
        try other.end()
        let failure = await #expect(throws: StoreFailure.self) {
            try await store.write { try $0.execute(sql: "DELETE FROM board") }
        }
        #expect(failure?.kind == .readOnly)
        try await store.close()
        let again = try Store(path: file.path, schema: boardSchema())
        #expect(try await again.queued().count == 1)
        try await again.close()
    }

    @Test("A look writes nothing, so an opening that would have to write is not one")
    func notReady() async throws {
        let nowhere = try TestFile()
        #expect(try Store(forReading: nowhere.path, schema: boardSchema()) == nil)
        #expect(!FileManager.default.fileExists(atPath: nowhere.path))
        let file = try await made()
        let more = try Schema(boardSchema().entities + [EntitySchema("label", fields: [.text("name")])])
        #expect(try Store(forReading: file.path, schema: more) == nil)
        #expect(try Store(forReading: file.path, schema: boardSchema(), account: "ada") == nil)
        let store = try Store(path: file.path, schema: boardSchema())
        _ = try await store.settle(Settlement(), claim: ClaimLimits())
        try await store.close()
        #expect(try Store(forReading: file.path, schema: boardSchema()) == nil, "what was sent is without a verdict")
        try Data("no database".utf8).write(to: URL(fileURLWithPath: file.path))
        #expect(try Store(forReading: file.path, schema: boardSchema()) == nil)
        #expect(try String(contentsOfFile: file.path, encoding: .utf8) == "no database", "a look moves nothing aside")
    }

    @Test("PRC-10 who closes waits for no reader: the log stays, and whoever comes next has it")
    func closing() async throws {
        let file = try await made()
        let store = try Store(
            path: file.path, schema: boardSchema(), configuration: StoreConfiguration(busyTimeout: 240))
        let other = try Other(file.path, "BEGIN", "SELECT * FROM board")
        try await store.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b2', 'B')") }
        let took = try await ContinuousClock().measure { try await store.close() }
        #expect(took < .seconds(200), "\(took)")
        let again = try Store(path: file.path, schema: boardSchema())
        #expect(try await again.queued().map(\.change.record.id) == ["b1", "b2"])
        try other.end()
        try await again.close()
    }

    @Test("PRC-10 an opening waits once for a lock, not once for each thing that it does; then a typed error")
    func opening() async throws {
        let file = try await made()
        let other = try Other(file.path, "BEGIN IMMEDIATE")
        let began = ContinuousClock.now
        let failure = #expect(throws: StoreFailure.self) {
            try Store(path: file.path, schema: boardSchema(), configuration: StoreConfiguration(busyTimeout: 2))
        }
        let took = began.duration(to: .now)
        #expect(failure?.kind == .busy)
        #expect(failure?.message.hasSuffix(": another process has the database locked") == true)
        #expect(took > .seconds(1.9) && took < .seconds(3.8), "\(took)")
        try other.end()
    }

    @Test("PRC-10 a call whose task is cancelled goes on waiting for a lock for a moment only")
    func cancelled() async throws {
        let file = try await made()
        let store = try Store(
            path: file.path, schema: boardSchema(), configuration: StoreConfiguration(busyTimeout: 240))
        let other = try Other(file.path, "BEGIN IMMEDIATE")
        let began = ContinuousClock.now
        let task = Task { try await store.beginCycle(holder: "me", seconds: 30) }
        task.cancel()
        let failure = await #expect(throws: StoreFailure.self) { try await task.value }
        #expect(failure?.kind == .busy)
        #expect(began.duration(to: .now) < .seconds(200))
        try other.end()
        try await store.close()
    }
}
