import SyncCore
import Testing

@testable import SyncServer

@Suite("Verdicts over a real file")
struct VerdictTests {
    @Test("a create is applied, answered once, and read by the other device")
    func createAndRead() throws {
        let server = try TestServer()
        let first = try server.sync("dev-1", [server.create("k1", 1, "board", "b1", ["name": "Home"])])
        #expect(first.verdict("k1") == "applied")
        #expect(first.result("k1")["version"] == 1)
        #expect(first.version == 1)
        #expect(first.records.isEmpty, "the device knows its own create")
        let second = try server.sync("dev-2")
        #expect(second.record("b1")?["fields"] == ["name": "Home"])
        #expect(second["count"] == 1)
        #expect(second["dataset"] == first["dataset"])
    }

    @Test("NET-01 a repeated change is a duplicate with the first verdict's members")
    func duplicate() throws {
        let server = try TestServer()
        let change = server.create("k1", 1, "board", "b1", ["name": "Home"])
        try server.sync("dev-1", [change])
        let again = try server.sync("dev-1", [change], from: 0)
        #expect(again.verdict("k1") == "duplicate")
        #expect(again.result("k1")["first"] == "applied")
        #expect(again.result("k1")["version"] == 1)
        #expect(again.version == 1)
        #expect(again.records.count == 1)
    }

    @Test("the last writer wins each field; the loser is merged, the winner tells what it replaced")
    func lastWriter() throws {
        let server = try TestServer()
        try server.sync("dev-1", [server.create("k1", 1, "board", "b1", ["name": "A", "desc": "d"], at: -1000)])
        try server.sync("dev-1", [server.update("k2", 2, "board", "b1", ["name": ("A", "B")], at: -500)], from: 1)
        let late = try server.sync(
            "dev-2", [server.update("k1", 1, "board", "b1", ["name": ("A", "C"), "desc": ("d", "e")], at: -600)],
            from: 1)
        #expect(late.verdict("k1") == "merged")
        #expect(late.result("k1")["record"]["fields"] == ["name": "B", "desc": "e"])
        let newer = try server.sync("dev-2", [server.update("k2", 2, "board", "b1", ["name": ("A", "D")])], from: 1)
        #expect(newer.verdict("k2") == "applied")
        #expect(newer.result("k2")["overwrote"] == ["name": "B"])
    }
}
