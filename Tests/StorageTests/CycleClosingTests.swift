import Foundation
import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite("How the queue stands when a cycle ends")
struct CycleClosingTests {
    private func open(_ f: Fixture) async throws {
        let opening = try #require(try await f.store.beginCycle(holder: "a", seconds: 60, pageLimit: 10))
        #expect(opening.queue == QueueSummary())
    }

    private func close(_ f: Fixture) async throws -> CycleClosing {
        try #require(try await f.store.release(holder: "a", noting: "{}", at: 1, keeping: 10, endsPage: true))
    }

    /// As another process does.
    private func addBoardElsewhere(_ f: Fixture, _ id: String) async throws {
        let other = try DatabaseQueue(path: f.file.path)
        try await other.write {
            try $0.execute(sql: "INSERT INTO board (id, name) VALUES (?, 'A')", arguments: [id])
        }
        try other.close()
    }

    @Test("a cycle that changed nothing ends as it began; the counts need not be asked again")
    func nothing() async throws {
        let f = try Fixture()
        try await open(f)
        #expect(try await f.store.summary() == QueueSummary())
        #expect(try await close(f) == CycleClosing(queue: QueueSummary(), held: 0))
    }

    @Test("what the app writes during a cycle is in its counts, and in those of its end")
    func written() async throws {
        let f = try Fixture()
        try await open(f)
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        #expect(try await f.store.summary().pending == 1)
        #expect(try await close(f).queue.pending == 1)
        #expect(try await f.store.summary().pending == 1)
    }

    @Test("so is what another process writes")
    func writtenElsewhere() async throws {
        let f = try Fixture()
        try await open(f)
        #expect(try await f.store.summary().pending == 0)
        try await addBoardElsewhere(f, "b1")
        #expect(try await f.store.summary().pending == 1)
        try await addBoardElsewhere(f, "b2")
        #expect(try await close(f).queue.pending == 2)
    }

    @Test("and what a page left waiting for its parent")
    func held() async throws {
        let f = try Fixture()
        try await open(f)
        try await f.apply(record("list", "l1", 4, ["name": "L", "idBoard": "b1"]))
        #expect(try await close(f).held == 1)
    }

    @Test("the cycle after one that changed nothing finds what was written in between, here and by another process")
    func between() async throws {
        let f = try Fixture()
        try await open(f)
        _ = try await close(f)
        try await open(f)
        _ = try await close(f)
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        #expect(try await f.store.beginCycle(holder: "a", seconds: 60)?.queue.pending == 1)
        #expect(try await close(f).queue.pending == 1)
        try await addBoardElsewhere(f, "b2")
        #expect(try await f.store.beginCycle(holder: "a", seconds: 60)?.queue.pending == 2)
        #expect(try await close(f).queue.pending == 2)
    }

    @Test("and where a page brought it to, in that cycle or after it")
    func moved() async throws {
        let f = try Fixture()
        try await open(f)
        try await f.apply(record("board", "b1", 4, ["name": "A"]))
        _ = try await close(f)
        #expect(try await f.store.beginCycle(holder: "a", seconds: 60)?.position.checkpoint == 4)
        _ = try await close(f)
        try await f.apply(record("board", "b1", 5, ["name": "B"]))
        #expect(try await f.store.beginCycle(holder: "a", seconds: 60)?.position.checkpoint == 5)
    }

    @Test("what a cycle claimed and did not settle counts as sent when the next one begins")
    func claimed() async throws {
        let f = try Fixture()
        try await open(f)
        _ = try await close(f)
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        _ = try await f.store.beginCycle(holder: "a", seconds: 60)
        _ = try await f.claim()
        _ = try await close(f)
        #expect(try await f.store.beginCycle(holder: "a", seconds: 60)?.queue.inFlight == 1)
        #expect(try f.text("SELECT state || ' ' || id FROM sync_change") == "2 b1")
    }

