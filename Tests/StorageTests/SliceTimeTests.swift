import Foundation
import GRDB
@testable import Storage
import SyncCore
import SyncTesting
import Testing

/// A monotonic clock that is later by the same step each time somebody looks at it.
private final class SteppingClock: _Concurrency.Clock, @unchecked Sendable {  // the lock guards the fields
    typealias Instant = ContinuousClock.Instant

    private let lock = NSLock()
    private var present = ContinuousClock().now
    private var step: Duration

    init(_ step: Duration) { self.step = step }

    func stop() { lock.withLock { step = .zero } }

    var minimumResolution: Duration { .zero }
    var now: Instant {
        lock.withLock {
            present += step
            return present
        }
    }
    func sleep(until deadline: Instant, tolerance: Duration?) async throws { throw CancellationError() }
}

/// Notes the checkpoint that each commit leaves.
private final class Checkpoints: TransactionObserver {
    private let lock = NSLock()
    private var seen: [Int64] = []

    var all: [Int64] { lock.withLock { seen } }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseDidRollback(_ db: Database) {}
    func databaseDidCommit(_ db: Database) {
        do {
            let sql = "SELECT value FROM sync_meta WHERE key = 'checkpoint'"
            let found = try Int64.fetchOne(db, sql: sql) ?? 0
            lock.withLock { if seen.last != found { seen.append(found) } }
        } catch { Issue.record(error) }
    }
}

@Suite("The time that a slice takes")
struct SliceTimeTests {
    private func boards(_ versions: [Int64]) -> [ServerRecord] {
        versions.enumerated().map { record("board", "b\($0)", $1, ["name": "B"]) }
    }

    private func slice(_ records: [ServerRecord], to checkpoint: Int64) -> PageSlice {
        PageSlice(records: records, from: 0, checkpoint: checkpoint, epoch: Fixture.epoch)
    }

    @Test("I5 a slice that takes too long stands in parts, each with the checkpoint at its last version")
    func parts() async throws {
        let f = try Fixture(clock: SteppingClock(.milliseconds(6)))
        let seen = Checkpoints()
        f.store.database.add(transactionObserver: seen)
        let report = try await f.store.apply(slice(boards(Array(1...60)), to: 70))
        #expect(report.applied == 60)
        #expect(try f.int("SELECT count(*) FROM board") == 60)
        let all = seen.all
        #expect(all.count > 3 && all.last == 70, "\(all)")
        #expect(zip(all, all.dropFirst()).allSatisfy { $0 < $1 })
        #expect(all.allSatisfy { $0 <= 60 || $0 == 70 })
    }

    @Test("A slice that takes no longer than it may stands as a whole")
    func whole() async throws {
        let f = try Fixture()
        let seen = Checkpoints()
        f.store.database.add(transactionObserver: seen)
        _ = try await f.store.apply(slice(boards(Array(1...60)), to: 60))
        #expect(seen.all == [60])
    }

    @Test("I5 records of one version are never parted, and records out of order are not either")
    func undivided() async throws {
        let f = try Fixture(clock: SteppingClock(.milliseconds(30)))
        let seen = Checkpoints()
        f.store.database.add(transactionObserver: seen)
        _ = try await f.store.apply(slice(boards(Array(repeating: 5, count: 20) + [6, 7]), to: 7))
        #expect(seen.all.first == 5 && seen.all.last == 7)
        let g = try Fixture(clock: SteppingClock(.milliseconds(30)))
        let others = Checkpoints()
        g.store.database.add(transactionObserver: others)
        _ = try await g.store.apply(slice(boards([9] + Array(1...8)), to: 9))
        #expect(others.all == [9])
    }

    @Test("DAT-10 a child in one part and its parent in the next: the child is there in the end")
    func orphan() async throws {
        let f = try Fixture(clock: SteppingClock(.milliseconds(30)))
        let child = record("list", "l1", 1, ["name": "L", "idBoard": "b39"])
        _ = try await f.store.apply(slice([child] + boards(Array(2...41)), to: 41))
        #expect(try f.text("SELECT name FROM list") == "L")
        #expect(try await f.store.position().held == 0)
    }

    @Test("What is held is tried again though the time is over: in a transaction of its own")
    func retried() async throws {
        let f = try Fixture(clock: SteppingClock(.milliseconds(30)))
        try f.sql("CREATE TRIGGER no BEFORE INSERT ON board WHEN NEW.id = 'b3' BEGIN SELECT RAISE(ABORT, 'no'); END")
        _ = try await f.store.apply(slice(boards(Array(1...9)), to: 9))
        #expect(try await f.store.held().map(\.record.id) == ["b3"])
        try f.sql("DROP TRIGGER no")
        _ = try await f.store.apply(
            PageSlice(
                records: (10...19).map { record("board", "c\($0)", $0, ["name": "C"]) }, from: 9, checkpoint: 19,
                epoch: Fixture.epoch))
        #expect(try await f.store.held().isEmpty)
        #expect(try f.int("SELECT count(*) FROM board") == 19)
    }

