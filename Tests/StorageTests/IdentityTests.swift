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

    @Test(
        "OBS-09, IDS-01 who made a record, and who has it under the server's id only, add the same contents up",
        arguments: [false, true])
    func contents(isHeld: Bool) async throws {
        let (fixture, claim) = try await created()
        try await fixture.settle(
            (claim.changes[0].change.id, .applied(version: 2_000, overwrote: [:], serverID: "S1")))
        let other = try Fixture()
        let version = try #require(try fixture.int("SELECT version FROM sync_record WHERE entity = 'board'"))
        let board = record("board", "b1", Int64(version), ["name": "B"])
        let list: [String: FieldValue] = ["name": "L", "idBoard": isHeld ? "b2" : "b1", "pos": 1.0]
        try await fixture.apply(board, record("list", "l1", 2_000, list))
        try await other.apply(board, record("list", "S1", 2_000, list))
        if isHeld {
            try await fixture.apply(record("list", "l1", 2_001, list))
            try await other.apply(record("list", "S1", 2_001, list))
            try #require(try await fixture.store.position().held == 1)
        }
        let end: Int64 = isHeld ? 2_001 : 2_000
        let mine = try #require(try await fixture.store.contentChecksum(at: end))
        #expect(try await mine == other.store.contentChecksum(at: end))
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

    /// The answer to a create is lost, and a page tells its record as anybody's, with a card of somebody else's under it.
    private func lost() async throws -> (Fixture, String) {
        let (fixture, claim) = try await created()
        try await fixture.settle((claim.keys[0], .unanswered))
        try await fixture.apply(
            record("list", "S1", 2_000, ["name": "L", "idBoard": "b1", "pos": 1.0]),
            record("card", "c9", 2_001, ["name": "Theirs", "idList": "S1", "pos": 1.0]))
        #expect(try fixture.int("SELECT count(*) FROM list") == 2)
        return (fixture, claim.keys[0])
    }

    private func told(_ fixture: Fixture, _ key: String) async throws {
        _ = try await fixture.store.settle(
            Settlement(outcomes: [
                .init(
                    changeID: key, kind: .applied(version: 2_000, overwrote: [:], serverID: "S1"), isRepeated: true)
            ]), claim: nil)
    }

    private func text(_ fixture: Fixture, _ sql: String) throws -> [String] {
        try fixture.store.database.read { try String.fetchAll($0, sql: sql) }
    }

    @Test("NET-01, IDS-01 what a page brought under the server's id before the lost verdict is one with this device's")
    func twin() async throws {
        let (fixture, key) = try await lost()
        try fixture.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        #expect(try await fixture.claim(ClaimLimits(maxChanges: 1)).keys == [key])
        try await told(fixture, key)
        #expect(try await fixture.store.failures().isEmpty)
        #expect(try text(fixture, "SELECT id || name FROM list") == ["l1Mine"])
        #expect(try text(fixture, "SELECT id || idList FROM card") == ["c9l1"])
        #expect(try text(fixture, "SELECT id || version FROM sync_record WHERE entity = 'list'") == ["l12000"])
        #expect(try fixture.store.localID(ofServerID: "S1", entity: "list") == "l1")
        try await fixture.drain(from: 2_001)
        // What comes from now on comes to it.
        try await fixture.apply(record("list", "l1", 2_010, ["name": "Theirs", "idBoard": "b1", "pos": 1.0]))
        #expect(try text(fixture, "SELECT id || name FROM list") == ["l1Theirs"])
    }

    @Test("NET-01, IDS-01 a record died before the lost verdict names it: nobody knew whose tombstone the page brought")
    func deadBeforeItsName() async throws {
        for hasEdit in [false, true] {
            let (fixture, claim) = try await created()
            let key = claim.keys[0]
            try await fixture.settle((key, .unanswered))
            try await fixture.apply(
                record("board", "b1", 2_001, [:], .deleted), record("list", "S1", 2_002, [:], .deleted))
            if hasEdit { try fixture.sql("UPDATE list SET name = 'Mine'") }
            #expect(try await fixture.claim(ClaimLimits(maxChanges: 1)).keys == [key])
            try await told(fixture, key)
            #expect(try fixture.store.localID(ofServerID: "S1", entity: "list") == "l1")
            // An edit that is still to be sent brings it back; without one it is dead, and nothing waits for its parent.
            #expect(try text(fixture, "SELECT name FROM list") == (hasEdit ? ["Mine"] : []))
            #expect(try text(fixture, "SELECT id FROM sync_held WHERE entity = 'list'") == [])
            #expect(try fixture.int("SELECT count(*) FROM sync_event WHERE kind = 'died' AND id = 'l1'") == 1)
        }
    }

    @Test("NET-01, IDS-01 a record of which no page can have told yet lives when its lost verdict names it")
    func aliveBeforeItsPage() async throws {
        let (fixture, claim) = try await created()
        try await fixture.settle((claim.keys[0], .unanswered))
        try await fixture.apply(record("board", "b1", 1_999, ["name": "B"]))
        _ = try await fixture.claim(ClaimLimits(maxChanges: 1))
        try await told(fixture, claim.keys[0])
        #expect(try text(fixture, "SELECT id || name FROM list") == ["l1L"])
        #expect(try text(fixture, "SELECT id || version FROM sync_record WHERE entity = 'list'") == ["l12000"])
    }

    @Test("IDS-01, PRC-19 a create decided once, nobody knows how, is one with what pages brought of it")
    func namedByARefusal() async throws {
        let (fixture, key) = try await lost()
        try fixture.sql("UPDATE list SET name = 'Mine' WHERE id = 'l1'")
        _ = try await fixture.claim(ClaimLimits(maxChanges: 1))
        _ = try await fixture.store.settle(
            Settlement(outcomes: [
                .init(
                    changeID: key,
                    kind: .setAside(SetAsideReason(code: "expired", message: "forgotten"), staysUncertain: false),
                    serverID: "S1")
            ]), claim: nil)
        #expect(try text(fixture, "SELECT id || name FROM list") == ["l1Mine"])
        #expect(try text(fixture, "SELECT id || idList FROM card") == ["c9l1"])
        #expect(try text(fixture, "SELECT id || version FROM sync_record WHERE entity = 'list'") == ["l12000"])
        #expect(try fixture.store.localID(ofServerID: "S1", entity: "list") == "l1")
        try await fixture.drain(from: 2_001)
        #expect(try await fixture.store.summary().hasWork == false)
    }

    @Test("IDS-01 a twin with unsent changes, or with some under it, does not make way until they are decided")
    func twinAtWork() async throws {
        for edit in ["UPDATE list SET pos = 9 WHERE id = 'S1'", "UPDATE card SET name = 'Mine' WHERE id = 'c9'"] {
            let (fixture, key) = try await lost()
            try fixture.sql(edit)
            _ = try await fixture.claim(ClaimLimits(maxChanges: 1))
            try await told(fixture, key)
            let failures = try await fixture.store.failures()
            #expect(failures.map(\.reason.code) == ["serverIDTaken"])
            #expect(failures.first?.reason.message.contains("list S1") == true)
            #expect(try fixture.int("SELECT count(*) FROM list") == 2)
            try await fixture.drain(from: 2_001)
            #expect(try await fixture.store.retry(key) == key)
            _ = try await fixture.claim()
            try await told(fixture, key)
            #expect(try text(fixture, "SELECT id FROM list") == ["l1"])
            #expect(try text(fixture, "SELECT id || idList FROM card") == ["c9l1"])
            #expect(try await fixture.store.summary().hasWork == false)
        }
    }

    @Test(
        "IDS-01, seed 2000739: what an answer says to stand under a record whose name was not kept stands under the twin",
        arguments: [false, true], [false, true])
    func besideTwin(isMerged: Bool, isMovedOn: Bool) async throws {
        let (fixture, key) = try await lost()
        try await fixture.apply(
            record("list", "l2", 2_002, ["name": "Other", "idBoard": "b1"]),
            record("list", "l3", 2_002, ["name": "Third", "idBoard": "b1"]),
            record("card", "c8", 2_003, ["name": "Theirs", "idList": "l2"]),
            record("card", "c7", 2_004, ["name": "Theirs", "idList": "l2"]))
        try fixture.sql("UPDATE list SET pos = 9 WHERE id = 'S1'")
        try fixture.sql("UPDATE card SET \(isMerged ? "name = 'Mine'" : "idList = 'l1'") WHERE id = 'c8'")
        let claim = try await fixture.claim()
        let (edit, change) = (claim.keys[1], claim.keys[2])
        // Nobody but the app put that there.
        try fixture.sql("UPDATE card SET idList = 'l1' WHERE id = 'c7'")
        if isMovedOn { try fixture.sql("UPDATE card SET idList = 'l3' WHERE id = 'c8'") }
        // As the answer is translated, what the server calls S1 is called l1.
        let merged = Settlement.Outcome.Kind.merged(record("card", "c8", 2_005, ["name": "Mine", "idList": "l1"]))
        _ = try await fixture.store.settle(
            Settlement(outcomes: [
                .init(changeID: key, kind: .applied(version: 2_000, overwrote: [:], serverID: "S1"), isRepeated: true),
                .init(changeID: change, kind: isMerged ? merged : .applied(2_005)),
            ]), claim: nil)
        try #require(try await fixture.store.failures().map(\.reason.code) == ["serverIDTaken"])
        #expect(
            try text(fixture, "SELECT id || idList FROM card ORDER BY id")
                == ["c7l1", isMovedOn ? "c8l3" : "c8S1", "c9S1"])
        try await fixture.settle((edit, .applied(2_006)))
        _ = try await fixture.store.discard(key)
        if isMovedOn {
            let rest = try await fixture.claim().keys
            for key in rest { try await fixture.settle((key, .refused())) }
        }
        #expect(try text(fixture, "SELECT id || idList FROM card ORDER BY id") == ["c7l2", "c8S1", "c9S1"])
        #expect(try fixture.int("SELECT count(*) FROM sync_held") == 0)
        #expect(try text(fixture, "SELECT id FROM list ORDER BY id") == ["S1", "l2", "l3"])
    }

    @Test(
        "IDS-01 a record that was deleted here before its create is named takes its twin with it; what is under it waits"
    )
    func twinOfDeleted() async throws {
        let (fixture, key) = try await lost()
        try fixture.sql("DELETE FROM list WHERE id = 'l1'")
        #expect(try await fixture.claim(ClaimLimits(maxChanges: 1)).keys == [key])
        try await told(fixture, key)
        #expect(try fixture.int("SELECT count(*) FROM list") == 0)
        #expect(try fixture.int("SELECT count(*) FROM card") == 0)
        #expect(try text(fixture, "SELECT id || waitsID FROM sync_held") == ["c9l1"])
        // The delete is taken back before it was sent: all of it is here again.
        let delete = try #require(try await fixture.store.queued().first?.change)
        #expect(delete.operation == .delete)
        _ = try await fixture.store.cancel(delete.id)
        #expect(try text(fixture, "SELECT id FROM list") == ["l1"])
        try await fixture.apply(record("board", "b1", 2_020, ["name": "B"]))
        #expect(try text(fixture, "SELECT id || idList FROM card") == ["c9l1"])
    }

    @Test("IDS-01 a create under a parent that died is merged; the id that the server gave it is kept all the same")
    func mergedCreate() async throws {
        let (fixture, claim) = try await created()
        _ = try await fixture.store.settle(
            Settlement(outcomes: [
                .init(
                    changeID: claim.keys[0], kind: .merged(record("list", "l1", 2_000, [:], .deleted)), serverID: "S1")
            ]), claim: nil)
        #expect(try await fixture.store.queued().isEmpty)
        #expect(try fixture.int("SELECT count(*) FROM list") == 0)
        #expect(try fixture.store.localID(ofServerID: "S1", entity: "list") == "l1")
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

    @Test("DAT-18, seed 1900: what waited for the upgrade refers to what was made here, whatever the server calls that")
    func unknownReferences() async throws {
        let f = try Fixture()
        try f.sql("INSERT INTO board (id, name) VALUES ('mine', 'B')")
        let key = try #require(try await f.claim().keys.first)
        try await f.settle((key, .applied(version: 1, overwrote: [:], serverID: "S1")))
        try await f.apply(
            record("board", "b2", 2, ["name": "B", "idSeen": "S1", "idOther": "S9"]),
            record("note", "n1", 3, ["text": "N", "idBoard": "S1", "idOther": "S9"]))
        try await f.store.close()
        let newer = try Schema([
            EntitySchema(
                "board", version: 2,
                fields: [.text("name"), .reference("idSeen", "board"), .reference("idOther", "board")]),
            EntitySchema("note", fields: [.text("text"), .parent("idBoard", "board"), .reference("idOther", "board")]),
        ])
        let g = try Fixture(newer, file: f.file)
        #expect(try g.text("SELECT idSeen || idOther FROM board WHERE id = 'b2'") == "mineS9")
        #expect(try g.text("SELECT id || idBoard || idOther FROM note") == "n1mineS9")
        #expect(try await g.store.held().isEmpty)
    }
}
