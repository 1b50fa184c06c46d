import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

/// What a killed process leaves is what it has given to the system: the file and its log, as they are at that moment.
/// They are copied before every statement of an operation, and each copy is opened as after a crash.
@Suite("Killed at every statement")
struct KilledTests {
    /// Runs an operation, and checks what each moment of it left.
    /// - Returns: how many moments there were.
    private func kill(
        prepare: (Store) async throws -> Void, during operation: (Store) async throws -> Void,
        check: (Store) async throws -> Void
    ) async throws -> Int {
        let file = try TestFile()
        let camera = Camera(file)
        let configuration = StoreConfiguration(
            clock: FixedClock(),
            statementHook: { _ in
                camera.take()
                return true
            })
        let store = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        try await prepare(store)
        camera.start()
        try await operation(store)
        camera.take()
        camera.stop()
        for copy in camera.copies {
            let again = try Store(
                path: copy, schema: boardSchema(), configuration: StoreConfiguration(clock: FixedClock()))
            #expect(try await again.integrityProblems().isEmpty)
            #expect(again.movedAside == nil)
            try await check(again)
            try await again.close()
        }
        try await store.close()
        return camera.copies.count
    }

    @Test("PRC-01 a write of three rows: all of them with their queue entries, or none")
    func write() async throws {
        let outcomes = Tally()
        let moments = try await kill { _ in
        } during: { store in
            try await store.write(unit: true) { db in
                try db.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')")
                try db.execute(sql: "INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
                try db.execute(sql: "UPDATE board SET name = 'B'")
            }
        } check: { store in
            let rows = try await store.database.read { db in
                try Int.fetchOne(db, sql: "SELECT (SELECT count(*) FROM board) + (SELECT count(*) FROM list)") ?? 0
            }
            let queued = try await store.queued().count
            outcomes.add("\(rows) \(queued)")
        }
        #expect(moments > 5)
        #expect(outcomes.all == ["0 0", "2 3"])
    }

    @Test("I5 a slice: its rows with its checkpoint, or neither")
    func slice() async throws {
        let outcomes = Tally()
        let moments = try await kill { store in
            let records = [record("board", "b1", 1, ["name": "A"])]
            _ = try await store.apply(PageSlice(records: records, from: 0, checkpoint: 1, epoch: "e-1"))
            try await store.write { try $0.execute(sql: "UPDATE board SET name = 'Mine'") }
        } during: { store in
            let records = [
                record("board", "b1", 2, ["name": "B", "closed": true]), record("board", "b2", 3, ["name": "C"]),
                record("card", "c1", 4, ["name": "orphan", "idList": "l9"]),
            ]
            _ = try await store.apply(PageSlice(records: records, from: 1, checkpoint: 4, epoch: "e-1"))
        } check: { store in
            let rows = try await store.database.read {
                try String.fetchAll($0, sql: "SELECT id || name || coalesce(closed, '') FROM board ORDER BY id")
            }
            let position = try await store.position()
            outcomes.add("\(position.checkpoint) \(position.held) \(rows.joined(separator: " "))")
            #expect(try await store.queued().count == 1)
        }
        #expect(moments > 5)
        #expect(outcomes.all == ["1 0 b1Mine", "4 1 b1Mine1 b2C"])
    }

    @Test(
        "PRC-06, I1 a verdict with the claim of the next: all of it, or the change is still there with its key",
        arguments: [false, true])
    func verdict(isLookedAhead: Bool) async throws {
        let outcomes = Tally()
        let keys = Tally()
        let moments = try await kill { store in
            try await store.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
            try await store.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b2', 'B')") }
            let claim = try await store.settle(Settlement(), claim: ClaimLimits(maxChanges: 1))
            keys.add(try await store.queued()[0].change.id)
            if isLookedAhead { await store.prepare(after: claim, limits: ClaimLimits(maxChanges: 1)) }
        } during: { store in
            let key = keys.all[0]
            let outcome = Settlement.Outcome(
                changeID: key, kind: .applied(version: 7, overwrote: [:], serverID: nil))
            _ = try await store.settle(Settlement(outcomes: [outcome]), claim: ClaimLimits(maxChanges: 1))
        } check: { store in
            let queued = try await store.queued()
            let version = try await store.database.read {
                try Int64.fetchOne($0, sql: "SELECT version FROM sync_record WHERE id = 'b1'") ?? 0
            }
            outcomes.add(
                "\(queued.map { "\($0.change.record.id) \($0.state.rawValue)" }.joined(separator: " ")) \(version)")
            if queued.count == 2 { #expect(queued[0].change.id == keys.all[0]) }
        }
        #expect(moments > 4)
        #expect(outcomes.all == ["b1 uncertain b2 pending 0", "b2 uncertain 7"])
    }

    @Test("QUE-03 several changes that are retried at once: all of them, or each is set aside as before")
    func retrying() async throws {
        let outcomes = Tally()
        let keys = Tally()
        let moments = try await kill { store in
            try await store.write { db in
                for id in ["b1", "b2", "b3"] {
                    try db.execute(sql: "INSERT INTO board (id, name) VALUES (?, 'A')", arguments: [id])
                }
            }
            let claim = try await store.settle(Settlement(), claim: ClaimLimits())
            for key in claim.keys { keys.add(key) }
            let refused = claim.keys.map { Settlement.Outcome(changeID: $0, kind: .refused()) }
            _ = try await store.settle(Settlement(outcomes: refused), claim: nil)
        } during: { store in
            let retried = try await store.retry(keys.all)
            #expect(retried.count == 3)
        } check: { store in
            let (failed, queued) = (try await store.failures(), try await store.queued())
            outcomes.add("\(failed.count) \(queued.count)")
            #expect(Set(failed.map(\.queued.change.id)).isSubset(of: keys.all))
            #expect(Set(queued.map(\.change.id)).isDisjoint(with: keys.all))
            // What it left can be retried.
            for outcome in try await store.retry(keys.all) { if case .failed = outcome { Issue.record("\(outcome)") } }
            #expect(try await store.queued().count == 3)
        }
        #expect(moments > 20)
        #expect(outcomes.all == ["0 3", "3 0"])
    }

    @Test("PRC-20, SEC-11 a wipe: all rows with all changes, or neither, and then no byte of them once it is opened")
    func wipe() async throws {
        let outcomes = Tally()
        let moments = try await kill { store in
            let records = (0..<40).map { record("board", "b\($0)", Int64($0 + 1), ["name": "SECRETWORD"]) }
            _ = try await store.apply(PageSlice(records: records, from: 0, checkpoint: 40, epoch: "e-1"))
            try await store.write { try $0.execute(sql: "UPDATE board SET name = 'SECRETWORD 2' WHERE id < 'b2'") }
            // What is freed stays in the file, too.
            try await store.write { try $0.execute(sql: "DELETE FROM board WHERE id > 'b3'") }
        } during: { store in
            try await store.wipe()
        } check: { store in
            let rows = try await store.database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM board") ?? 0 }
            let queued = try await store.queued().count
            outcomes.add("\(rows) \(queued)")
            guard rows == 0 else { return }
            #expect(try await store.position().checkpoint == 0)
            for suffix in ["", "-wal"] {
                let data = try Data(contentsOf: URL(fileURLWithPath: store.database.path + suffix))
                #expect(data.range(of: Data("SECRETWORD".utf8)) == nil, "\(suffix)")
            }
        }
        #expect(moments > 20)
        #expect(outcomes.all == ["0 0", "24 28"])
    }

    @Test("PRC-17 the making of a file: nothing, or all of it")
    func opening() async throws {
        let file = try TestFile()
        let camera = Camera(file)
        camera.start()
        let configuration = StoreConfiguration(
            clock: FixedClock(),
            statementHook: { _ in
                camera.take()
                return true
            })
        let store = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        camera.stop()
        #expect(camera.copies.count > 20)
        for copy in camera.copies {
            let queue = try DatabaseQueue(path: copy)
            let tables = try await queue.read { db in
                try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master WHERE name GLOB 'sync_*'") ?? 0
            }
            try queue.close()
            #expect(tables == 0 || tables > 20)
            let again = try Store(path: copy, schema: boardSchema())
            try await again.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b1', 'A')") }
            #expect(try await again.queued().count == 1)
            try await again.close()
        }
        try await store.close()
    }
}

/// Takes copies of a file as it stands.
final class Camera: @unchecked Sendable {  // the lock guards the fields
    private let lock = NSLock()
    private let file: TestFile
    private var isOn = false
    private var taken: [String] = []

    init(_ file: TestFile) { self.file = file }

    var copies: [String] { lock.withLock { taken } }
    func start() { lock.withLock { isOn = true } }
    func stop() { lock.withLock { isOn = false } }

    func take() {
        lock.withLock {
            guard isOn else { return }
            let copy = file.folder.appendingPathComponent("copy\(taken.count).sqlite").path
            for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: file.path + suffix) {
                do {
                    try FileManager.default.copyItem(atPath: file.path + suffix, toPath: copy + suffix)
                } catch {
                    Issue.record(error)
                }
            }
            taken.append(copy)
        }
    }
}

/// Different texts that were seen, sorted.
final class Tally: @unchecked Sendable {  // the lock guards the field
    private let lock = NSLock()
    private var seen: Set<String> = []
    var all: [String] { lock.withLock { seen.sorted() } }
    func add(_ text: String) { lock.withLock { _ = seen.insert(text) } }
}
