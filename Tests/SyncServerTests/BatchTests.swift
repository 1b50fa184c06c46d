import SyncCore
import Testing

@testable import SyncServer

@Suite("Blocking, strict order, units")
struct BatchTests {
    @Test("what changes the same record after a change that was not done is blocked by it, and leaves no trace")
    func sameRecord() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["t": "A"], at: -100)])
        let check = server.update("k2", 2, "board", "b1", ["t": ("X", "Y")], rule: "check")
        let after = server.update("k3", 3, "board", "b1", ["n": (.null, 1)])
        let free = server.create("k4", 4, "board", "b2")
        let answer = try server.sync("d", [check, after, free], from: 1)
        #expect(answer.verdict("k2") == "conflict")
        #expect(answer.verdict("k3") == "blocked")
        #expect(answer.result("k3")["by"] == "k2")
        #expect(answer.verdict("k4") == "applied")
        #expect(try server.sync("d", [after], from: 2).verdict("k3") == "applied")
    }

    @Test("what needs a create that was refused is blocked by it, down the chain")
    func needs() throws {
        let server = try TestServer()
        let answer = try server.sync(
            "d",
            [
                server.create("k1", 1, "list", "l1", ["idBoard": "none"]),
                server.create("k2", 2, "card", "c1", ["idList": "l1"]),
                server.create("k3", 3, "comment", "m1", ["idCard": "c1"]), server.create("k4", 4, "board", "b1"),
            ])
        #expect(answer.result("k1")["error"]["code"] == "missingReference")
        #expect(answer.result("k2") == ["changeID": "k2", "verdict": "blocked", "by": "k1"])
        #expect(answer.result("k3")["by"] == "k1")
        #expect(answer.verdict("k4") == "applied")
    }

    @Test("the app's policy: forbidden is decided, later is not")
    func policy() throws {
        let server = try TestServer { configuration in
            configuration.policy = { _, question in
                switch question.id {
                case "no": .forbid(message: "not yours")
                case "wait": .later(seconds: 7)
                default: .allow
                }
            }
        }
        let changes = [
            server.create("k1", 1, "board", "no"), server.create("k2", 2, "board", "wait"),
            server.create("k3", 3, "board", "b3"),
        ]
        let answer = try server.sync("d", changes)
        #expect(answer.result("k1")["error"]["code"] == "forbidden")
        #expect(answer.result("k2") == ["changeID": "k2", "verdict": "retry", "retryAfter": 7])
        #expect(answer.verdict("k3") == "applied")
        let strict = try server.sync(
            "e",
            [
                server.create("k1", 1, "board", "b4"), server.create("k2", 2, "board", "wait"),
                server.create("k3", 3, "board", "b5"), server.create("k4", 4, "board", "b6"),
            ], ["order": "strict"])
        #expect(strict.results.map { $0["verdict"] } == ["applied", "retry", "blocked", "blocked"])
        #expect(strict.result("k4")["by"] == "k2")
    }

    private func unit(_ changes: [FieldValue]) -> [FieldValue] {
        changes.map { change in
            guard case .object(var members) = change else { return change }
            members["transaction"] = "u1"
            return .object(members)
        }
    }

    @Test("DAT-28 a unit is done as a whole")
    func wholeUnit() throws {
        let server = try TestServer()
        let changes = unit([
            server.create("k1", 1, "board", "b1"), server.create("k2", 2, "list", "l1", ["idBoard": "b1"]),
        ])
        #expect(try server.sync("d", changes).results.map { $0["verdict"] } == ["applied", "applied"])
        #expect(try server.sync("d", changes).results.map { $0["verdict"] } == ["duplicate", "duplicate"])
    }

    @Test("DAT-28 with a refused member the others are refused with `transaction`; nothing of it is done")
    func refusedUnit() throws {
        let server = try TestServer()
        let changes =
            unit([
                server.create("k1", 1, "board", "b1"), server.update("k2", 2, "board", "none", ["x": (1, 2)]),
                server.create("k3", 3, "list", "l1", ["idBoard": "b1"]),
            ]) + [server.create("k4", 4, "board", "b4"), server.create("k5", 5, "list", "l5", ["idBoard": "b1"])]
        let answer = try server.sync("d", changes)
        #expect(answer.result("k1")["error"]["code"] == "transaction")
        #expect(answer.result("k2")["error"]["code"] == "notFound")
        #expect(answer.result("k3")["error"]["code"] == "transaction")
        #expect(answer.result("k4")["version"] == 1)
        #expect(answer.verdict("k5") == "blocked")
        #expect(try server.sync("e").records.count == 1)
        #expect(
            try server.sync("d", Array(changes.prefix(3)), from: 1).results.allSatisfy { $0["verdict"] == "duplicate" })
    }

    @Test("DAT-28 with a member in conflict, or blocked, the others are blocked by it")
    func waitingUnit() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["t": "A"], at: -100)])
        let changes = unit([
            server.create("k2", 2, "board", "b2"),
            server.update("k3", 3, "board", "b1", ["t": ("X", "Y")], rule: "check"),
        ])
        let answer = try server.sync("d", changes + [server.update("k4", 4, "board", "b2", ["n": (.null, 1)])], from: 1)
        #expect(answer.result("k2") == ["changeID": "k2", "verdict": "blocked", "by": "k3"])
        #expect(answer.verdict("k3") == "conflict")
        #expect(answer.result("k4")["by"] == "k3")
        #expect(answer.version == 1)
        let held = try server.sync(
            "d", [server.update("x", 9, "board", "b1", ["t": ("X", "Y")], rule: "check")] + changes, from: 1)
        #expect(held.verdict("x") == "conflict")
        #expect(held.result("k2")["by"] == "x")
        #expect(held.result("k3")["by"] == "x")
    }

    @Test("DAT-28 a conflict in a unit tells the record that stands, not the one that the undone unit had made")
    func conflictOfAnUndoneUnit() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["t": "A", "n": "old"], at: -100)])
        let changes = unit([
            server.update("k2", 2, "board", "b1", ["n": ("old", "never")]),
            server.update("k3", 3, "board", "b1", ["t": ("X", "Y")], rule: "check"),
        ])
        let record = try server.sync("d", changes, from: 1).result("k3")["record"]
        #expect(record["version"] == 1)
        #expect(record["fields"]["n"] == "old")
    }

    @Test("DAT-28 a check against what its own unit creates is refused: no record stands that it could tell")
    func conflictOverTheUnitsOwnCreate() throws {
        let server = try TestServer()
        let changes = unit([
            server.create("k1", 1, "board", "b1", ["t": "A"]),
            server.update("k2", 2, "board", "b1", ["t": ("X", "Y")], rule: "check"),
        ])
        let answer = try server.sync("d", changes)
        #expect(answer.result("k1")["error"]["code"] == "transaction")
        #expect(answer.result("k2")["error"]["code"] == "invalid")
        #expect(try server.sync("e").records.isEmpty)
    }

    @Test("a unit that does not stand together is never done")
    func dividedUnit() throws {
        let server = try TestServer()
        let pair = unit([server.create("k1", 1, "board", "b1"), server.create("k2", 2, "board", "b2")])
        let answer = try server.sync("d", [pair[0], server.create("k3", 3, "board", "b3"), pair[1]])
        #expect(answer.result("k1")["error"]["code"] == "transaction")
        #expect(answer.verdict("k3") == "applied")
        #expect(answer.result("k2")["error"]["code"] == "transaction")
    }

    @Test("DAT-28 no page divides a unit")
    func pagedUnit() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("a", 1, "board", "a")])
        try server.sync("d", unit((0..<3).map { server.create("u\($0)", Int64($0 + 2), "board", "u\($0)") }))
        try server.sync("d", [server.create("z", 9, "board", "z")])
        var checkpoint: Int64 = 0
        var pages: [[String]] = []
        repeat {
            let page = try server.sync("e", from: checkpoint, ["limit": 2])
            pages.append(page.records.compactMap { $0["id"].string })
            checkpoint = page.version
            if page["hasMore"] == false { break }
        } while pages.count < 10
        #expect(pages == [["a"], ["u0", "u1", "u2"], ["z"]])
    }
}
