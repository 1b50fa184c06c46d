import Foundation
import GRDB
import Storage
import SyncCore
import SyncTesting
import Testing
import UploadQueue

/// What `Docs/UploadQueue.md` quotes.
@Suite("The guide's code", .timeLimit(.minutes(20)))
struct GuideTests {
    /// A server of the guide's reader.
    private struct Notes: Sendable {
        func ping() async throws(ExchangeFailure) {}
        func send(_ change: Change) async throws(ExchangeFailure) -> Verdict {
            .applied(version: 1, overwrote: [:], serverID: nil)
        }
    }

    private struct AlwaysOpen: Gate {
        func mayGo(_ urgency: Urgency) -> GateAnswer { .open }
    }

    @Test("a queue alone, one request a change")
    func alone() async throws {
        let api = Notes()
        let log = InMemoryChangeLog(wallClock: SystemWallClock(), ids: UUIDv7Source())
        let queue = UploadQueue(log: log)
        let sender = ClosureSender(probe: api.ping) { (changes, _) async throws(ExchangeFailure) in
            var results: [ChangeResult] = []
            for change in changes {
                results.append(ChangeResult(changeID: change.id, verdict: try await api.send(change)))
            }
            return results
        }

        await log.write(.create, RecordKey("note", "n1"), ["text": FieldDelta(old: nil, new: "Hello")])
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await queue.run(sender: sender, gate: AlwaysOpen()) }
            for await counts in queue.counts() where counts.waiting + counts.inFlight == 0 { break }
            group.cancelAll()
        }
        #expect(try await log.summary().hasWork == false)
    }

    @Test("a cycle that carries both ways")
    func cycle() async throws {
        let clock = VirtualClock()
        let wall = ManualWallClock(following: clock)
        let log = InMemoryChangeLog(wallClock: wall, ids: SeededIDs(seed: 1))
        let queue = UploadQueue(
            log: log, wallClock: wall, clock: clock, randomness: SeededRandomness(seed: 1))
        await log.write(.create, RecordKey("note", "n1"))
        @Sendable func exchange(_ changes: [Change]) async -> Result<[ChangeResult], ExchangeFailure> {
            .success(
                changes.map {
                    ChangeResult(changeID: $0.id, verdict: .applied(version: 1, overwrote: [:], serverID: nil))
                })
        }

        var take = try await queue.take(urgency: .routine)
        while case .batch(let claim) = take {
            switch await exchange(claim.changes.map(\.change)) {
            case .success(let results):
                take = try await queue.settle(
                    claim, results: results, stamp: nil, backoffSeconds: nil, urgency: .routine)
            case .failure(let failure):
                take = try await queue.settle(claim, failure: failure, urgency: .routine)
            }
        }
        #expect(!take.summary.hasWork)
    }

    @Test("an entity that keeps what was refused")
    func kept() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("guide-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let note = EntitySchema("note", refusal: .keep, fields: [.text("text")])
        let store = try Store(path: folder.appendingPathComponent("notes.sqlite").path, schema: Schema([note]))
        let queue = UploadQueue(log: store, home: store)
        func answer(_ verdict: Verdict) async throws {
            guard case .batch(let claim) = try await queue.take(urgency: .user) else { return }
            let results = claim.changes.map { ChangeResult(changeID: $0.change.id, verdict: verdict) }
            _ = try await queue.settle(claim, results: results, stamp: nil, backoffSeconds: nil, urgency: .user)
        }
        try await store.write { try $0.execute(sql: "INSERT INTO note (id, text) VALUES ('n1', 'Hello')") }
        try await answer(.applied(version: 1, overwrote: [:], serverID: nil))
        try await store.write { try $0.execute(sql: "UPDATE note SET text = 'A long letter' WHERE id = 'n1'") }
        try await answer(.rejected(Rejection(code: .forbidden, message: "not now")))
        let shown = try await store.database.read { try String.fetchOne($0, sql: "SELECT text FROM note") }
        #expect(shown == "A long letter")
        #expect(try await queue.failures().map(\.reason.code) == ["forbidden"])
        try await store.close()
        try FileManager.default.removeItem(at: folder)
    }
}
