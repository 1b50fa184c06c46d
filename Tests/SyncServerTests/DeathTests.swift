import SyncCore
import Testing

@testable import SyncServer

@Suite("Deletes, revival, dead parents")
struct DeathTests {
    /// b1 with l1 with c1, from dev-1, ten seconds ago; versions 1 to 3.
    private func tree() throws -> TestServer {
        let server = try TestServer()
        try server.sync(
            "dev-1",
            [
                server.create("t1", 1, "board", "b1", ["name": "B"], at: -10_000),
                server.create("t2", 2, "list", "l1", ["idBoard": "b1"], at: -10_000),
                server.create("t3", 3, "card", "c1", ["idList": "l1", "name": "C"], at: -10_000),
            ])
        return server
    }

    @Test("DAT-05 a newer update brings a dead record back whole")
    func revival() throws {
        let server = try tree()
        let dead = try server.sync("dev-1", [server.delete("k1", 4, "card", "c1", at: -500)], from: 3)
        #expect(dead.verdict("k1") == "applied")
        #expect(dead.result("k1")["version"] == 4)
        let read = try server.sync("dev-2", from: 3)
        #expect(read.record("c1")?["deleted"] == true)
        #expect(read.record("c1")?["fields"] == [:])
        let back = try server.sync(
            "dev-2", [server.update("k1", 1, "card", "c1", ["desc": (.null, "d")], at: -400)], from: 4)
        #expect(back.verdict("k1") == "applied")
        #expect(back.record("c1")?["fields"] == ["idList": "l1", "name": "C", "desc": "d"], "never left out")
    }

    @Test("DAT-05 an update older than the delete is merged with a dead record, and remembered")
    func olderUpdate() throws {
        let server = try tree()
        try server.sync("dev-1", [server.delete("k1", 4, "card", "c1", at: -500)], from: 3)
        let late = try server.sync(
            "dev-2", [server.update("k1", 1, "card", "c1", ["name": ("C", "D")], at: -600)], from: 3)
        #expect(late.verdict("k1") == "merged")
        #expect(late.result("k1")["record"]["deleted"] == true)
        #expect(late.version == 4)
        try server.sync("dev-1", [server.update("k2", 5, "card", "c1", ["desc": (.null, "d")], at: -100)], from: 4)
        #expect(try server.sync("dev-3").record("c1")?["fields"]["name"] == "D")
    }

    @Test("a delete older than a field's write is merged with the live record")
    func olderDelete() throws {
        let server = try tree()
        try server.sync("dev-1", [server.update("k1", 4, "card", "c1", ["name": ("C", "D")], at: -100)], from: 3)
        let late = try server.sync("dev-2", [server.delete("k1", 1, "card", "c1", at: -600)], from: 3)
        #expect(late.verdict("k1") == "merged")
        #expect(late.result("k1")["record"]["fields"]["name"] == "D")
        #expect(late.result("k1")["record"]["deleted"] == false)
    }

    @Test("a create older than the delete is an update: a field of its own that is newer brings the record back")
    func olderCreateWithNewerField() throws {
        let server = try tree()
        try server.sync("dev-1", [server.delete("k1", 4, "card", "c1", at: -500)], from: 3)
        let fields: [String: FieldValue] = ["name": ["new": "N", "stamp": .string(server.stamp(-400))]]
        let late = try server.sync("dev-2", [server.change("k1", 1, "create", "card", "c1", fields, at: -600)], from: 4)
        #expect(late.verdict("k1") == "applied")
        #expect(late.record("c1")?["fields"] == ["idList": "l1", "name": "N"])
    }

    @Test("a delete of what is not there is applied, without a version")
    func deleteOfNothing() throws {
        let server = try tree()
        let answer = try server.sync("dev-1", [server.delete("k1", 4, "card", "none")], from: 3)
        #expect(answer.verdict("k1") == "applied")
        #expect(answer.result("k1")["version"] == .null)
        #expect(answer.version == 3)
        try server.sync("dev-1", [server.delete("k2", 5, "card", "c1", at: -50)], from: 3)
        let again = try server.sync("dev-2", [server.delete("k1", 1, "card", "c1", at: -40)], from: 4)
        #expect(again.verdict("k1") == "applied")
        #expect(again.result("k1")["version"] == .null)
    }

