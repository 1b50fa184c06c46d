import GRDB
@testable import Storage
import SyncCore
import Testing

/// Servers that make their own ids: the map is the verdict's.
struct IdentityTests {
    private static let list = RecordKey("list", "l1")

    private func created() async throws -> (Fixture, Claim) {
        let fixture = try Fixture()
        try fixture.sql("INSERT INTO board (id, name) VALUES ('b1', 'B')")
        try await fixture.drain()
        try fixture.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('l1', 'L', 'b1', 1)")
        return (fixture, try await fixture.claim())
    }

    @Test("IDS-01 the id map is in the verdict's transaction, there after a restart, and the rows keep their ids")
    func mapped() async throws {
        let (fixture, claim) = try await created()
        let before = try fixture.rows("SELECT * FROM list")
        let key = claim.changes[0].change.id
        try await fixture.settle((key, .applied(version: 2_000, overwrote: [:], serverID: "S1")))
        try await fixture.store.close()
        let again = try Fixture(file: fixture.file)
        #expect(try again.rows("SELECT * FROM list") == before)
        #expect(try again.store.serverIDs(of: [Self.list, RecordKey("board", "b1")]) == [Self.list: "S1"])
        #expect(
            try again.store.localIDs(of: [RecordKey("list", "S1"), RecordKey("card", "S1")]) == [
                RecordKey("list", "S1"): "l1"
            ])
    }

    @Test("IDS-01, I4 a verdict that is rolled back maps nothing")
    func rolledBack() async throws {
        let (fixture, claim) = try await created()
        let key = claim.changes[0].change.id
        try fixture.sql(
            """
            CREATE TRIGGER refuse BEFORE DELETE ON sync_change BEGIN SELECT RAISE(ABORT, 'no'); END
            """)
        await #expect(throws: StoreFailure.self) {
            try await fixture.settle((key, .applied(version: 2_000, overwrote: [:], serverID: "S1")))
        }
        #expect(try fixture.store.serverIDs(of: [Self.list]).isEmpty)
        try fixture.sql("DROP TRIGGER refuse")
        try await fixture.settle((key, .applied(version: 2_000, overwrote: [:], serverID: "S1")))
        #expect(try fixture.store.serverIDs(of: [Self.list]) == [Self.list: "S1"])
    }

    @Test("IDS-03 one call gives the local id, which works for ever; an id that is nobody's stays as it is")
    func link() async throws {
        let (fixture, claim) = try await created()
        let key = claim.changes[0].change.id
        try await fixture.settle((key, .applied(version: 2_000, overwrote: [:], serverID: "S1")))
        #expect(try fixture.store.localID(ofServerID: "S1", entity: "list") == "l1")
        #expect(try fixture.store.localID(ofServerID: "S1", entity: "card") == "S1")
        #expect(try fixture.store.localIDs(of: []).isEmpty)
    }

    @Test("IDS-01 one id told for two records sets the second aside, visibly; the rest of the answer stands")
    func told() async throws {
        let fixture = try Fixture()
        for id in ["b1", "b2", "b3"] { try fixture.sql("INSERT INTO board (id, name) VALUES (?, 'B')", [id]) }
        try fixture.sql("UPDATE board SET closed = 1 WHERE id = 'b2'")
        let claim = try await fixture.claim(ClaimLimits(maxChanges: 3, merges: false))
        let keys = try await fixture.store.queued().map(\.change.id)
        #expect(keys.count == 4 && claim.keys == Array(keys.prefix(3)))
        try await fixture.settle(
            (keys[0], .applied(version: 1, overwrote: [:], serverID: "S1")),
            (keys[1], .applied(version: 2, overwrote: [:], serverID: "S1")), (keys[2], .applied(3)))
        let failures = try await fixture.store.failures()
        #expect(failures.map(\.queued.change.id) == [keys[1]])
        #expect(failures[0].reason.code == "serverIDTaken")
        #expect(failures[0].reason.message.contains("“S1”") && failures[0].reason.message.contains("board b1"))
        #expect(failures[0].isUncertain)
        #expect(
            try await fixture.store.queued().map(\.blockedBy) == [keys[1]], "the edit waits for its record's create")
        #expect(try fixture.int("SELECT count(*) FROM board") == 3)
        #expect(try fixture.store.localID(ofServerID: "S1", entity: "board") == "b1")
        // The server thinks better of it: the same key, another id.
        #expect(try await fixture.store.retry(keys[1]) == keys[1])
        let again = try await fixture.claim(ClaimLimits(merges: false))
        #expect(again.keys == [keys[1], keys[3]])
        try await fixture.settle(
            (keys[1], .applied(version: 4, overwrote: [:], serverID: "S2")), (keys[3], .applied(5)))
        #expect(try await fixture.store.queued().isEmpty)
        #expect(try await fixture.store.failures().isEmpty)
        #expect(try fixture.store.localID(ofServerID: "S2", entity: "board") == "b2")
    }

    @Test("IDS-01 a server that counts from the top again gives a deleted record's id to a new one")
    func reused() async throws {
        let (fixture, claim) = try await created()
        try await fixture.settle((claim.keys[0], .applied(version: 2_000, overwrote: [:], serverID: "S1")))
        try fixture.sql("DELETE FROM list")
        try await fixture.drain(from: 2_001)
        try fixture.sql("INSERT INTO list (id, name, idBoard, pos) VALUES ('l2', 'L', 'b1', 1)")
        let next = try await fixture.claim()
        try await fixture.settle((next.keys[0], .applied(version: 2_010, overwrote: [:], serverID: "S1")))
        #expect(try await fixture.store.failures().isEmpty)
        #expect(try fixture.store.localID(ofServerID: "S1", entity: "list") == "l2")
        #expect(try fixture.store.serverIDs(of: [Self.list]).isEmpty)
    }
}
