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
}
