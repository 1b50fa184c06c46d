import Foundation
import GRDB
@testable import Storage
import SyncCore
import Synchronization
import Testing

/// A power loss takes commits along that were not synced, and nothing in the file says so.
@Suite("Another start of the system")
struct SystemStartTests {
    private func open(
        _ file: TestFile, _ start: String?, _ synchronous: StoreConfiguration.Synchronous = .normal,
        hook: StoreConfiguration.StatementHook? = nil
    ) throws -> Store {
        try Store(
            path: file.path, schema: boardSchema(),
            configuration: StoreConfiguration(synchronous: synchronous, systemStart: start, statementHook: hook))
    }

    private func device(_ store: Store) throws -> String? {
        try store.database.read { try Meta.text($0, .device) }
    }

    @Test("PRC-22 a file last open in an earlier start of the system gets a new device id; what waits keeps the old")
    func renewed() async throws {
        let file = try TestFile()
        let first = try open(file, "one")
        let earlier = try device(first)
        try await first.database.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'B')") }
        try await first.close()
        let second = try open(file, "two")
        #expect(try device(second) != earlier)
        #expect(try await second.queued().map(\.change.deviceID) == [earlier])
        let events = try await second.database.read { db in
            try Int.fetchOne(db, sql: "SELECT count(*) FROM sync_event WHERE kind = 'newDevice'")
        }
        #expect(events == 1)
        try await second.close()
    }

    @Test(
        "PRC-22 it keeps its id in the same start, where nobody knows the start, and where each commit was synced",
        arguments: [("one", "one", .normal), ("one", nil, .normal), (nil, "one", .normal), ("one", "two", .full)]
            as [(String?, String?, StoreConfiguration.Synchronous)])
    func kept(before: String?, after: String?, synchronous: StoreConfiguration.Synchronous) async throws {
        let file = try TestFile()
        let first = try open(file, before, synchronous)
        let earlier = try device(first)
        try await first.close()
        let second = try open(file, after, synchronous)
        #expect(try device(second) == earlier)
        try await second.close()
    }

    @Test("PRC-22 the first opening in a start of the system is synced, and no other")
    func synced() async throws {
        let file = try TestFile()
        for (start, isFirst) in [("one", true), ("one", false), ("two", true)] {
            let seen = Mutex<[String]>([])
            let store = try open(file, start) { sql in
                let text = sql()
                if text.hasPrefix("PRAGMA synchronous =") { seen.withLock { $0.append(text) } }
                return true
            }
            let usual = try await store.database.write { try Int.fetchOne($0, sql: "PRAGMA synchronous") }
            #expect(usual == 1)
            #expect(seen.withLock { $0.contains("PRAGMA synchronous = FULL") } == isFirst)
            try await store.close()
        }
    }

    @Test("PRC-22 a file that was wiped still knows the start in which it was open")
    func wiped() async throws {
        let file = try TestFile()
        let first = try open(file, "one")
        try await first.wipe()
        let earlier = try device(first)
        try await first.close()
        let second = try open(file, "two")
        #expect(try device(second) != earlier)
        try await second.close()
    }
}