    @Test("DL-05, I5 a part that fails leaves what came before it, with its checkpoint; asked again, the rest comes")
    func failing() async throws {
        let f = try Fixture(clock: SteppingClock(.milliseconds(6)))
        try f.sql(
            """
            CREATE TRIGGER boom BEFORE UPDATE ON sync_meta WHEN NEW.key = 'checkpoint' AND NEW.value > 20
            BEGIN SELECT RAISE(ABORT, 'x'); END
            """)
        let all = slice(boards(Array(1...60)), to: 60)
        await #expect(throws: StoreFailure.self) { try await f.store.apply(all) }
        let reached = try await f.store.position().checkpoint
        #expect(reached > 0 && reached <= 20)
        #expect(try f.int("SELECT count(*) FROM board") == Int(reached))
        try f.sql("DROP TRIGGER boom")
        _ = try await f.store.apply(all)
        #expect(try f.int("SELECT count(*) FROM board") == 60)
        #expect(try await f.store.position().checkpoint == 60)
    }

    @Test("The next transaction takes fewer records where one took too long, and more again slowly")
    func pace() {
        var pace = SlicePace(most: .milliseconds(20))
        let all = boards(Array(1...500))
        #expect(pace.first(of: all).count == 500)
        pace.note(500, took: .milliseconds(20))
        #expect(pace.first(of: all).count == 500)
        pace.note(500, took: .milliseconds(100))
        #expect(pace.first(of: all).count == 100)
        pace.note(100, took: .milliseconds(15))
        #expect(pace.first(of: all).count == 100)
        // A short slice says nothing of long ones.
        pace.note(3, took: .milliseconds(1))
        #expect(pace.first(of: all).count == 100)
        pace.note(100, took: .milliseconds(5))
        #expect(pace.first(of: all).count == 200)
        pace.note(2, took: .seconds(5))
        #expect(pace.first(of: all).count == 8)
        #expect(pace.first(of: boards(Array(repeating: 4, count: 20))).count == 20)
        for _ in 0..<100 { pace.note(pace.records, took: .zero) }
        #expect(pace.first(of: all).count == 500)
    }

    /// Records until this many are through, where a transaction takes so long by itself and for each of its records.
    private func transactions(of records: Int, fixed: Duration, each: Duration) -> (count: Int, longest: Duration) {
        var pace = SlicePace(most: .milliseconds(15))
        var (left, count, longest) = (records, 0, Duration.zero)
        while left > 0 {
            // The clock ends the records' own part of a transaction after some 600.
            let taken = min(left, min(pace.records, 600))
            let took = fixed + each * taken
            pace.note(taken, took: took)
            (left, count, longest) = (left - taken, count + 1, max(longest, count > 3 ? took : .zero))
        }
        return (count, longest)
    }

    @Test("DL-20 what is derived costs the same however few records a transaction takes: it takes no fewer for that")
    func fixedCost() {
        let builders = transactions(of: 60_000, fixed: .milliseconds(200), each: .microseconds(40))
        #expect(builders.count < 130, "100 are as few as it goes; by eights it were 7,500")
        let steep = transactions(of: 60_000, fixed: .milliseconds(20), each: .milliseconds(1))
        #expect(steep.count < 5_000 && steep.longest <= .milliseconds(45), "\(steep)")
        let cheap = transactions(of: 60_000, fixed: .milliseconds(1), each: .milliseconds(1))
        #expect(cheap.longest <= .milliseconds(16), "\(cheap)")
    }

    @Test("DL-20 a few records that take long, again and again, are no reason to take as few for ever")
    func fixedCostOfFew() {
        var pace = SlicePace(most: .milliseconds(15))
        for _ in 0..<2 { pace.note(3, took: .milliseconds(200)) }
        for _ in 0..<20 { pace.note(pace.records, took: .milliseconds(200)) }
        #expect(pace.records > 1_000)
        // And once it is quick again, the usual bound holds again.
        pace.note(3, took: .milliseconds(1))
        pace.note(1_000, took: .milliseconds(30))
        #expect(pace.records == 500)
    }

    /// Beside the work it comes to the log's end where a commit leaves it the time; where none does, the commit that makes it 4,000
    /// pages long brings in what is left. Between two slices it always comes to it, at 1,000.
    @Test("The log begins anew while slices come in, though the app writes in between", arguments: [true, false])
    func log(worksBeside: Bool) async throws {
        let file = try TestFile()
        var configuration = StoreConfiguration(monotonicClock: VirtualClock())
        if !worksBeside { configuration.executor = Inline() }
        let store = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        #expect(await store.checkpointer?.worksBeside == worksBeside)
        try await store.database.write { try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('mine', 'A')") }
        let text = String(repeating: "long ", count: 400)
        var longest = 0
        for round in 0..<60 {
            let first = Int64(round * 200 + 1)
            let records = (first..<first + 200).map { record("board", "b\($0)", $0, ["name": .string(text)]) }
            _ = try await store.apply(
                PageSlice(records: records, from: first - 1, checkpoint: first + 199, epoch: Fixture.epoch))
            try await store.database.write {
                try $0.execute(sql: "UPDATE board SET name = 'edit \(round)' WHERE id = 'mine'")
            }
            let found = try FileManager.default.attributesOfItem(atPath: file.path + "-wal")[.size] as? Int
            longest = max(longest, found ?? 0)
        }
        // All of it would be 24 MB and more.
        let written = try await store.database.read {
            try Int.fetchOne($0, sql: "SELECT sum(length(name)) FROM board") ?? 0
        }
        #expect(written > 23_000_000)
        let pages = worksBeside ? 4_000 : 1_000
        let slice = 600
        #expect(longest < (pages + slice) * 4_120, "\(longest)")
        #expect(try await store.integrityProblems().isEmpty)
        try await store.close()
    }
}
