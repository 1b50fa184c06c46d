import GRDB
@testable import Storage
import SyncCore
import Testing

@Suite struct LongQueueTests {
    @Test(
        "QUE-14 draining 5,000 changes, with the right counts at each step (QueryPlanTests: no step walks over the queue)"
    )
    func drain() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        try await fixture.store.database.write { db in
            // Prepared once: compiling the triggers costs more than running them.
            let insert = try db.makeStatement(sql: "INSERT INTO card (id, name, idList, pos) VALUES (?, 'n', 'l1', ?)")
            for index in 0..<5_000 { try insert.execute(arguments: ["n\(index)", index]) }
        }
        #expect(try await fixture.store.summary().pending == 5_000)
        var version: Int64 = 100
        var claim = try await fixture.claim(ClaimLimits(maxChanges: 100))
        var sent = 0
        while !claim.changes.isEmpty {
            sent += claim.changes.count
            let outcomes = claim.keys.map { key in
                version += 1
                return Settlement.Outcome(changeID: key, kind: .applied(version))
            }
            claim = try await fixture.store.settle(Settlement(outcomes: outcomes), claim: ClaimLimits(maxChanges: 100))
            #expect(claim.summary.pending + claim.summary.inFlight == 5_000 - sent)
        }
        #expect(sent == 5_000)
        #expect(try fixture.int("SELECT count(*) FROM sync_change") == 0)
    }

    @Test("QUE-23 counts survive without being counted; a long refused queue goes on")
    func refused() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        for index in 0..<100 { try fixture.insertCard("n\(index)") }
        var claim = try await fixture.claim(ClaimLimits(maxChanges: 20))
        while !claim.changes.isEmpty {
            let outcomes = claim.keys.map { Settlement.Outcome(changeID: $0, kind: .refused()) }
            claim = try await fixture.store.settle(Settlement(outcomes: outcomes), claim: ClaimLimits(maxChanges: 20))
        }
        #expect(claim.summary.failed == 100 && claim.summary.pending == 0)
        #expect(claim.settled == 100)
        for failure in try await fixture.store.failures() {
            _ = try await fixture.store.retry(failure.queued.change.id)
        }
        #expect(try await fixture.claim(ClaimLimits(maxChanges: 1_000)).changes.count == 100)
        try await fixture.drain()
    }

    @Test("QUE-14 part by part what was set aside is the same, many of one moment; what goes is left out")
    func partsOfFailures() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        for index in 0..<25 { try fixture.insertCard("n\(index)") }
        let claim = try await fixture.claim(ClaimLimits(maxChanges: 25))
        _ = try await fixture.store.settle(
            Settlement(outcomes: claim.keys.map { Settlement.Outcome(changeID: $0, kind: .refused()) }),
            claim: ClaimLimits())
        let all = try await fixture.store.failures().map(\.queued.change.id)
        #expect(all == claim.keys)
        for limit in [1, 10, 25, 26] {
            var place: FailurePlace? = FailurePlace()
            var told: [String] = []
            while let here = place {
                let part = try await fixture.store.failures(from: here, limit: limit)
                #expect(part.failures.count <= limit)
                told += part.failures.map(\.queued.change.id)
                place = part.next
            }
            #expect(told == all)
        }
        let first = try await fixture.store.failures(from: FailurePlace(), limit: 10)
        _ = try await fixture.store.retry(all[15])
        let rest = try await fixture.store.failures(from: try #require(first.next), limit: 100)
        #expect(rest.failures.map(\.queued.change.id) == all[10...].filter { $0 != all[15] })
        #expect(rest.next == nil)
    }

    @Test("QUE-14 part by part the queue is the same; what goes or comes meanwhile doubles and hides nothing")
    func parts() async throws {
        let fixture = try Fixture()
        try await fixture.applyBoard()
        for index in 0..<25 { try fixture.insertCard("n\(index)") }
        let claim = try await fixture.claim(ClaimLimits(maxChanges: 1))
        let refusal = Settlement.Outcome(changeID: claim.keys[0], kind: .refused())
        _ = try await fixture.store.settle(Settlement(outcomes: [refusal]), claim: nil)
        // Waits for the refused create, and is not marked yet.
        try fixture.sql("UPDATE card SET idTwin = 'n0' WHERE id = 'n24'")
        let all = try await fixture.store.queued()
        for limit in [0, 1, 7, all.count, all.count + 1] {
            var (found, place) = ([QueuedChange](), QueuePlace() as QueuePlace?)
            while let here = place {
                let part = try await fixture.store.queued(from: here, limit: limit)
                #expect(part.changes.count <= max(1, limit))
                found += part.changes
                place = part.next
            }
            #expect(found == all)
        }
        let first = try await fixture.store.queued(from: QueuePlace(), limit: 10)
        for change in first.changes { _ = try await fixture.store.cancel(change.change.id) }
        try fixture.insertCard("late")
        let rest = try await fixture.store.queued(from: #require(first.next), limit: 100)
        #expect(rest.next == nil)
        #expect(rest.changes.map(\.change.id) == (try await fixture.store.queued()).map(\.change.id))
        #expect(rest.changes.last?.change.record.id == "late")
    }
}