    @Test("Seed 1011375: a late update to null under the null of a newer create has lost, and gives no version")
    func lateNull() throws {
        let server = try tree()
        try server.sync("dev-1", [server.delete("k1", 4, "card", "c1", at: -500)], from: 3)
        try server.sync("dev-2", [server.create("k1", 1, "card", "c1", ["idList": "l1"], at: -300)], from: 4)
        let late = try server.sync(
            "dev-3",
            [
                server.update("k1", 1, "card", "c1", ["name": ("C", .null)], at: -600),
                server.update("k2", 2, "card", "c1", ["desc": (.null, .null)], at: -550),
            ], from: 5)
        #expect(late.verdict("k1") == "merged" && late.verdict("k2") == "merged")
        #expect(late.version == 5)
        let later = [server.update("k3", 3, "card", "c1", ["desc": ("x", .null)], at: -100)]
        #expect(try server.sync("dev-3", later, from: 5).verdict("k3") == "applied")
    }

    @Test("a create of a dead record writes all its fields, and null to those it does not name")
    func createOfDead() throws {
        let server = try tree()
        try server.sync("dev-1", [server.delete("k1", 4, "card", "c1", at: -500)], from: 3)
        let older = try server.sync("dev-2", [server.create("k1", 1, "card", "c1", ["desc": "old"], at: -700)], from: 4)
        #expect(older.verdict("k1") == "merged")
        #expect(older.result("k1")["record"]["deleted"] == true)
        let newer = try server.sync(
            "dev-2", [server.create("k2", 2, "card", "c1", ["idList": "l1"], at: -300)], from: 4)
        #expect(newer.verdict("k2") == "applied")
        #expect(newer.record("c1")?["fields"] == ["idList": "l1", "name": .null, "desc": .null])
        let late = try server.sync(
            "dev-3", [server.update("k1", 1, "card", "c1", ["unseen": (.null, "x")], at: -400)], from: 5)
        #expect(late.verdict("k1") == "merged", "older than the create that wrote null to it")
    }

    @Test("Seed 20334: a union that puts nothing in and takes nothing out is no write, and brings nothing back")
    func emptyUnion() throws {
        let server = try tree()
        try server.sync("dev-1", [server.delete("k1", 4, "card", "c1", at: -500)], from: 3)
        for (key, sequence, new, verdict) in [("k1", 1, ["x"], "merged"), ("k2", 2, ["x", "y"], "applied")]
            as [(String, Int64, [FieldValue], String)]
        {
            let tags: FieldValue = ["old": ["x"], "new": .array(new), "rule": "union"]
            let change = server.change(key, sequence, "update", "card", "c1", ["tags": tags], at: -300 + sequence)
            #expect(try server.sync("dev-2", [change], from: 4).verdict(key) == verdict)
        }
    }

    @Test("DAT-07 a create of a live record: the same is applied without effect, another is idTaken")
    func idTaken() throws {
        let server = try tree()
        let same = try server.sync(
            "dev-2", [server.create("k1", 1, "card", "c1", ["idList": "l1", "name": "C", "x": .null])], from: 3)
        #expect(same.verdict("k1") == "applied")
        #expect(same.result("k1")["version"] == 3)
        #expect(same.version == 3)
        let other = try server.sync("dev-2", [server.create("k2", 2, "card", "c1", ["idList": "l1"])], from: 3)
        #expect(other.result("k2")["error"]["code"] == "idTaken")
    }

