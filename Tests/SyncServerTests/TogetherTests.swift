import SyncCore
import Testing

@testable import SyncServer

@Suite("Requests that share a commit")
struct TogetherTests {
    private struct Stopped: Error {}

    /// Throws once, at the statement of that number.
    private final class Stop: @unchecked Sendable {
        // Touched by the service's calls alone, which take turns.
        var left: Int

        init(at number: Int) { left = number }

        func pass() throws {
            left -= 1
            if left == 0 { throw Stopped() }
        }
    }

    private func call(_ server: TestServer, _ device: String, _ changes: [FieldValue], account: String = "a") throws
        -> SyncCall
    {
        let request: [String: FieldValue] = [
            "protocol": 1, "cycleID": .string(device), "deviceID": .string(device), "lastSyncVersion": 0,
            "dirtyRecords": .array(changes),
        ]
        return SyncCall(account: account, body: try FieldValue.object(request).json())
    }

    @Test("they are decided in their order, each as if alone, and each gets its own answer")
    func order() throws {
        let server = try TestServer()
        let replies = server.service.sync([
            try call(server, "d", [server.create("k1", 1, "board", "b1", ["name": "A"])]),
            SyncCall(account: "a", body: Array("{".utf8)),
            try call(server, "e", [server.create("k1", 1, "board", "b1", ["name": "B"])]),
            try call(server, "f", [server.create("k1", 1, "board", "b2")], account: "b"),
            try call(server, "d", [server.create("k1", 1, "board", "b1", ["name": "A"])]),
        ])
        #expect(replies.map(\.status) == [200, 400, 200, 200, 200])
        #expect(try Answer(replies[0]).verdict("k1") == "applied")
        #expect(try Answer(replies[2]).result("k1")["error"]["code"] == "idTaken")
        #expect(try Answer(replies[2]).records.count == 1, "the page has what the first one made")
        #expect(try Answer(replies[3]).version == 1)
        #expect(try Answer(replies[4]).verdict("k1") == "duplicate")
    }

    @Test("SEC-22 of requests that are long to do, one turn answers the first; the others are not begun")
    func turns() throws {
        let server = try TestServer { $0.limits.turnRecords = 2 }
        let calls = [
            SyncCall(account: "a", body: Array("{".utf8)),
            try call(server, "d", [server.create("k1", 1, "board", "b1"), server.create("k2", 2, "board", "b2")]),
            SyncCall(account: "a", body: Array("{".utf8)),
            try call(server, "e", [server.create("k3", 1, "board", "b3")]),
            try call(server, "f", [server.create("k4", 1, "board", "b4")]),
        ]
        #expect(server.service.syncFirst(of: calls).map(\.status) == [400, 200, 400])
        #expect(try server.sync("z").version == 2)
        #expect(server.service.syncFirst(of: Array(calls[3...])).map(\.status) == [200])
        #expect(server.service.syncFirst(of: []).isEmpty)
        let pulls = try ["x", "y"].map { try call(server, $0, []) }
        #expect(server.service.syncFirst(of: pulls).map(\.status) == [200], "a page is work, too")
    }

    @Test("SEC-22 where no record has room in a turn, each turn answers one request all the same", arguments: [0, -1])
    func leastTurn(records: Int) throws {
        let server = try TestServer { $0.limits.turnRecords = records }
        var calls = [
            try call(server, "d", [server.create("k1", 1, "board", "b1")]),
            try call(server, "e", [server.create("k2", 1, "board", "b2")]), try call(server, "x", []),
            try call(server, "y", []),
        ]
        while !calls.isEmpty {
            let replies = server.service.syncFirst(of: calls)
            try #require(replies.map(\.status) == [200])
            calls.removeFirst()
        }
        #expect(try server.sync("z").version == 2)
    }

    @Test("PRC-03 one that fails at any statement is 503 and leaves nothing; its neighbours stand", arguments: 1...14)
    func failure(statement: Int) throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k0", 1, "board", "b0")])
        let stop = Stop(at: statement)
        try server.service.onStatement { try stop.pass() }
        let calls = [
            try call(server, "d", [server.create("k1", 2, "board", "b1", ["name": "A"])]),
            try call(server, "e", [server.create("k1", 1, "board", "b2", ["name": "B"])]),
        ]
        let replies = server.service.sync(calls)
        try server.service.onStatement(nil)
        #expect(replies.contains { $0.status == 200 })
        #expect(replies.allSatisfy { ($0.status == 503) == ($0.cause != nil) })
        for (call, reply) in zip(calls, replies) {
            let again = try Answer(server.service.sync(account: call.account, body: call.body))
            #expect(again.verdict("k1") == (reply.status == 200 ? "duplicate" : "applied"), "\(reply.status)")
        }
        #expect(try server.sync("z").version == 3)
    }

    @Test("a known key under a later sequence is keyReused, whatever would have become of the change")
    func laterSequence() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["name": "A"])])
        let neighbour = server.create("k2", 6, "board", "b2")
        let again = server.create("k1", 5, "board", "b3", ["name": "C"])
        let answer = try server.sync("d", [again, neighbour])
        #expect(answer.result("k1")["error"]["code"] == "keyReused")
        #expect(answer.verdict("k2") == "applied")
        let check = server.update("k1", 9, "board", "b1", ["name": ("X", "Y")], rule: "check")
        #expect(try server.sync("d", [check]).result("k1")["error"]["code"] == "keyReused")
        #expect(try server.sync("z").records.compactMap { $0["id"].string } == ["b1", "b2"])
    }

    @Test("one that repeats a change begins again by itself: its new ones are done once, its neighbours stand")
    func repeated() throws {
        let server = try TestServer()
        try server.sync("d", [server.create("k1", 1, "board", "b1", ["name": "A"])])
        // Under a later sequence, so that only the stored key tells; the first of each is new, and done before that shows.
        let again = server.create("k1", 5, "board", "b1", ["name": "A"])
        let replies = server.service.sync([
            try call(server, "e", [server.create("k1", 1, "board", "b2")]),
            try call(server, "d", [server.create("k4", 4, "board", "b3"), again]),
            try call(server, "f", [server.create("k1", 1, "board", "b4")]),
        ])
        let answers = try replies.map { try Answer($0) }
        #expect(answers[1].verdict("k4") == "applied")
        #expect(answers[1].result("k1")["error"]["code"] == "keyReused")
        #expect(answers.map(\.version) == [2, 3, 4], "no version is lost")
        #expect(try server.sync("z").records.compactMap { $0["id"].string } == ["b1", "b2", "b3", "b4"])
    }
}
