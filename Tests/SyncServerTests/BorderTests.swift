import GRDB
import SyncCore
import Testing

@testable import SyncServer

@Suite("What no client may do")
struct BorderTests {
    @Test(
        "SEC-15 a change of what belongs to the server is refused, the field named",
        arguments: ["owner_id", "version", "deleted_at", "id", "dateLastActivity"])
    func massAssignment(_ field: String) throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k0", 1, "card", "c1", ["name": "C"])])
        let answer = try server.sync(
            "d", [server.update("k1", 2, "card", "c1", [field: (.null, 1), "name": ("C", "D")], at: 1)], from: 1)
        #expect(answer.result("k1")["error"]["code"] == "invalid")
        #expect(answer.result("k1")["error"]["field"] == .string(field))
        #expect(try server.sync("e").record("c1")?["fields"] == ["name": "C"])
    }

    @Test("SEC-10 a key that is none is refused before it is looked for, and stored nowhere")
    func keyFormat() throws {
        let server = try TestServer()
        for key in ["", "a b", "k'; --", String(repeating: "k", count: 129)] {
            let change = server.create(key, 1, "board", "b1")
            for _ in 0..<2 {
                let answer = try server.sync("d", [change])
                #expect(answer.verdict(key) == "rejected")
                #expect(answer.result(key)["error"]["code"] == "invalid")
            }
        }
        #expect(try server.sync("d", [server.create("k", 1, "board", "b1")]).verdict("k") == "applied")
    }

    @Test("SEC-14 another account's checkpoint, scope, epoch and data set open nothing")
    func foreignCursor() throws {
        let server = try TestServer()
        let mine = try server.sync("d", [server.create("k1", 1, "board", "b1", ["name": "mine"])])
        server.account = "other"
        #expect(try server.sync("d", from: 0).records.isEmpty)
        #expect(try server.send("d", [], from: 1).status == 410)
        #expect(try server.sync("d", from: 0, ["scopes": ["board:b1": 0]]).records.isEmpty)
        #expect(try server.send("d", [], from: 0, ["dataset": mine["dataset"]]).status == 409)
        let update = try server.sync("d", [server.update("k1", 1, "board", "b1", ["name": ("mine", "x")])])
        let nowhere = try server.sync("d", [server.update("k2", 2, "board", "b0", ["name": ("mine", "x")])])
        #expect(update.result("k1")["error"] == nowhere.result("k2")["error"], "SEC-21 both say the same")
    }

    @Test("DAT-02 different fields of one record both survive; DAT-30 each field keeps its own stamp")
    func fields() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "card", "c1", ["name": "A", "desc": "a"], at: -10_000)])
        let merged = server.change(
            "k2", 2, "update", "card", "c1",
            [
                "name": ["old": "A", "new": "B", "stamp": .string(server.stamp(-600))],
                "desc": ["old": "a", "new": "b"],
            ], at: -300)
        try server.sync("d", [merged], from: 1)
        let other = try server.sync(
            "e", [server.update("k1", 1, "card", "c1", ["name": ("A", "C"), "desc": ("a", "c")], at: -500)], from: 1)
        #expect(other.verdict("k1") == "merged")
        #expect(other.result("k1")["record"]["fields"] == ["name": "C", "desc": "b"])
    }

    @Test("the stamp of an answer is the highest among its records and results")
    func highestStamp() throws {
        let server = try TestServer()
        let stamp = server.stamp(5_000)
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["n": 1], at: 5_000)])
        #expect(try server.sync("e")["stamp"].string == stamp)
        let lost = try server.sync("e", [server.update("k1", 1, "board", "b1", ["n": (1, 2)], at: 10)], from: 1)
        #expect(lost.verdict("k1") == "merged")
        #expect(lost["stamp"].string == stamp)
    }

    @Test("a file of a later version of this program is refused, and left as it is")
    func laterVersion() throws {
        let server = try TestServer()
        try server.service.inStore { _, db in
            try db.execute(sql: "INSERT INTO grdb_migrations(identifier) VALUES ('99 from the future')")
        }
        try server.service.close()
        #expect(throws: ServiceFailure.madeByLaterVersion(path: server.path)) {
            try SyncService(
                path: server.path, configuration: server.configuration, clock: server.clock,
                randomness: server.randomness)
        }
    }
}
