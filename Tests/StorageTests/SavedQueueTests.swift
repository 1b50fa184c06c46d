import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// What is saved of a broken file's queue when some of its pages are gone (PRC-14).
@Suite("PRC-14 a saved queue of which something is missing")
struct SavedQueueTests {
    /// A list whose create was refused, and a card in it that waits for that. `lost` is what the broken pages had.
    private func saved(without lost: String) async throws -> (f: Fixture, keys: [String]) {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('n', 'New', 'b1')")
        try f.insertCard("k", list: "n")
        let sent = try await f.claim(ClaimLimits(maxChanges: 1))
        try await f.settle((sent.keys[0], .refused("forbidden")))
        let waiting = try await f.store.queued()
        try #require(waiting.map(\.state) == [.blocked])
        try f.sql(lost)
        try await f.store.database.barrierWriteWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        try await f.store.close()
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: f.file.path))
        try handle.write(contentsOf: Data(repeating: 0x55, count: 16))
        try handle.close()
        let g = try Fixture(file: f.file, seed: 8)
        try #require(g.store.movedAside != nil)
        return (g, sent.keys + waiting.map(\.change.id))
    }

    @Test("A change that waits for one that is lost waits no longer")
    func blockerLost() async throws {
        let (f, keys) = try await saved(without: "DELETE FROM sync_change WHERE entity = 'list'")
        #expect(try await f.store.queued().map(\.state) == [.pending])
        #expect(try await f.claim().keys == [keys[1]])
        try await f.store.close()
    }

    @Test("A change that waits for one that is there waits on")
    func blockerSaved() async throws {
        let (f, keys) = try await saved(without: "DELETE FROM sync_event")
        #expect(try await f.store.queued().map(\.blockedBy) == [keys[0]])
        #expect(try await f.claim().keys == [])
        #expect(try await f.store.failures().map(\.queued.change.id) == [keys[0]])
        try await f.store.close()
    }

    @Test("A draft's change waits on, unless it is forgotten that it is one")
    func draft() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("k")
        try await f.store.hold([RecordKey("card", "k")])
        try #require(try await f.store.queued().map(\.state) == [.blocked])
        for (lost, state) in [("", QueuedChange.State.blocked), ("DELETE FROM sync_draft", .pending)] {
            try f.sql(lost.isEmpty ? "SELECT 1" : lost)
            try await f.store.database.write { try Recovery.freeOfLost($0, now: 1) }
            #expect(try await f.store.queued().map(\.state) == [state])
        }
    }

    @Test("What was set aside for a reason that is lost is told still, and can be tried again by its key, or given up")
    func reasonLost() async throws {
        for retries in [true, false] {
            let (f, keys) = try await saved(without: "DELETE FROM sync_failure")
            let failures = try await f.store.failures()
            try #require(failures.map(\.queued.change.id) == [keys[0]])
            #expect(failures[0].reason.code == "reasonLost" && failures[0].isUncertain)
            if retries {
                #expect(try await f.store.retry(keys[0]) == keys[0])
                #expect(try await f.claim().keys == keys)
            } else {
                _ = try await f.store.discard(keys[0])
                #expect(try await f.store.queued().isEmpty)
            }
            try await f.store.close()
        }
    }

    @Test(
        "What was decided for a reason that is lost, and the server forgot, is set aside with its values for a new key")
    func reasonLostAndForgotten() async throws {
        let (f, keys) = try await saved(without: "DELETE FROM sync_failure")
        _ = try await f.store.retry(keys[0])
        try #require(try await f.claim(ClaimLimits(maxChanges: 1)).keys == [keys[0]])
        try await f.settle((keys[0], .refused("expired")))
        let failure = try #require(try await f.store.failures().first)
        #expect(failure.queued.change.id == keys[0] && failure.reason.code == "expired" && !failure.isUncertain)
        #expect(failure.queued.change.fields["name"]?.new == "New")
        #expect(try await f.store.queued().map(\.blockedBy) == [keys[0]])
        let next = try await f.store.retry(keys[0])
        let claim = try await f.claim()
        try #require(claim.keys == [next, keys[1]] && next != keys[0])
        #expect(claim.changes[0].change.fields["name"]?.new == "New")
        // That one is as any other: decided, and nobody knows how.
        try await f.settle((next, .refused("expired")))
        #expect(try await f.store.failures().isEmpty)
        try await f.store.close()
    }
}
