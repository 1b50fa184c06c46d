@testable import Storage
import SyncCore
import Testing

/// What long runs of the simulator found, told by situation.
@Suite struct FoundInCampaignsTests {
    @Test(
        "Seed 26201: a set that a create named without a value has none again once the unions behind it are refused, told by a page or not"
    )
    func nullOfCreate() async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.sql("INSERT INTO card (id, name, idList, pos, labels) VALUES ('n', 'N', 'l1', 1, NULL)")
        try f.sql("UPDATE card SET labels = '[\"a\"]' WHERE id = 'n'")
        try f.sql("UPDATE card SET labels = '[]' WHERE id = 'n'")
        let sent = try await f.claim(ClaimLimits(merges: false))
        try #require(sent.keys.count == 3)
        // The answer was lost; the page tells of what was made, and leaves out what has no value.
        try await f.settle(
            (sent.keys[0], .unanswered), (sent.keys[1], .unanswered), (sent.keys[2], .unanswered))
        try await f.apply(record("card", "n", 4, ["name": "N", "idList": "l1", "pos": 1.0]))
        try await f.settle((sent.keys[0], .applied(4)), (sent.keys[1], .refused()))
        try await f.settle((sent.keys[2], .refused()))
        #expect(try f.card("labels", "n") == nil)
        _ = try await f.store.retry(sent.keys[1])
        _ = try await f.store.discard(sent.keys[2])
        let again = try await f.claim()
        try await f.settle((again.keys[0], .refused()))
        #expect(try f.card("labels", "n") == nil)
    }
}
