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

    @Test(
        "a union over what is no set tells what it replaced",
        arguments: ["x", 7, true, ["a": 1]] as [FieldValue])
    func unionOverAnother(_ value: FieldValue) throws {
        let server = try board(["tags": value])
        let put = server.update("k2", 2, "board", "b1", ["tags": (.null, ["a"])], rule: "union", at: -500)
        let answer = try server.sync("e", [put], from: 1)
        #expect(answer.verdict("k2") == "applied")
        #expect(answer.result("k2")["overwrote"] == ["tags": value])
        #expect(try field("tags", server) == ["a"])
        let more = server.update("k3", 3, "board", "b1", ["tags": (["a"], ["a", "b"])], rule: "union", at: -400)
        let next = try server.sync("e", [more], from: 2)
        #expect(next.verdict("k3") == "applied")
        #expect(next.result("k3")["overwrote"] == .null)
        #expect(try field("tags", server) == ["a", "b"])
    }

    @Test("so does one over what sums have made, which then have nothing to add to")
    func unionOverSums() throws {
        let server = try board(["n": 1])
        try server.sync("d", [server.update("s", 2, "board", "b1", ["n": (1, 3)], rule: "sum", at: -600)], from: 1)
        let put = server.update("k2", 2, "board", "b1", ["n": (.null, ["a"])], rule: "union", at: -500)
        let answer = try server.sync("e", [put], from: 2)
        #expect(answer.verdict("k2") == "applied")
        #expect(answer.result("k2")["overwrote"] == ["n": 3])
        #expect(try field("n", server) == ["a"])
        let sum = server.update("s2", 3, "board", "b1", ["n": (3, 4)], rule: "sum", at: -400)
        #expect(try server.sync("d", [sum], from: 3).result("s2")["error"]["code"] == "invalid")
    }

    @Test(
        "a reference takes no sum and no union, not even of nothing",
        arguments: [
            ("sum", 5, nil), ("sum", nil, 1), ("union", ["x"], nil), ("union", nil, ["l2"]), ("union", nil, nil),
        ] as [(String, FieldValue, FieldValue)])
    func references(_ rule: String, _ old: FieldValue, _ new: FieldValue) throws {
        let server = try board([:])
        try server.sync(
            "d",
            [
                server.create("k2", 2, "list", "l1", ["idBoard": "b1"], at: -900),
                server.create("k3", 3, "card", "c1", ["idList": "l1"], at: -800),
                server.create("k4", 4, "card", "c2", [:], at: -800),
            ], from: 1)
        for (index, card) in ["c1", "c2"].enumerated() {
            let change = server.update("x\(index)", Int64(index + 5), "card", card, ["idList": (old, new)], rule: rule)
            let answer = try server.sync("d", [change], from: 4)
            #expect(answer.result("x\(index)")["error"]["code"] == "invalid", "\(card)")
            #expect(answer.result("x\(index)")["error"]["field"] == "idList")
        }
        #expect(try server.sync("e").record("c1")?["fields"]["idList"] == "l1")
    }

    @Test("sums commute: a total that fits is exact, whichever of them came first", arguments: [false, true])
    func totals(isLate: Bool) throws {
        let server = try board(["n": 0])
        let most = FieldValue.int(.max)
        var sums = [
            server.update("s1", 2, "board", "b1", ["n": (0, 5)], rule: "sum", at: -900),
            server.update("s2", 3, "board", "b1", ["n": (0, most)], rule: "sum", at: -800),
            server.update("s3", 4, "board", "b1", ["n": (10, 0)], rule: "sum", at: -700),
        ]
        // The first to come makes room for the others.
        sums = isLate ? [sums[2], sums[1], sums[0]] : [sums[2], sums[0], sums[1]]
        for (index, sum) in sums.enumerated() {
            #expect(try server.sync("d", [sum], from: Int64(index + 1)).results.first?["verdict"] == "applied")
            try server.restart()
        }
        #expect(try field("n", server) == .int(.max - 5))
    }

    @Test("of many sums the oldest are one total, exact beyond 64 bits; a total beyond them shows the end of the range")
    func manyTotals() throws {
        let server = try board(["n": 0])
        let half = FieldValue.int(.max / 2)
        var changes: [FieldValue] = []
        // By their stamps first all that add and then all that take away; as they come, one after the other.
        for index in 0..<600 {
            let (key, at) = ("s\(index)", index % 2 == 0 ? Int64(index) - 9_000 : Int64(index) - 5_000)
            let values: (FieldValue, FieldValue) = index % 2 == 0 ? (0, half) : (half, 0)
            changes.append(server.update(key, Int64(index + 2), "board", "b1", ["n": values], rule: "sum", at: at))
        }
        #expect(try server.sync("d", changes, from: 1).results.allSatisfy { $0["verdict"] == "applied" })
        try server.restart()
        #expect(try field("n", server) == 0)
        let high = server.update("p", 1, "board", "b1", ["n": (0, .int(.max))], at: -9_500)
        try server.sync("e", [high], from: 601)
        #expect(try field("n", server) == .int(.max))
        let more = server.update("m", 2, "board", "b1", ["n": (0, 1)], rule: "sum", at: -100)
        #expect(try server.sync("e", [more], from: 602).result("m")["error"]["code"] == "invalid")
        let less = server.update("l", 3, "board", "b1", ["n": (1, 0)], rule: "sum", at: -100)
        #expect(try server.sync("e", [less], from: 602).verdict("l") == "applied")
        #expect(try field("n", server) == .int(.max - 1))
    }
}
