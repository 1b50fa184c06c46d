import GRDB
@testable import Storage
import SyncCore
import Testing

/// What becomes of a version that was told while something that was sent before is undecided (Decision 503).
@Suite struct ToldVersionTests {
    private let limits = ClaimLimits(merges: false)

    /// An edit was sent, its answer was lost, and it was set aside as one that may have been done; a later one is acknowledged at 9.
    /// - Returns: the first one's key.
    private func begin(_ f: Fixture) async throws -> String {
        try await f.applyBoard()
        try f.sql("UPDATE card SET name = 'Mine' WHERE id = 'c1'")
        let first = try await f.claim(limits).keys[0]
        let reason = SetAsideReason(code: "http", message: "413")
        try await f.settle((first, .setAside(reason, staysUncertain: true)))
        try f.sql("UPDATE card SET pos = 5 WHERE id = 'c1'")
        let second = try await f.claim(limits)
        try #require(second.told == ["update card c1"])
        try await f.settle((second.keys[0], .applied(9)))
        try #require(try held(f) == 3)
        return first
    }

    private func held(_ f: Fixture) throws -> Int? { try f.int("SELECT version FROM sync_record WHERE id = 'c1'") }

    private func tryAgain(_ f: Fixture, _ key: String, _ kind: Settlement.Outcome.Kind) async throws {
        _ = try await f.store.retry(key)
        let again = try await f.claim(limits).keys
        try #require(again == [key])
        let outcome = Settlement.Outcome(changeID: key, kind: kind, isRepeated: true)
        _ = try await f.store.settle(Settlement(outcomes: [outcome]), claim: nil)
    }

    @Test(
        "Seed 439794: once what was sent before is decided, the version is held that a verdict told after it",
        arguments: [(true, RefusalRule.revert), (false, .revert), (false, .keep)])
    func decided(isDone: Bool, refusal: RefusalRule) async throws {
        let f = try Fixture(boardSchema(refusal: refusal))
        let first = try await begin(f)
        try await tryAgain(f, first, isDone ? .applied(8) : .refused())
        #expect(try held(f) == 9)
        #expect(try f.card("pos") == "5.0")
        #expect(try f.card("name") == (isDone || refusal == .keep ? "Mine" : "Card"))
        if isDone { #expect(try f.text("SELECT base FROM sync_record WHERE id = 'c1'") == nil) }
    }

    @Test("OBS-09 what lies aside keeps no version from being compared that was told")
    func compared() async throws {
        let f = try Fixture()
        _ = try await begin(f)
        let other = try Fixture()
        try await other.applyBoard()
        try await other.apply(record("card", "c1", 9, ["name": "Mine", "idList": "l1", "pos": 5.0]))
        try await f.apply(record("board", "b2", 10, ["name": "B"]))
        try await other.apply(record("board", "b2", 10, ["name": "B"]))
        let mine = try #require(try await f.store.contentChecksum(at: 10))
        #expect(try await mine == other.store.contentChecksum(at: 10))
    }

    @Test("of a change that is given up nobody knows whether the version stands for it")
    func givenUp() async throws {
        let f = try Fixture()
        let first = try await begin(f)
        _ = try await f.store.discard(first)
        #expect(try held(f) == 3)
        #expect(try f.text("SELECT base ->> '$.told' FROM sync_record WHERE id = 'c1'") == nil)
    }

    @Test("what was decided nobody knows how may be what the version stands for")
    func expired() async throws {
        let f = try Fixture()
        let first = try await begin(f)
        try await tryAgain(f, first, .refused("expired"))
        #expect(try held(f) == 3)
    }

    @Test("a page tells of a newer one, or of one before it", arguments: [8, 9, 12])
    func page(version: Int64) async throws {
        for isWhole in [false, true] {
            let f = try Fixture()
            let first = try await begin(f)
            var fields: [String: FieldValue] = ["name": "Mine", "idList": "l1", "pos": 5.0]
            if isWhole {
                fields.merge([
                    "desc": .null, "closed": .null, "due": .null, "votes": 1, "labels": .null, "cover": .null,
                    "idTwin": .null,
                ]) { $1 }
            }
            try await f.apply(record("card", "c1", version, fields))
            try #require(try held(f) == Int(version))
            try await tryAgain(f, first, .applied(8))
            #expect(try held(f) == Int(max(version, 9)))
        }
    }

    @Test("it is one of its history")
    func anotherHistory() async throws {
        let f = try Fixture()
        let first = try await begin(f)
        try await f.store.beginFullPass(epoch: "e-2")
        let records = [
            record("board", "b1", 1, ["name": "Board"]), record("list", "l1", 2, ["name": "List", "idBoard": "b1"]),
            record("card", "c1", 4, ["name": "Mine", "idList": "l1", "pos": 5.0]),
        ]
        _ = try await f.store.apply(PageSlice(records: records, from: 0, checkpoint: 4, epoch: "e-2"))
        _ = try await f.store.endFullPass(confirmed: true)
        try await tryAgain(f, first, .applied(4))
        #expect(try held(f) == 4)
    }

    @Test(
        "of a record that was deleted since, the delete's version is held; of one that nobody knew any more, none",
        arguments: [12, nil])
    func deleted(version: Int64?) async throws {
        let f = try Fixture()
        let first = try await begin(f)
        try f.sql("DELETE FROM card WHERE id = 'c1'")
        let delete = try await f.claim(limits)
        try await f.settle((delete.keys[0], .applied(version: version, overwrote: [:], serverID: nil)))
        #expect(try !f.hasCard())
        try await tryAgain(f, first, .applied(8))
        #expect(try !f.hasCard())
        #expect(try held(f) == (version == nil ? 8 : 12))
    }
}