    @Test("DAT-07 the same create above a delete that lost leaves what elements and sums made (found with seed 15123)")
    func sameOverElements() throws {
        let server = try tree()
        let made: [String: FieldValue] = [
            "tags": ["old": .null, "new": ["x"], "rule": "union"], "votes": ["old": .null, "new": 2, "rule": "sum"],
        ]
        try server.sync("dev-1", [server.change("k1", 4, "update", "card", "c1", made, at: -200)], from: 3)
        #expect(
            try server.sync("dev-2", [server.delete("k1", 1, "card", "c1", at: -500)], from: 4).verdict("k1")
                == "merged")
        let fields: [String: FieldValue] = ["idList": "l1", "name": "C", "tags": ["x"], "votes": 2]
        let same = try server.sync("dev-2", [server.create("k2", 2, "card", "c1", fields, at: -100)], from: 4)
        #expect(same.verdict("k2") == "applied")
        #expect(same.result("k2")["version"] == 4)
        #expect(try server.sync("dev-3", from: 3).record("c1")?["fields"] == .object(fields))
        let more: [String: FieldValue] = ["tags": ["old": ["x"], "new": ["x", "y"], "rule": "union"]]
        let next = try server.sync("dev-1", [server.change("k2", 5, "update", "card", "c1", more, at: -50)], from: 4)
        #expect(next.verdict("k2") == "applied")
        #expect(try server.sync("dev-3", from: 4).record("c1")?["fields"]["tags"] == ["x", "y"])
    }

    @Test("what stands under a dead record is dead, and lives again with it")
    func parents() throws {
        let server = try tree()
        try server.sync("dev-1", [server.delete("k1", 4, "board", "b1", at: -500)], from: 3)
        let dead = try server.sync("dev-2", from: 3)
        #expect(dead.records.map { $0["deleted"] } == [true, true, true])
        #expect(dead.records.map { $0["id"] } == ["b1", "l1", "c1"])
        let edit = try server.sync(
            "dev-2", [server.update("k1", 1, "card", "c1", ["name": ("C", "D")], at: -100)], from: 6)
        #expect(edit.verdict("k1") == "merged")
        #expect(edit.result("k1")["record"]["deleted"] == true)
        let create = try server.sync("dev-2", [server.create("k2", 2, "list", "l2", ["idBoard": "b1"])], from: 6)
        #expect(create.verdict("k2") == "merged")
        #expect(create.result("k2")["record"]["deleted"] == true)
        let taken = try server.sync("dev-3", [server.create("k1", 1, "card", "c1", ["idList": "l1"])], from: 6)
        #expect(taken.result("k1")["error"]["code"] == "idTaken", "dead only through its parent counts as live")
        let back = try server.sync(
            "dev-1", [server.update("k2", 5, "board", "b1", ["name": ("B", "E")], at: 0)], from: 6)
        #expect(back.verdict("k2") == "applied")
        #expect(Set(back.records.map { $0["id"] }) == ["b1", "l1", "l2", "c1"])
        #expect(back.records.allSatisfy { $0["deleted"] == false })
        #expect(back.record("c1")?["fields"]["name"] == "D")
    }

    @Test("a move under a dead parent is kept; a move away from one brings the record back")
    func moves() throws {
        let server = try tree()
        try server.sync("dev-1", [server.create("k1", 4, "list", "l2", ["idBoard": "b1"], at: -400)], from: 3)
        try server.sync("dev-1", [server.delete("k2", 5, "list", "l2", at: -300)], from: 4)
        let move = try server.sync(
            "dev-1", [server.update("k3", 6, "card", "c1", ["idList": ("l1", "l2")], at: -200)], from: 5)
        #expect(move.verdict("k3") == "merged")
        #expect(try server.sync("dev-2", from: 5).record("c1")?["deleted"] == true)
        let back = try server.sync(
            "dev-1", [server.update("k4", 7, "card", "c1", ["idList": ("l2", "l1")], at: -100)], from: 6)
        #expect(back.verdict("k4") == "applied")
        #expect(back.record("c1")?["deleted"] == false)
    }

    @Test("missingReference only if the parent was never created")
    func missingReference() throws {
        let server = try tree()
        try server.sync("dev-1", [server.delete("k1", 4, "list", "l1", at: -500)], from: 3)
        let under = try server.sync("dev-2", [server.create("k1", 1, "card", "c2", ["idList": "l1"])], from: 5)
        #expect(under.verdict("k1") == "merged")
        let never = try server.sync("dev-2", [server.create("k2", 2, "card", "c3", ["idList": "l9"])], from: 6)
        #expect(never.result("k2")["error"]["code"] == "missingReference")
        #expect(never.result("k2")["error"]["reference"] == "l9")
        let wrong = try server.sync("dev-2", [server.create("k3", 3, "card", "c4", ["idList": 7])], from: 6)
        #expect(wrong.result("k3")["error"]["code"] == "invalid")
    }

    @Test("Seed 423: an update of what is not there is notFound, whatever it refers to")
    func updateOfNothing() throws {
        let server = try tree()
        let changes = [server.update("k1", 1, "card", "none", ["idList": ("l1", "l9")])]
        let answer = try server.sync("dev-2", changes, from: 3)
        #expect(answer.result("k1")["error"]["code"] == "notFound")
        // Nor one of which only a delete came (seed 123).
        try server.sync("dev-2", [server.delete("k2", 2, "card", "none")], from: 3)
        let later = try server.sync(
            "dev-2", [server.update("k3", 3, "card", "none", ["idList": ("l1", "l9")])], from: 3)
        #expect(later.result("k3")["error"]["code"] == "notFound")
    }
}
