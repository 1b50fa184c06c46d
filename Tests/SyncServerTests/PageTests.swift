import GRDB
import SyncCore
import Testing

@testable import SyncServer

@Suite("Pages, scopes, checksums")
struct PageTests {
    @Test("DL-08 pages bring every record once, in version order, and say how far they are complete")
    func pages() throws {
        let server = try TestServer()
        try server.sync("d", (1...25).map { server.create("k\($0)", Int64($0), "board", "b\($0)") })
        var checkpoint: Int64 = 0
        var seen: [Int64] = []
        var count = 0
        while true {
            let page = try server.sync("e", from: checkpoint, ["limit": 4])
            #expect(page.records.count <= 4)
            #expect(page["count"] == .int(Int64(page.records.count)))
            seen += page.records.compactMap { $0["version"].int }
            #expect(page.version > checkpoint)
            checkpoint = page.version
            count += 1
            if page["hasMore"] == false { break }
        }
        #expect(seen == Array(1...25))
        #expect(count == 7)
        #expect(checkpoint == 25)
    }

    @Test(
        "a page costs what it brings, not what the account has: its records are found by version",
        arguments: [PageReader.ofAccount, PageReader.ofUnit, PageReader.ofRoot].map(\.description))
    func pagesByIndex(sql: String) throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1")])
        let plan = try DatabaseQueue(path: server.path).read { db in
            let places = sql.count(where: { $0 == "?" })
            return try Row.fetchAll(
                db, sql: "EXPLAIN QUERY PLAN \(sql)", arguments: StatementArguments(repeatElement(1, count: places))
            ).map { $0["detail"] as String }
        }
        #expect(plan.count == 1, "nothing is sorted: \(plan)")
        #expect(plan.first?.contains("version>?") ?? false, "\(plan)")
    }

    @Test("a page from the checkpoint leaves out what follows from the request's own changes, and nothing else")
    func echoes() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["n": "A", "m": "A"], at: -1_000)])
        try server.sync("e", [server.update("k1", 1, "board", "b1", ["m": ("A", "B")], at: -900)], from: 1)
        let behind = try server.sync(
            "d", [server.update("k2", 2, "board", "b1", ["n": ("A", "C")], at: -100, ["baseVersion": 1])], from: 1)
        #expect(behind.verdict("k2") == "applied")
        #expect(behind.record("b1")?["fields"] == ["n": "C", "m": "B"], "its base was not the present one")
        let chain = try server.sync(
            "d",
            [
                server.update("k3", 3, "board", "b1", ["n": ("C", "D")], at: -50, ["baseVersion": 3]),
                server.update("k4", 4, "board", "b1", ["n": ("D", "E")], at: -40, ["baseVersion": 3]),
            ], from: 3)
        #expect(chain.records.isEmpty)
        #expect(chain.result("k4")["version"] == 5)
        #expect(chain.version == 5)
    }

    @Test("Seed 2031: a full pass leaves nothing out, since a base version may be of another history")
    func fullPass() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["n": "A", "m": "A"], at: -1_000)])
        let changes = [
            server.update("k1", 1, "board", "b1", ["n": ("A", "B")], at: -100, ["baseVersion": 1]),
            server.create("k2", 2, "board", "b2", ["n": "A"], at: -90),
        ]
        let answer = try server.sync("e", changes, from: 0, ["fullPass": true])
        #expect(answer.verdict("k1") == "applied")
        #expect(answer.record("b1")?["fields"] == ["n": "B", "m": "A"])
        #expect(answer.record("b2")?["fields"] == ["n": "A"])
        #expect(answer.version == 3)
    }

    @Test("Seed 10734: a verdict's version says nothing of what others wrote below it, if its page never came")
    func verdictWithoutPage() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["n": "A", "m": "A"], at: -1_000)])
        try server.sync("e", [server.update("k1", 1, "board", "b1", ["n": ("A", "B")], at: -900, ["baseVersion": 1])])
        // Its answer is settled, and the device ends before it has the page.
        try server.sync("d", [server.update("k2", 2, "board", "b1", ["m": ("A", "B")], at: -800)], from: 1)
        let next = server.update("k3", 3, "board", "b1", ["m": ("B", "C")], at: -700, ["baseVersion": 3])
        let answer = try server.sync("d", [next], from: 1)
        #expect(answer.record("b1")?["fields"] == ["n": "B", "m": "C"])
        #expect(answer.version == 4)
        // One that has all up to that version knows what comes of its next write.
        let known = server.update("k4", 4, "board", "b1", ["m": ("C", "D")], at: -600, ["baseVersion": 4])
        #expect(try server.sync("d", [known], from: 4).records.isEmpty)
    }

    private func twoBoards() throws -> TestServer {
        let server = try TestServer()
        try server.sync(
            "d",
            [
                server.create("t1", 1, "board", "a", at: -10_000), server.create("t2", 2, "board", "b", at: -10_000),
                server.create("t3", 3, "list", "la", ["idBoard": "a"], at: -10_000),
                server.create("t4", 4, "list", "lb", ["idBoard": "b"], at: -10_000),
                server.create("t5", 5, "card", "c", ["idList": "la"], at: -10_000),
                server.create("t6", 6, "comment", "m", ["idCard": "c"], at: -10_000),
            ])
        return server
    }

    private func scoped(_ server: TestServer, _ scopes: [String: FieldValue], _ more: [String: FieldValue] = [:]) throws
        -> Answer
    {
        try server.sync("e", [], from: 0, ["scopes": .object(scopes)].merging(more) { $1 })
    }

    @Test("DL-21 each scope has its own checkpoint; an unknown one is empty")
    func scopes() throws {
        let server = try twoBoards()
        #expect(try scoped(server, ["board:a": 0]).records.map { $0["id"] } == ["a", "la", "c", "m"])
        #expect(try scoped(server, ["board:a": 3, "board:b": 0]).records.map { $0["id"] } == ["b", "lb", "c", "m"])
        #expect(try scoped(server, ["board:none": 0, "x": 0, "card:c": 0]).records.isEmpty)
        #expect(try scoped(server, [:]).records.isEmpty)
        let page = try scoped(server, ["board:a": 0, "board:b": 4], ["limit": 2])
        #expect(page["hasMore"] == true)
        #expect(page.version == 3)
    }

    @Test("DL-13 what moves to another root is gone from the one, and enters the other with everything under it")
    func gone() throws {
        let server = try twoBoards()
        try server.sync(
            "d", [server.update("k1", 7, "card", "c", ["idList": ("la", "lb")], at: -100, ["baseVersion": 5])], from: 6)
        let left = try scoped(server, ["board:a": 6])
        #expect(
            left.records == [
                ["entity": "card", "id": "c", "version": 7, "gone": true],
                ["entity": "comment", "id": "m", "version": 8, "gone": true],
            ])
        #expect(try scoped(server, ["board:b": 6]).records.map { $0["id"] } == ["c", "m"])
        let both = try scoped(server, ["board:a": 6, "board:b": 6])
        #expect(both.records.map { $0["gone"] } == [.null, .null])
        #expect(try scoped(server, ["board:a": 0]).records.map { $0["id"] } == ["a", "la"])
        try server.sync("d", [server.update("k2", 8, "card", "c", ["idList": ("lb", "la")], at: -50)], from: 8)
        #expect(try scoped(server, ["board:a": 6]).records.allSatisfy { $0["gone"] == .null })
        #expect(try scoped(server, ["board:b": 8]).records.allSatisfy { $0["gone"] == true })
    }

    @Test("DL-13 what left one root asked for and then another goes on from page to page, however much it is")
    func goneTwice() throws {
        let server = try twoBoards()
        try server.sync("d", [server.create("t7", 7, "board", "z", at: -10_000)])
        let cards = (0..<1_600).map { server.create("c\($0)", Int64($0 + 10), "card", "x\($0)", ["idList": "la"]) }
        for start in stride(from: 0, to: 1_600, by: 800) { try server.sync("d", Array(cards[start..<(start + 800)])) }
        let head = try server.service.currentVersion(account: "a")
        try server.sync("d", [server.update("k1", 3_000, "list", "la", ["idBoard": ("a", "b")], at: 10)])
        try server.sync("d", [server.update("k2", 3_001, "list", "la", ["idBoard": ("b", "z")], at: 20)])
        var checkpoint = head
        var left: Set<String> = []
        while true {
            let page = try scoped(server, ["board:a": .int(checkpoint), "board:b": .int(checkpoint)])
            for record in page.records where record["gone"] == true { left.insert(record["id"].string ?? "") }
            guard page["hasMore"] == true else { break }
            try #require(page.version > checkpoint, "more without progress")
            checkpoint = page.version
        }
        // The list, its cards, the one that was there, and its comment.
        #expect(left.count == 1_603)
    }

    @Test(
        "DAT-28 no page divides a unit, also where one of its records left the scope, or a delete takes thousands along"
    )
    func units() throws {
        let server = try twoBoards()
        let unit: [String: FieldValue] = ["transaction": "u"]
        try server.sync(
            "d",
            [
                server.update("k1", 7, "board", "a", ["n": (.null, 1)], at: -100, unit),
                server.update("k2", 8, "card", "c", ["idList": ("la", "lb")], at: -100, unit),
                server.update("k3", 9, "list", "la", ["n": (.null, 1)], at: -100, unit),
            ], from: 6)
        let page = try scoped(server, ["board:a": 6], ["limit": 1])
        #expect(page.records.map { $0["id"] } == ["a", "c", "m", "la"])
        #expect(page.records.map { $0["gone"] } == [.null, true, true, .null])
        #expect(page["hasMore"] == false)

        // More than a page reads at once, all within one unit, and something after it.
        let cards = (0..<2_500).map { server.create("c\($0)", Int64($0 + 10), "card", "x\($0)", ["idList": "la"]) }
        for start in stride(from: 0, to: 2_500, by: 500) { try server.sync("d", Array(cards[start..<(start + 500)])) }
        let head = try server.service.currentVersion(account: "a")
        try server.sync(
            "d",
            [
                server.update("k4", 3_000, "board", "a", ["n": (1, 2)], at: 50, unit),
                server.delete("k5", 3_001, "list", "la", at: 50, unit),
                server.create("k6", 3_002, "list", "after", ["idBoard": "a"], at: 60),
            ], from: head)
        let long = try scoped(server, ["board:a": .int(head)], ["limit": 3])
        #expect(long.records.count == 2_502 && long["hasMore"] == true)
        let rest = try scoped(server, ["board:a": .int(long.version)], ["limit": 3])
        #expect(rest.records.map { $0["id"] } == ["after"] && rest["hasMore"] == false)
    }

    @Test("OBS-09 the checksum is the sum over live records of the scopes, told only on the last page")
    func checksum() throws {
        let server = try twoBoards()
        let all = try server.sync("e", [], from: 0, ["checksum": true])
        var sum: UInt64 = 0
        for record in all.records {
            let text = "\(record["entity"].string ?? "")\n\(record["id"].string ?? "")\n\(record["version"].int ?? 0)"
            sum &+= text.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        }
        let hex = String(sum, radix: 16)
        #expect(all["checksum"].string == String(repeating: "0", count: 16 - hex.count) + hex)
        #expect(try server.sync("e", [], from: 0, ["checksum": true, "limit": 2])["checksum"] == .null)
        let part = try scoped(server, ["board:a": 0, "board:b": 0], ["checksum": true])
        #expect(part["checksum"] == all["checksum"])
        #expect(try scoped(server, ["board:a": 0], ["checksum": true])["checksum"] != all["checksum"])
    }
}
