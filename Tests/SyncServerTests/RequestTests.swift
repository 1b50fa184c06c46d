import SyncCore
import Testing

@testable import SyncServer

@Suite("A request's own shape, and what is wrong with one change")
struct RequestTests {
    private func code(_ reply: ServerReply) throws -> FieldValue { try FieldValue(json: reply.body)["code"] }

    @Test(
        "NET-10 what is no request of the contract is malformed",
        arguments: [
            "", "null", "[]", "{", "{}", #"{"protocol":1}"#,
            #"{"protocol":2,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[]}"#,
            #"{"protocol":1,"cycleID":"c","cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[]}"#,
            #"{"protocol":1,"deviceID":"d","lastSyncVersion":0,"dirtyRecords":[]}"#,
            #"{"protocol":1,"cycleID":"c","lastSyncVersion":0,"dirtyRecords":[]}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d d","lastSyncVersion":0,"dirtyRecords":[]}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","dirtyRecords":[]}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":-1,"dirtyRecords":[]}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0.5,"dirtyRecords":[]}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":{}}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[1]}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[{}]}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[],"limit":0}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[],"limit":"9"}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[],"order":"x"}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[],"scopes":[]}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","scopes":{"board:b":-1},"dirtyRecords":[]}"#,
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[]} x"#,
        ])
    func malformed(_ body: String) throws {
        let server = try TestServer()
        let reply = server.service.sync(account: "a", body: Array(body.utf8))
        #expect(reply.status == 400)
        #expect(reply[header: "Content-Type"] == "application/problem+json")
        #expect(try code(reply) == "malformed")
    }

    @Test("unknown members are ignored, whatever they hold; the cycle is echoed")
    func unknownMembers() throws {
        let server = try TestServer()
        let body = #"{"protocol":1,"cycleID":"c 7","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[],"later":1e999}"#
        let reply = server.service.sync(account: "a", body: Array(body.utf8))
        #expect(reply.status == 200)
        #expect(try Answer(reply)["cycleID"] == "c 7")
    }

    @Test("a change told twice and a depth above the limit are the request's fault")
    func requestFaults() throws {
        let server = try TestServer()
        let twice = server.create("k1", 1, "board", "b1")
        #expect(try server.send("d", [twice, twice]).status == 400)
        var deep: FieldValue = 1
        for _ in 0..<61 { deep = [deep] }
        #expect(try server.send("d", [server.create("k2", 2, "board", "b2", ["x": deep])]).status == 400)
        guard case .array(let elements) = deep else { return }
        let fits = try server.sync("d", [server.create("k3", 3, "board", "b3", ["x": elements[0].array[0]])])
        #expect(fits.verdict("k3") == "applied")
        let many = (1...1_001).map { server.create("m\($0)", Int64($0), "board", "m\($0)") }
        #expect(try code(server.send("d", many)) == "tooLarge")
    }

    @Test("SEC-17 stale changes of a large record, whose answer would be huge, are too large together, not apart")
    func verdictBytes() throws {
        let server = try TestServer { $0.limits.verdictBytes = 5_000 }
        let text = FieldValue.string(String(repeating: "x", count: 1_000))
        try server.sync("d", [server.create("k0", 1, "board", "b1", ["text": text])])
        let stale = (1...8).map { number in
            server.update("s\(number)", Int64(number), "board", "b1", ["text": (.null, 1)], at: -1_000)
        }
        let refused = try server.send("e", stale)
        #expect(refused.status == 413)
        #expect(try code(refused) == "tooLarge")
        for half in [stale[..<4], stale[4...]] {
            #expect(try server.sync("e", Array(half)).results.allSatisfy { $0["verdict"] == "merged" }, "undecided")
        }
        #expect(try server.send("e", stale).status == 413, "nor are they repeated together")
        #expect(try server.sync("e", Array(stale[..<4])).results.allSatisfy { $0["verdict"] == "duplicate" })
    }

    @Test("one change is answered however large its record is; of requests decided together one alone is refused")
    func verdictBytesAlone() throws {
        let server = try TestServer { $0.limits.verdictBytes = 500 }
        let text = FieldValue.string(String(repeating: "x", count: 1_000))
        try server.sync("d", [server.create("k0", 1, "board", "b1", ["text": text])])
        func call(_ device: String, _ keys: [String]) throws -> SyncCall {
            let changes = keys.enumerated().map { index, key in
                server.update(key, Int64(index + 1), "board", "b1", ["text": (.null, 1)], at: -1_000)
            }
            let request: FieldValue = [
                "protocol": 1, "cycleID": "c", "deviceID": .string(device), "lastSyncVersion": 0,
                "dirtyRecords": .array(changes),
            ]
            return SyncCall(account: server.account, body: try request.json())
        }
        let replies = server.service.sync([try call("e", ["e1"]), try call("f", ["f1", "f2"]), try call("g", ["g1"])])
        #expect(replies.map(\.status) == [200, 413, 200])
        #expect(try Answer(replies[2]).verdict("g1") == "merged")
    }

    @Test("SEC-22 moves that pass on to very many records, again and again, are too large together, not apart")
    func followedRecords() throws {
        let server = try TestServer { $0.limits.followedRecords = 10 }
        var made = [server.create("b1", 1, "board", "b1"), server.create("b2", 2, "board", "b2")]
        made.append(server.create("l1", 3, "list", "l1", ["idBoard": "b1"]))
        for card in 1...4 {
            made.append(server.create("c\(card)", Int64(3 + card), "card", "c\(card)", ["idList": "l1"]))
        }
        let version = try server.sync("d", made).version
        let moves = (0..<4).map { number in
            server.update(
                "m\(number)", Int64(20 + number), "list", "l1",
                ["idBoard": number % 2 == 0 ? ("b1", "b2") : ("b2", "b1")])
        }
        let refused = try server.send("d", moves)
        #expect(refused.status == 413)
        #expect(try code(refused) == "tooLarge")
        #expect(try server.sync("z").version == version, "nothing of it is done")
        for half in [moves[..<2], moves[2...]] {
            #expect(try server.sync("d", Array(half)).results.allSatisfy { $0["verdict"] == "applied" })
        }
    }

    @Test("one move is done however much is under what moves")
    func followedRecordsAlone() throws {
        let server = try TestServer { $0.limits.followedRecords = 1 }
        try server.sync(
            "d",
            [
                server.create("b1", 1, "board", "b1"), server.create("b2", 2, "board", "b2"),
                server.create("l1", 3, "list", "l1", ["idBoard": "b1"]),
                server.create("c1", 4, "card", "c1", ["idList": "l1"]),
                server.create("c2", 5, "card", "c2", ["idList": "l1"]),
            ])
        let move = server.update("m1", 6, "list", "l1", ["idBoard": ("b1", "b2")])
        #expect(try server.sync("d", [move]).verdict("m1") == "applied")
    }

    @Test(
        "a malformed change is invalid by itself; its neighbours are done",
        arguments: [
            #""stamp":"now""#, #""sequence":0"#, #""sequence":18446744073709551616"#, #""sequence":"1""#,
            #""operation":"upsert""#, #""id":"a b""#, #""id":"""#, #""id":"0B6F0000-0000-4000-8000-00000000000A""#,
            #""fields":[]"#, #""fields":{"x":1}"#, #""fields":{"x":{}}"#, #""fields":{"x":{"new":1,"rule":"max"}}"#,
            #""fields":{"x":{"new":123456789012345678901}}"#, #""fields":{"x":{"new":1e400}}"#,
            #""fields":{"x":{"new":{"$data":"!"}}}"#, #""fields":{"x":{"new":1,"stamp":"y"}}"#, #""baseVersion":"1""#,
            #""entity":7"#, #""fields":{"version":{"new":1}}"#, #""fields":{"dateLastActivity":{"new":"x"}}"#,
            #""fields":{"owner_id":{"new":1}}"#, #""changeID":"not a key""#,
        ])
    func invalid(_ member: String) throws {
        let server = try TestServer()
        var members = [
            "changeID": #""k1""#, "sequence": "1", "entity": #""board""#, "id": #""b1""#, "operation": #""create""#,
            "stamp": "\"\(server.stamp(0))\"", "fields": "{}",
        ]
        let name = String(member.dropFirst().prefix { $0 != "\"" })
        members[name] = String(member.dropFirst(name.count + 3))
        let bad =
            "{" + members.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
        let good = String(decoding: try server.create("k2", 2, "board", "b2").json(), as: UTF8.self)
        let body = """
            {"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[\(bad),\(good)]}
            """
        let answer = try Answer(server.service.sync(account: "a", body: Array(body.utf8)))
        #expect(answer.results.count == 2)
        #expect(answer.results[0]["verdict"] == "rejected")
        #expect(answer.results[0]["error"]["code"] == "invalid")
        #expect(answer.verdict("k2") == "applied")
    }

    @Test("an unknown entity, a record that is not there, a field that is too large")
    func codes() throws {
        let server = try TestServer()
        let large = FieldValue.string(String(repeating: "x", count: (1 << 20) - 1))
        let fits = FieldValue.string(String(repeating: "x", count: (1 << 20) - 2))
        let answer = try server.sync(
            "d",
            [
                server.create("k1", 1, "folder; DROP TABLE record", "b1"),
                server.update("k2", 2, "board", "b2", ["x": (1, 2)]),
                server.create("k3", 3, "board", "b3", ["x": large]), server.create("k4", 4, "board", "b4", ["x": fits]),
            ])
        #expect(answer.result("k1")["error"]["code"] == "unknownEntity")
        #expect(answer.result("k2")["error"]["code"] == "notFound")
        #expect(answer.result("k3")["error"]["code"] == "tooLarge")
        #expect(answer.result("k3")["error"]["field"] == "x")
        #expect(answer.verdict("k4") == "applied")
    }

    @Test("SEC-06 a field's name is only ever data")
    func fieldNames() throws {
        let server = try TestServer()
        let names = [
            #"x" = 1; DROP TABLE record; --"#, "id'", "rowid", "_sync_state", String(repeating: "n", count: 10_240),
        ]
        let values = Dictionary(uniqueKeysWithValues: names.map { ($0, FieldValue.int(1)) })
        #expect(try server.sync("d", [server.create("k1", 1, "board", "b1", values)]).verdict("k1") == "applied")
        #expect(try server.sync("e").record("b1")?["fields"] == .object(values))
    }

    @Test("SEC-16 a stamp too far ahead counts as now, is told, and freezes nothing")
    func clamped() throws {
        let server = try TestServer()
        let far = try server.sync("d", [server.create("k1", 1, "board", "b1", ["n": 1], at: 3_600_000)])
        #expect(far.verdict("k1") == "applied")
        #expect(far.result("k1")["clamped"] == true)
        #expect(far["stamp"].string == server.stamp(0))
        server.clock.advance(by: 1)
        let next = try server.sync("e", [server.update("k1", 1, "board", "b1", ["n": (1, 2)])], from: 1)
        #expect(next.verdict("k1") == "applied")
        let near = try server.sync("d", [server.update("k2", 2, "board", "b1", ["n": (2, 3)], at: 60_000)], from: 2)
        #expect(near.result("k2")["clamped"] == .null)
        let again = try server.sync("d", [server.create("k1", 1, "board", "b1", ["n": 1], at: 3_599_999)], from: 2)
        #expect(again.verdict("k1") == "duplicate")
        #expect(again.result("k1")["clamped"] == true)
    }

    @Test("every value comes back as it went in")
    func values() throws {
        let server = try TestServer()
        let values: [String: FieldValue] = [
            "n": .null, "t": true, "i": .int(.min), "j": .int(.max), "d": 0.1, "e": -1.5e300, "s": "\u{0}\n\"\\é😀",
            "b": .data([0, 255, 7]), "a": [1, [2, "x"], ["k": .null]], "o": ["z": 1, "a": ["b": []]],
        ]
        try server.sync("d", [server.create("k1", 1, "board", "b1", values)])
        #expect(try server.sync("e").record("b1")?["fields"] == .object(values))
    }
}
