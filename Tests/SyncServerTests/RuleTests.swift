import SyncCore
import Testing

@testable import SyncServer

@Suite("Rules: sum, union, check")
struct RuleTests {
    private func board(_ values: [String: FieldValue]) throws -> TestServer {
        let server = try TestServer()
        try server.sync("dev-1", [server.create("k1", 1, "board", "b1", values, at: -10_000)])
        return server
    }

    private func field(_ name: String, _ server: TestServer) throws -> FieldValue {
        try server.sync("reader").record("b1")?["fields"][name] ?? .null
    }

    @Test("sums add up, whatever the devices thought the value was")
    func sums() throws {
        let server = try board(["n": 10])
        let one = try server.sync(
            "dev-1", [server.update("k2", 2, "board", "b1", ["n": (10, 13)], rule: "sum", at: -500)], from: 1)
        let two = try server.sync(
            "dev-2", [server.update("k1", 1, "board", "b1", ["n": (10, 9)], rule: "sum", at: -900)], from: 1)
        #expect(one.verdict("k2") == "applied")
        #expect(two.verdict("k1") == "applied")
        #expect(two.record("b1")?["fields"]["n"] == 12, "the page tells what the device cannot know")
    }

    @Test("a plain write that comes late drops only the sums before it")
    func lateWrite() throws {
        let server = try board(["n": 0])
        let sums = [
            server.update("s1", 2, "board", "b1", ["n": (0, 1)], rule: "sum", at: -900),
            server.update("s2", 3, "board", "b1", ["n": (1, 3)], rule: "sum", at: -700),
        ]
        try server.sync("dev-1", sums, from: 1)
        let late = try server.sync("dev-2", [server.update("k1", 1, "board", "b1", ["n": (0, 100)], at: -800)], from: 1)
        #expect(late.verdict("k1") == "merged")
        #expect(try field("n", server) == 102)
    }

    @Test(
        "what is no number, or goes beyond 64 bits, is invalid",
        arguments: [
            (FieldValue.string("x"), FieldValue.int(1)), (.int(1), .bool(true)), (.int(.min), .int(.max)),
            (.int(0), .int(.max)),
        ])
    func invalidSums(_ old: FieldValue, _ new: FieldValue) throws {
        let server = try board(["n": 5])
        let answer = try server.sync("dev-1", [server.update("k2", 2, "board", "b1", ["n": (old, new)], rule: "sum")])
        #expect(answer.verdict("k2") == "rejected")
        #expect(answer.result("k2")["error"]["code"] == "invalid")
        #expect(answer.result("k2")["error"]["field"] == "n")
        #expect(try field("n", server) == 5)
    }

    @Test("what a union took out stays out when so many were taken out that the server forgets the takings-out")
    func manyTakenOut() throws {
        let server = try TestServer()
        let all = (0..<5_000).map { FieldValue.int($0) }
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["tags": .array(all)], at: -100)])
        try server.sync(
            "d",
            [
                server.update(
                    "k2", 2, "board", "b1", ["tags": (.array(all), .array(Array(all.suffix(500))))], rule: "union")
            ],
            from: 1)
        #expect(try server.sync("e").records.first?["fields"]["tags"] == .array(Array(all.suffix(500))))
    }

    @Test("a union puts in and takes out, in order of first putting in")
    func unions() throws {
        let server = try board(["tags": ["a", "b"]])
        try server.sync(
            "dev-1",
            [server.update("k2", 2, "board", "b1", ["tags": (["a", "b"], ["b", "y"])], rule: "union", at: -100)],
            from: 1)
        let other = try server.sync(
            "dev-2",
            [server.update("k1", 1, "board", "b1", ["tags": (["a", "b"], ["a", "b", "x"])], rule: "union", at: -200)],
            from: 1)
        #expect(other.verdict("k1") == "applied")
        #expect(try field("tags", server) == ["b", "x", "y"])
    }

    @Test("an element put in after it was taken out is in; 1 and 1.0 are one element")
    func lastWriterOfAnElement() throws {
        let server = try board(["tags": [1, "b"]])
        try server.sync(
            "dev-1", [server.update("k2", 2, "board", "b1", ["tags": ([1], [])], rule: "union", at: -100)], from: 1)
        let lost = try server.sync(
            "dev-2", [server.update("k1", 1, "board", "b1", ["tags": ([], [1.0])], rule: "union", at: -200)], from: 1)
        #expect(lost.verdict("k1") == "merged")
        #expect(try field("tags", server) == ["b"])
        try server.sync(
            "dev-2", [server.update("k2", 2, "board", "b1", ["tags": ([], [1])], rule: "union", at: -50)], from: 1)
        #expect(try field("tags", server) == [1, "b"])
    }

    @Test(
        "a union of what is no array of distinct scalars is invalid",
        arguments: [["a", "a"], [["x"]], "a"] as [FieldValue])
    func invalidUnions(_ new: FieldValue) throws {
        let server = try board(["tags": ["a"]])
        let answer = try server.sync(
            "dev-1", [server.update("k2", 2, "board", "b1", ["tags": (["a"], new)], rule: "union")])
        #expect(answer.result("k2")["error"]["code"] == "invalid")
    }

    @Test("check is done over the value that was seen, or when it is there already, whatever the stamp")
    func check() throws {
        let server = try board(["text": "A"])
        let before = try server.sync(
            "dev-2", [server.update("k1", 1, "board", "b1", ["text": ("A", "B")], rule: "check", at: -20_000)], from: 1)
        #expect(before.verdict("k1") == "applied")
        let same = try server.sync(
            "dev-3", [server.update("k1", 1, "board", "b1", ["text": ("X", "B")], rule: "check", at: -30_000)], from: 1)
        #expect(same.verdict("k1") == "applied")
        #expect(try field("text", server) == "B")
    }

    @Test("over another value it is a conflict: nothing is done, no key is kept, the current record is told")
    func conflict() throws {
        let server = try board(["text": "A", "name": "n"])
        let change = server.change(
            "k2", 2, "update", "board", "b1",
            ["text": ["old": "X", "new": "Y", "rule": "check"], "name": ["old": "n", "new": "m"]])
        let answer = try server.sync("dev-1", [change], from: 1)
        #expect(answer.verdict("k2") == "conflict")
        #expect(answer.result("k2")["record"]["fields"] == ["text": "A", "name": "n"])
        #expect(answer.result("k2")["record"]["version"] == 1)
        try server.sync("dev-2", [server.update("k1", 1, "board", "b1", ["text": ("A", "X")])], from: 1)
        #expect(try server.sync("dev-1", [change], from: 2).verdict("k2") == "applied")
    }
}
