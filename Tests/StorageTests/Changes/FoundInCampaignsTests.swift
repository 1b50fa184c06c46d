@testable import Storage
import SyncCore
import Testing

/// What long runs of the simulator found, told by situation.
@Suite struct FoundInCampaignsTests {
    @Test(
        "Seed 2600897 with `--bias churn`: what a pass over another history brought, and what waited for its parent then, is there in the end",
        arguments: [true, false])
    func waitedInPass(isMerged: Bool) async throws {
        let f = try Fixture()
        try await f.applyBoard()
        try f.insertCard("n")
        let create = try await f.claim().keys[0]
        try await f.settle((create, .unanswered))
        try f.sql("DELETE FROM card")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        try await f.store.beginFullPass(epoch: "e-2")
        let board = record("board", "b1", 1, ["name": "Board"])
        let list = record("list", "l1", 2, ["name": "List", "idBoard": "b1", "pos": 1.0])
        let card = record("card", "n", 5, ["name": "Theirs", "idList": "l1", "pos": 1.0])
        _ = try await f.store.apply(
            PageSlice(records: [board, list, card], from: 0, checkpoint: 5, epoch: "e-2", hasMore: true))
        try #require(try f.int("SELECT version FROM sync_held WHERE id = 'n'") == 5)
        let claim = try await f.claim()
        func key(_ told: String) throws -> String {
            claim.keys[try #require(claim.told.firstIndex(of: told))]
        }
        var outcomes = [
            Settlement.Outcome(changeID: create, kind: .applied(4), isRepeated: true),
            .init(changeID: try key("delete list l1"), kind: .merged(list)),
        ]
        if isMerged { outcomes.append(.init(changeID: try key("delete card n"), kind: .merged(card))) }
        if !isMerged { outcomes.append(.init(changeID: try key("delete card n"), kind: .refused("forbidden"))) }
        _ = try await f.store.settle(Settlement(outcomes: outcomes), claim: nil)
        #expect(try f.card("name", "n") == "Theirs")
        _ = try await f.store.apply(PageSlice(records: [], from: 5, checkpoint: 9, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        #expect(try f.card("name", "n") == "Theirs")
        #expect(try f.int("SELECT version FROM sync_record WHERE id = 'n'") == 5)
        #expect(try f.int("SELECT count(*) FROM sync_conflict WHERE kind = 'lostByServer' AND id = 'n'") == 0)
    }

    @Test("Seed 2600118: what waits for its parent is the server's word, not what was given up with the list above it")
    func givenUpUnderTaken() async throws {
        let f = try Fixture()
        try await f.apply(record("board", "b1", 1, ["name": "Board"]), record("board", "b2", 2, ["name": "Other"]))
        try f.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('l2', 'Mine', 'b2', 1)")
        try f.insertCard("c9", name: "Mine", list: "l2")
        let limits = ClaimLimits(maxChanges: 1, merges: false)
        let create = try await f.claim(limits).keys[0]
        try await f.settle((create, .refused("idTaken")))
        // Somebody else has both ids.
        try await f.apply(
            record("list", "l1", 3, ["name": "Theirs", "idBoard": "b1"]),
            record("list", "l2", 4, ["name": "Theirs", "idBoard": "b1"]),
            record("card", "c9", 5, ["name": "Theirs", "idList": "l1"]))
        try #require(try f.card("name", "c9") == "Mine")
        try f.sql("DELETE FROM list WHERE id = 'l1'")
        try f.sql("DELETE FROM board WHERE id = 'b1'")
        _ = try await f.store.discard(create)
        let held = "SELECT record ->> '$.fields.name' FROM sync_held WHERE id = 'c9'"
        #expect(try f.text(held) == "Theirs")
        // Both deletes are refused.
        let deletes = try await f.claim()
        try #require(deletes.told == ["delete list l1", "delete board b1"])
        try await f.settle((deletes.keys[0], .refused()), (deletes.keys[1], .refused()))
        #expect(try f.card("name", "c9") == "Theirs")
        #expect(try f.card("idList", "c9") == "l1")
        #expect(try f.int("SELECT count(*) FROM sync_held") == 0)
    }

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