    @Test("what was written meanwhile and needs a refused create waits for it when the next cycle begins")
    func waiting() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('b1', 'A')")
        let claim = try await f.claim()
        try await f.settle((claim.keys[0], .refused()))
        try f.sql("INSERT INTO list (id, name, idBoard) VALUES ('l1', 'L', 'b1')")
        #expect(try f.text("SELECT state || ' ' || id FROM sync_change WHERE entity = 'list'") == "0 l1")
        _ = try await f.store.beginCycle(holder: "a", seconds: 60)
        #expect(try f.text("SELECT state || ' ' || id FROM sync_change WHERE entity = 'list'") == "3 l1")
    }

    @Test("between cycles that change nothing the lease is free; during one it is nobody else's, and taken from nobody")
    func lease() async throws {
        let f = try Fixture()
        let other = try Fixture(file: f.file)
        for _ in 0..<3 {
            try await open(f)
            #expect(try await other.store.beginCycle(holder: "b", seconds: 60) == nil)
            _ = try await close(f)
            try await open(f)
            #expect(try await other.store.beginCycle(holder: "b", seconds: 60) == nil)
            _ = try await close(f)
            #expect(try await other.store.beginCycle(holder: "b", seconds: 60) != nil)
            #expect(try await f.store.beginCycle(holder: "a", seconds: 60, pageLimit: 10) == nil)
            _ = try await other.store.release(holder: "b", noting: nil, at: 1, keeping: 10)
        }
    }

    @Test("PRC-11 a lease that is asked for longer than an hour stands for an hour, and does not count as over at once")
    func longLease() async throws {
        let file = try TestFile()
        let clock = MovingClock()
        let configuration = StoreConfiguration(clock: clock)
        let a = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        let b = try Store(path: file.path, schema: boardSchema(), configuration: configuration)
        for seconds in [7_200, 1e300, .infinity] {
            #expect(try await a.beginCycle(holder: "a", seconds: seconds) != nil)
            #expect(try await b.isBeingSynced())
            #expect(try await !b.lease(holder: "b", seconds: 30))
            clock.move(3_600_001)
            #expect(try await b.lease(holder: "b", seconds: seconds))
            #expect(try await a.beginCycle(holder: "a", seconds: 30) == nil)
            try await b.release(holder: "b")
        }
        try await a.close()
        try await b.close()
    }

    @Test("a cycle that finds the file as the last one left it writes the lease twice, the ring once, and nothing else")
    func frugal() async throws {
        let f = try Fixture()
        func logBytes() throws -> Int {
            try FileManager.default.attributesOfItem(atPath: f.file.path + "-wal")[.size] as? Int ?? 0
        }
        for _ in 0..<2 {
            try await open(f)
            _ = try await close(f)
        }
        let before = try logBytes()
        try await open(f)
        #expect(try f.text("SELECT holder || generation FROM sync_lease") == "a3")
        _ = try await close(f)
        #expect(try f.text("SELECT generation || coalesce(holder, '') FROM sync_lease") == "3")
        #expect(try f.text("SELECT count(*) || '' FROM sync_cycle") == "3")
        // Three pages, each with a header of 24 bytes.
        #expect(try logBytes() - before == 3 * (4_096 + 24))
    }

    @Test("an end that is also the look for what was written meanwhile ends nothing where something was")
    func look() async throws {
        let f = try Fixture()
        let other = try Fixture(file: f.file)
        func endIfStill() async throws -> CycleClosing? {
            try await f.store.release(holder: "a", noting: "{}", at: 1, keeping: 10, endsPage: true, ifStill: true)
        }
        for _ in 0..<3 {
            try await open(f)
            #expect(try await endIfStill() == CycleClosing(queue: QueueSummary(), held: 0))
        }
        try await open(f)
        try await addBoardElsewhere(f, "b1")
        #expect(try await endIfStill() == nil)
        #expect(try await other.store.beginCycle(holder: "b", seconds: 60) == nil)
        #expect(try f.text("SELECT count(*) || '' FROM sync_cycle") == "3")
        #expect(try await close(f).queue.pending == 1)
        #expect(try await other.store.beginCycle(holder: "b", seconds: 60) != nil)
    }
}
