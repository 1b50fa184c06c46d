import Foundation
import GRDB
import SyncCore
import SyncTesting
import Testing

@testable import Storage

@Suite struct ReadingTests {
    private struct Broken: Error {}

    private func store(_ scratch: TestFile, hook: StoreConfiguration.StatementHook? = nil) throws -> Store {
        var configuration = StoreConfiguration(statementHook: hook)
        configuration.readsByWriter = true
        return try Store(
            path: scratch.path, schema: Schema([EntitySchema("note", fields: [.text("text")])]),
            configuration: configuration)
    }

    @Test("An engine that reads over the writing connection shows what is committed to no hook")
    func unseen() async throws {
        let scratch = try TestFile()
        let seen = Seen()
        let store = try store(scratch) { sql in
            seen.add(sql())
            return true
        }
        try await store.write { try $0.execute(sql: "INSERT INTO note (id, text) VALUES ('a', 'x')") }
        seen.clear()
        #expect(try await store.summary().pending == 1)
        #expect(try store.read { try String.fetchOne($0, sql: "SELECT text FROM note") } == "x")
        #expect(!seen.all.contains { $0.contains("FROM sync_change WHERE state") || $0.contains("FROM note") })
        try await store.write { try $0.execute(sql: "UPDATE note SET text = 'y'") }
        #expect(seen.all.contains { $0.hasPrefix("UPDATE note") })
        try await store.close()
    }

    @Test("A read over the writing connection that fails leaves no transaction open")
    func failing() async throws {
        let scratch = try TestFile()
        let store = try store(scratch)
        #expect(throws: Broken.self) {
            try store.read { db in
                _ = try Int.fetchOne(db, sql: "SELECT 1 FROM sync_meta")
                throw Broken()
            }
        }
        try await store.write { try $0.execute(sql: "INSERT INTO note (id, text) VALUES ('a', 'x')") }
        #expect(try await store.summary().pending == 1)
        try await store.close()
    }

    private final class Seen: @unchecked Sendable {  // `list` is used under `lock` alone
        private let lock = NSLock()
        private var list: [String] = []
        var all: [String] { lock.withLock { list } }
        func add(_ sql: String) { lock.withLock { list.append(sql) } }
        func clear() { lock.withLock { list = [] } }
    }
}
