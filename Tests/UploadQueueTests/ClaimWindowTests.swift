import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

@Suite("How much is claimed while an exchange leaves most of it out")
struct ClaimWindowTests {
    @Test("It follows what goes, and is gone once claims go whole")
    func window() {
        var window = ClaimWindow()
        window.went(1_000, of: 1_000, most: 1_000)
        #expect(window.limit == nil)
        window.went(2, of: 1_000, most: 1_000)
        #expect(window.limit == 16)
        // The end of a queue says nothing.
        window.went(3, of: 3, most: 1_000)
        #expect(window.limit == 16)
        window.went(15, of: 16, most: 1_000)
        #expect(window.limit == 30)
        for expected in [60, 120, 240, 480, 960, nil] {
            window.went(window.limit ?? 0, of: window.limit ?? 0, most: 1_000)
            #expect(window.limit == expected)
        }
    }

    @Test("A queue claims so many, and what was left out comes next, in its order")
    func queue() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(100)
        let first = try await fixture.batch()
        #expect(first.changes.map(\.change.id) == ids)
        let results = first.changes.prefix(2).map {
            ChangeResult(changeID: $0.change.id, verdict: .applied(version: 1, overwrote: [:], serverID: nil))
        }
        let next = try await fixture.queue.settle(
            first, results: results, sent: 2, stamp: nil, backoffSeconds: nil, urgency: .routine)
        guard case .batch(let second) = next else {
            Issue.record("The others may go.")
            return
        }
        #expect(second.changes.map(\.change.id) == Array(ids[2..<18]))
        // Nothing of it goes: the queue waits, whoever wishes that it goes on.
        let none = try await fixture.queue.settle(
            second, results: [], sent: 0, stamp: nil, backoffSeconds: nil, urgency: .user)
        guard case .wait = none else {
            Issue.record("It got nowhere.")
            return
        }
        #expect(try await fixture.log.summary().schedule.failures == 1)
    }
}
