import SyncCore
import Testing

@testable import SyncServer

@Suite("Keys, sequences, settled")
struct KeyTests {
    @Test("the key with other content is keyReused; baseVersion and deviceID are not compared")
    func keyReused() throws {
        let server = try TestServer()
        let change = server.create("k1", 1, "board", "b1", ["name": "A"])
        try server.sync("d", [change])
        let other = try server.sync("d", [server.create("k1", 1, "board", "b1", ["name": "B"])])
        #expect(other.result("k1")["error"]["code"] == "keyReused")
        let copied = server.create("k1", 1, "board", "b1", ["name": "A"], ["deviceID": "d", "baseVersion": 7])
        #expect(try server.sync("e", [copied]).verdict("k1") == "duplicate")
        #expect(try server.sync("d", [change]).verdict("k1") == "duplicate", "the key still means the first content")
    }

    @Test("the same fields in another order and notation are the same content")
    func sameContent() throws {
        let server = try TestServer()
        let stamp = server.stamp(0)
        func body(_ fields: String) -> [UInt8] {
            Array(
                """
                {"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[{"changeID":"k1",
                "sequence":1,"entity":"board","id":"b1","operation":"create","stamp":"\(stamp)","fields":\(fields)}]}
                """.utf8)
        }
        _ = server.service.sync(account: "a", body: body(#"{"a":{"new":1},"b":{"new":{"x":1,"y":2}}}"#))
        let again = server.service.sync(account: "a", body: body(#"{"b":{"new":{"y":2,"x":1}} , "a":{"new":1.0}}"#))
        #expect(try Answer(again).verdict("k1") == "duplicate")
    }

    @Test("SEC-13 DAT-08 another account's or device's key is its own, and so is the id of another account's record")
    func owners() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["name": "A"])])
        #expect(try server.sync("e", [server.create("k1", 1, "board", "b2", ["name": "B"])]).verdict("k1") == "applied")
        server.account = "other"
        let answer = try server.sync("d", [server.create("k1", 1, "board", "b1", ["name": "C"])])
        #expect(answer.verdict("k1") == "applied")
        #expect(answer.version == 1, "DAT-08 nothing of another account shows, not even in a version")
        #expect(try server.sync("x").records.count == 1)
    }

    @Test("a repeated answer tells a stamp that is not below the first's: an edit after it wins")
    func repeatedStamp() throws {
        let server = try TestServer()
        try server.sync("e", [server.create("k1", 1, "board", "b1", ["name": "A"], at: 30_000)])
        let lost = server.update("k1", 1, "board", "b1", ["name": (.null, "B")], at: 0)
        let first = try server.sync("d", [lost], from: 1)
        #expect(first.verdict("k1") == "merged" && first["stamp"].string == server.stamp(30_000))
        let again = try server.sync("d", [lost], from: 1)
        #expect(again.result("k1")["first"] == "merged" && again["stamp"].string == server.stamp(30_000))
    }

    @Test(
        "a known key among many new changes is told where it stands; each of the others is done once",
        arguments: [0, 7, 8, 15, 19])
    func knownAmongMany(place: Int) throws {
        let server = try TestServer()
        try server.sync("d", [server.create("known", 1, "board", "b")])
        // Above all that the device used, so nobody looks the keys up before the store refuses one.
        let changes = (0..<20).map { index in
            server.create(index == place ? "known" : "k\(index)", Int64(index + 2), "board", "b\(index)")
        }
        let answer = try server.sync("d", changes)
        #expect(answer.result("known")["error"]["code"] == "keyReused")
        #expect(answer.results.count { $0["verdict"] == "applied" } == 19)
        #expect(try server.service.currentVersion(account: "a") == 20)
        #expect(try server.sync("x").records.count == 20)
        let again = try server.sync("d", changes)
        #expect(again.results.count { $0["verdict"] == "duplicate" } == 19)
        #expect(try server.service.currentVersion(account: "a") == 20)
    }

    @Test("a sequence used under another key is invalid, in one request, too")
    func sequences() throws {
        let server = try TestServer()
        let both = try server.sync(
            "d", [server.create("k1", 1, "board", "b1"), server.create("k2", 1, "board", "b2")])
        #expect(both.verdict("k1") == "applied")
        #expect(both.result("k2")["error"]["code"] == "invalid")
        let later = try server.sync("d", [server.create("k3", 1, "board", "b3")])
        #expect(later.result("k3")["error"]["code"] == "invalid")
    }

    @Test("IDS-10 what is settled and repeated is expired; the number outlives the outcomes, and comes first")
    func expired() throws {
        let server = try TestServer()
        let change = server.create("k1", 1, "board", "b1", ["name": "A"])
        try server.sync("d", [change])
        let same = try server.sync("d", [change], from: 1, ["settled": 1])
        #expect(same.result("k1")["error"]["code"] == "expired")
        try server.restart()
        #expect(try server.sync("d", [change], from: 1).result("k1")["error"]["code"] == "expired")
        let copied = server.create("k9", 1, "board", "b9", [:], ["deviceID": "d"])
        #expect(try server.sync("e", [copied], from: 1).result("k9")["error"]["code"] == "expired")
        let lower = try server.sync("d", [server.create("k2", 2, "board", "b2")], from: 1, ["settled": 0])
        #expect(lower.verdict("k2") == "applied")
    }

    @Test("a rejection is decided: it is a duplicate when it comes again")
    func rejectedTwice() throws {
        let server = try TestServer()
        let change = server.update("k1", 1, "board", "none", ["x": (1, 2)])
        try server.sync("d", [change])
        try server.sync("d", [server.create("k2", 2, "board", "none")])
        let again = try server.sync("d", [change], from: 1)
        #expect(again.verdict("k1") == "duplicate")
        #expect(again.result("k1")["first"] == "rejected")
        #expect(again.result("k1")["error"]["code"] == "notFound")
    }
}
