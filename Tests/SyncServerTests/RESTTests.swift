import GRDB
import SyncCore
import Testing

@testable import SyncServer

@Suite("REST over the same data")
struct RESTTests {
    private func rest(
        _ server: TestServer, _ method: String, _ path: String, _ body: FieldValue? = nil, key: String? = nil,
        match: String? = nil, noneMatch: String? = nil, device: String? = "r"
    ) throws -> ServerReply {
        let parts = path.split(separator: "?", maxSplits: 1).map(String.init)
        var headers: [ServerReply.Header] = []
        if let key { headers.append(.init("Idempotency-Key", "\"\(key)\"")) }
        if let match { headers.append(.init("If-Match", match)) }
        if let noneMatch { headers.append(.init("If-None-Match", noneMatch)) }
        if let device { headers.append(.init("Sync-Device", device)) }
        return server.service.rest(
            account: server.account,
            request: RESTRequest(
                method: method, path: parts[0], query: parts.count > 1 ? parts[1] : "", headers: headers,
                body: try body?.json() ?? []))
    }

    private func value(_ reply: ServerReply) throws -> FieldValue { try FieldValue(json: reply.body) }
    private func code(_ reply: ServerReply) throws -> FieldValue { try value(reply)["code"] }

    private func tree() throws -> TestServer {
        let server = try TestServer()
        #expect(try rest(server, "POST", "/1/boards", ["id": "b1", "name": "B"]).status == 201)
        #expect(try rest(server, "POST", "/1/boards/b1/lists", ["id": "l1", "name": "L"]).status == 201)
        #expect(try rest(server, "POST", "/1/cards", ["id": "c1", "idList": "l1", "name": "C"]).status == 201)
        return server
    }

    @Test("create, read, update, delete")
    func operations() throws {
        let server = try tree()
        let read = try rest(server, "GET", "/1/lists/l1")
        #expect(try value(read) == ["id": "l1", "version": 2, "idBoard": "b1", "name": "L"])
        #expect(read[header: "ETag"] == "\"2\"")
        let update = try rest(server, "PUT", "/1/cards/c1", ["name": "D"])
        #expect(update.status == 200)
        #expect(try value(update)["name"] == "D")
        #expect(try value(update)["version"] == 4)
        #expect(try rest(server, "DELETE", "/1/cards/c1").status == 204)
        #expect(try rest(server, "DELETE", "/1/cards/c1").status == 204)
        #expect(try rest(server, "DELETE", "/1/cards/none").status == 204)
        #expect(try rest(server, "GET", "/1/cards/c1").status == 404)
        #expect(try rest(server, "PUT", "/1/cards/c1", ["name": "E"]).status == 404)
        #expect(try rest(server, "PUT", "/1/cards/none", ["name": "E"]).status == 404)
        #expect(try server.sync("d", from: 4).record("c1")?["deleted"] == true)
        #expect(try rest(server, "PATCH", "/1/cards/c1").status == 405)
        #expect(try rest(server, "GET", "/1/nothing").status == 404)
        #expect(try rest(server, "GET", "/2/cards").status == 404)
    }

    @Test("refusals: idTaken, missingReference, invalid, malformed")
    func refusals() throws {
        let server = try tree()
        let taken = try rest(server, "POST", "/1/cards", ["id": "c1", "idList": "l1", "name": "X"])
        #expect(taken.status == 409)
        #expect(try code(taken) == "idTaken")
        let missing = try rest(server, "POST", "/1/cards", ["id": "c2", "idList": "l9"])
        #expect(missing.status == 422)
        #expect(try code(missing) == "missingReference")
        #expect(try value(missing)["reference"] == "l9")
        #expect(try code(rest(server, "PUT", "/1/cards/c1", ["version": 9])) == "invalid")
        #expect(try code(rest(server, "PUT", "/1/cards/c1", ["dateLastActivity": "x"])) == "invalid")
        #expect(try code(rest(server, "POST", "/1/cards", ["id": "a b"])) == "invalid")
        let bad = RESTRequest(method: "PUT", path: "/1/cards/c1", body: Array("{".utf8))
        #expect(server.service.rest(account: "a", request: bad).status == 400)
        let large = FieldValue.string(String(repeating: "x", count: 1 << 20))
        #expect(try rest(server, "PUT", "/1/cards/c1", ["x": large]).status == 413)
    }

    @Test("a repeated key gets the first answer; with other content, path or method it is keyReused")
    func keys() throws {
        let server = try tree()
        let first = try rest(server, "PUT", "/1/cards/c1", ["n": 1], key: "k1", match: "\"3\"")
        #expect(first.status == 200)
        let again = try rest(server, "PUT", "/1/cards/c1", ["n": 1], key: "k1", match: "\"3\"")
        #expect(again.status == 200)
        #expect(again.body == first.body)
        #expect(again[header: "ETag"] == first[header: "ETag"])
        #expect(again[header: "Idempotency-Replayed"] == "true")
        #expect(try code(rest(server, "PUT", "/1/cards/c1", ["n": 2], key: "k1")) == "keyReused")
        #expect(try code(rest(server, "DELETE", "/1/cards/c1", key: "k1")) == "keyReused")
        #expect(try code(rest(server, "PUT", "/1/lists/l1", ["n": 1], key: "k1")) == "keyReused")
        #expect(try rest(server, "PUT", "/1/cards/c1", ["n": 2], key: "k1", device: "other").status == 200)
        #expect(try rest(server, "PUT", "/1/cards/c1", ["n": 3], key: "bad key").status == 400)
        let change = server.update("k1", 1, "card", "c1", ["n": (1, 5)])
        #expect(try server.sync("r", [change]).result("k1")["error"]["code"] == "keyReused")
    }

    @Test("a key's path and query count as what they say, however they are percent-encoded")
    func encodings() throws {
        let server = try tree()
        let first = try rest(server, "PUT", "/1/cards/c1?name=a+b%21", key: "k1")
        #expect(first.status == 200)
        for same in ["/1/cards/%631?name=a+b%21", "/1/c%61rds/c1?name=a%20b!", "/1/cards/c1/?n%61me=a+b%21"] {
            let again = try rest(server, "PUT", same, key: "k1")
            #expect(again[header: "Idempotency-Replayed"] == "true", "\(same)")
            #expect(again.body == first.body)
        }
        for other in [
            "/1/cards/c2?name=a+b!", "/1/cards/c1?name=a+b", "/1/cards/c1?name=a%2Bb!", "/1/cards/c1?name=a+b!&x=",
            "/1/cards/c1?name%3Da+b!",
        ] {
            #expect(try code(rest(server, "PUT", other, key: "k1")) == "keyReused", "\(other)")
        }
        // A slash within an id makes no path of it.
        #expect(try rest(server, "PUT", "/1/lists/l1%2Fcards%2Fc1", ["n": 1], key: "k2").status == 404)
        #expect(try code(rest(server, "PUT", "/1/lists/l1/cards/c1", ["n": 1], key: "k2")) == "keyReused")
        #expect(try code(rest(server, "PUT", "/1/lists/l1%252Fcards%252Fc1", ["n": 1], key: "k2")) == "keyReused")
    }

    @Test("a key that an earlier version noted with its path byte by byte is known in the same bytes")
    func encodingsOfEarlier() throws {
        let server = try tree()
        let (path, query) = ("/1/cards/%631", "name=a+b%21")
        let first = try rest(server, "PUT", "\(path)?\(query)", key: "k1")
        var digest = ContentDigest()
        for text in ["PUT", path, query] { digest.add(text: text) }
        digest.add(bytes: [])
        try server.restart { server in
            let queue = try DatabaseQueue(path: server.path)
            try queue.write { db in
                try db.execute(
                    sql: "UPDATE reply SET first = ?, second = ?",
                    arguments: [Int64(bitPattern: digest.first), Int64(bitPattern: digest.second)])
            }
            try queue.close()
        }
        let again = try rest(server, "PUT", "\(path)?\(query)", key: "k1")
        #expect(again[header: "Idempotency-Replayed"] == "true" && again.body == first.body)
        #expect(try code(rest(server, "PUT", "\(path)?name=c", key: "k1")) == "keyReused")
    }

    @Test("HEAD is answered as GET, and whoever is refused a method is told of it, too")
    func head() throws {
        let server = try tree()
        for path in ["/1/cards", "/1/cards/c1", "/1/lists/l1/cards", "/1/lists/l1/cards/c1"] {
            #expect(try rest(server, "HEAD", path) == rest(server, "GET", path))
            let refused = try rest(server, "PATCH", path)
            let methods = path.hasSuffix("cards") ? "GET, HEAD, POST" : "GET, HEAD, PUT, DELETE"
            #expect(refused.status == 405 && refused[header: "Allow"] == methods)
        }
    }

    @Test("IDS-12 404 and 422 are bound to a key; 409 and 412 are not")
    func bound() throws {
        let server = try tree()
        #expect(try rest(server, "PUT", "/1/cards/c9", ["n": 1], key: "k1").status == 404)
        #expect(try rest(server, "POST", "/1/cards", ["id": "c8", "idList": "l9"], key: "k2").status == 422)
        #expect(try rest(server, "PUT", "/1/cards/c1", ["n": 1], key: "k3", match: "\"9\"").status == 412)
        #expect(try rest(server, "POST", "/1/cards", ["id": "c1"], key: "k4").status == 409)
        _ = try rest(server, "POST", "/1/cards", ["id": "c9"])
        _ = try rest(server, "POST", "/1/lists", ["id": "l9"])
        let bound = try rest(server, "PUT", "/1/cards/c9", ["n": 1], key: "k1")
        #expect(bound.status == 404)
        #expect(bound[header: "Content-Type"] == "application/problem+json")
        #expect(try rest(server, "POST", "/1/cards", ["id": "c8", "idList": "l9"], key: "k2").status == 422)
        #expect(try rest(server, "PUT", "/1/cards/c1", ["n": 1], key: "k3", match: "\"3\"").status == 412 - 212)
        _ = try rest(server, "DELETE", "/1/cards/c1")
        #expect(try rest(server, "POST", "/1/cards", ["id": "c1"], key: "k4").status == 201)
    }

    @Test("If-Match: one of two wins, and 412 carries the current record")
    func preconditions() throws {
        let server = try tree()
        #expect(try rest(server, "PUT", "/1/cards/c1", ["name": "X"], match: "\"3\"").status == 200)
        let lost = try rest(server, "PUT", "/1/cards/c1", ["name": "Y"], match: "\"3\"")
        #expect(lost.status == 412)
        #expect(try code(lost) == "preconditionFailed")
        #expect(try value(lost)["record"]["name"] == "X")
        #expect(try rest(server, "DELETE", "/1/cards/c1", match: "\"3\"").status == 412)
        #expect(try rest(server, "PUT", "/1/cards/c1", ["name": "Z"], match: "W/\"4\", \"4\"").status == 200)
        #expect(try rest(server, "DELETE", "/1/cards/c1", match: "*").status == 204)
        let dead = try rest(server, "PUT", "/1/cards/c1", ["name": "Z"], match: "\"5\"")
        #expect(dead.status == 412)
        #expect(try value(dead)["record"]["deleted"] == true)
    }

    @Test("lists by key, since a version, under a parent, and 304")
    func lists() throws {
        let server = try tree()
        for index in 2...9 { _ = try rest(server, "POST", "/1/lists/l1/cards", ["id": .string("c\(index)")]) }
        var after = ""
        var ids: [FieldValue] = []
        while true {
            let page = try value(rest(server, "GET", "/1/cards?limit=4&after=\(after)")).array
            ids += page.map { $0["id"] }
            guard let last = page.last?["id"].string else { break }
            after = last
        }
        #expect(ids == (1...9).map { .string("c\($0)") })
        #expect(try value(rest(server, "GET", "/1/boards/b1/cards?since=9")).array.count == 2)
        _ = try rest(server, "DELETE", "/1/cards/c3")
        #expect(
            try value(rest(server, "GET", "/1/cards?since=11")) == [
                [
                    "id": "c3", "version": 12, "deleted": true,
                    "dateLastActivity": .string(Timestamp.text(server.clock.nowMilliseconds)),
                ]
            ])
        #expect(try value(rest(server, "GET", "/1/cards")).array.count == 8)
        let tag = try rest(server, "GET", "/1/cards")[header: "ETag"]
        #expect(try rest(server, "GET", "/1/cards", noneMatch: tag).status == 304)
        #expect(try rest(server, "GET", "/1/cards/c4", noneMatch: "\"6\"").status == 304)
        #expect(try rest(server, "GET", "/1/cards/c4?since=6").status == 304)
        #expect(try rest(server, "GET", "/1/cards/c4", noneMatch: "\"5\"").status == 200)
        #expect(try rest(server, "GET", "/1/cards?limit=0").status == 400)
        #expect(try rest(server, "GET", "/1/lists/none/cards").status == 404)
        server.account = "other"
        #expect(try value(rest(server, "GET", "/1/cards")) == [])
        #expect(try rest(server, "GET", "/1/cards/c4").status == 404)
    }

    @Test("a child through its parent's path")
    func children() throws {
        let server = try tree()
        _ = try rest(server, "POST", "/1/cards/c1/checklists", ["id": "k1", "name": "K"])
        let item = try rest(server, "POST", "/1/checklists/k1/checkItems", ["id": "i1", "name": "I"])
        #expect(try value(item)["idChecklist"] == "k1")
        #expect(try rest(server, "GET", "/1/checklists/k1/checkItems/i1").status == 200)
        #expect(try rest(server, "PUT", "/1/checklists/k1/checkItems/i1", ["state": "complete"]).status == 200)
        #expect(try rest(server, "GET", "/1/checklists/k2/checkItems/i1").status == 404)
        #expect(try rest(server, "PUT", "/1/checklists/k2/checkItems/i1", ["x": 1]).status == 404)
        // To who says a version it is shown where the record stands by now.
        let moved = try rest(server, "PUT", "/1/checklists/k2/checkItems/i1", ["x": 1], match: "\"1\"")
        #expect(try moved.status == 412 && value(moved)["record"]["idChecklist"] == "k1")
        let current = try value(moved)["record"]["version"].jsonText()
        #expect(
            try rest(server, "PUT", "/1/checklists/k2/checkItems/i1", ["x": 1], match: "\"\(current)\"").status == 404)
        #expect(try rest(server, "DELETE", "/1/checklists/k2/checkItems/i1", match: "\"1\"").status == 412)
        #expect(try rest(server, "DELETE", "/1/checklists/k1/checkItems/i1").status == 204)
        #expect(try code(rest(server, "POST", "/1/checklists/k9/checkItems", ["id": "i2"])) == "missingReference")
    }

    @Test("the last activity is the newest commit of it or of anything under it, and changes no version")
    func activity() throws {
        let server = try tree()
        _ = try rest(server, "POST", "/1/boards", ["id": "b2"])
        _ = try rest(server, "POST", "/1/lists", ["id": "l2", "idBoard": "b2"])
        func activity(_ path: String) throws -> FieldValue {
            try value(rest(server, "GET", "/1/\(path)?fields=dateLastActivity"))["dateLastActivity"]
        }
        func now() -> FieldValue { .string(Timestamp.text(server.clock.nowMilliseconds)) }
        let start = now()
        server.clock.advance(by: 5_000)
        try server.sync("d", [server.create("m1", 1, "comment", "m1", ["idCard": "c1"])])
        #expect(try activity("cards/c1") == now())
        #expect(try activity("boards/b1") == now())
        #expect(try activity("boards/b2") == start)
        #expect(try value(rest(server, "GET", "/1/boards/b1"))["version"] == 1)
        let second = now()
        server.clock.advance(by: 5_000)
        _ = try rest(server, "PUT", "/1/cards/c1", ["idList": "l2"])
        #expect(try activity("boards/b1") == now())
        #expect(try activity("boards/b2") == now())
        server.clock.advance(by: 5_000)
        try server.sync("d", [server.delete("m2", 2, "comment", "m1")])
        #expect(try activity("boards/b2") == now())
        #expect(try activity("boards/b1") != second)
        let many = try value(rest(server, "GET", "/1/boards?fields=id,dateLastActivity")).array
        #expect(many.map { $0["id"] } == ["b1", "b2"])
        #expect(try rest(server, "GET", "/1/boards/b1?fields=dateLastActivity", noneMatch: "\"1\"").status == 200)
    }

    @Test("a query's text takes the kind of the field; queries are form-encoded")
    func queries() throws {
        let server = try tree()
        let put = try rest(server, "PUT", "/1/cards/c1?name=A+b%26c&closed=true&pos=1.5")
        #expect(try value(put)["name"] == "A b&c")
        #expect(try value(put)["closed"] == true)
        #expect(try value(put)["pos"] == 1.5)
        #expect(try code(rest(server, "PUT", "/1/cards/c1?closed=perhaps")) == "invalid")
        #expect(try rest(server, "PUT", "/1/cards/c1?name=%zz").status == 400)
    }

    @Test("by REST the server's order decides, also against a device whose clock is ahead")
    func serverOrder() throws {
        let server = try tree()
        try server.sync("d", [server.update("k1", 1, "card", "c1", ["name": ("C", "ahead")], at: 59_000)])
        let put = try rest(server, "PUT", "/1/cards/c1", ["name": "last"])
        #expect(try value(put)["name"] == "last")
        #expect(try server.sync("e").record("c1")?["fields"]["name"] == "last")
    }

    @Test("a server with ids of its own answers 24 hex digits, by REST and by sync")
    func serverIDs() throws {
        let server = try TestServer { $0.makesIDs = true }
        let made = try value(rest(server, "POST", "/1/boards", ["id": "mine", "name": "B"], key: "k1"))
        let id = try #require(made["id"].string)
        #expect(id.count == 24 && id.allSatisfy(\.isHexDigit))
        #expect(
            try value(rest(server, "POST", "/1/boards", ["id": "mine", "name": "B"], key: "k1"))["id"] == made["id"])
        let answer = try server.sync(
            "d",
            [
                server.create("s1", 1, "board", "local", ["name": "L"]),
                server.create("s2", 2, "list", "below", ["idBoard": "local"]),
                server.update("s3", 3, "board", "local", ["name": ("L", "M")]),
            ])
        let board = try #require(answer.result("s1")["serverID"].string)
        #expect(answer.results.map { $0["verdict"] } == ["applied", "applied", "applied"])
        #expect(try server.sync("e").record(board)?["fields"]["name"] == "M")
        let list = try #require(answer.result("s2")["serverID"].string)
        #expect(try server.sync("e").record(list)?["fields"]["idBoard"] == .string(board))
        let again = try server.sync("d", [server.create("s1", 1, "board", "local", ["name": "L"])])
        #expect(again.result("s1")["serverID"].string == board)
        let later = try server.sync("d", [server.delete("s4", 4, "board", "local", at: 1)])
        #expect(later.verdict("s4") == "applied")
    }

    @Test("a create under a dead parent is merged, and tells the id that the server gave, the repetition too")
    func serverIDOfMerged() throws {
        let server = try TestServer { $0.makesIDs = true }
        let board = try server.sync("d", [server.create("k1", 1, "board", "local", at: -10)])
        let id = try #require(board.result("k1")["serverID"].string)
        try server.sync("d", [server.delete("k2", 2, "board", id, at: -5)])
        let list = server.create("k3", 3, "list", "under", ["idBoard": "local"])
        let merged = try server.sync("d", [list])
        #expect(merged.verdict("k3") == "merged" && merged.result("k3")["record"]["deleted"] == true)
        let given = try #require(merged.result("k3")["serverID"].string)
        #expect(merged.result("k3")["record"]["id"].string == given)
        #expect(try server.sync("d", [list]).result("k3")["serverID"].string == given)
    }

    /// `levels` arrays within each other.
    private func nested(_ levels: Int) -> FieldValue {
        (1..<levels).reduce([]) { value, _ in .array([value]) }
    }

    @Test("NET-10 a value by REST is no deeper than a page that brings it may be")
    func depth() throws {
        let server = try tree()
        #expect(try rest(server, "POST", "/1/boards", ["id": "b2", "prefs": nested(59)]).status == 201)
        #expect(try code(rest(server, "POST", "/1/boards", ["id": "b3", "prefs": nested(60)])) == "invalid")
        #expect(try code(rest(server, "PUT", "/1/boards/b2", ["prefs": nested(63)])) == "invalid")
        let bytes: FieldValue = .array([.data([1])])
        let around = (0..<58).reduce(bytes) { value, _ in .array([value]) }
        #expect(try code(rest(server, "PUT", "/1/boards/b2", ["prefs": around])) == "invalid", "60 with the $data")
        // As a page, and in a verdict: an update that is older than what is there brings the record.
        let old = server.update("k1", 1, "board", "b2", ["prefs": (.null, 1)], at: -1_000)
        for reply in [try server.send("d", [], from: 0), try server.send("d", [old], from: 0)] {
            #expect(throws: Never.self) { try FieldValue(json: reply.body) }
        }
        let text = String(repeating: "[", count: 60) + String(repeating: "]", count: 60)
        _ = try rest(server, "PUT", "/1/boards/b2?prefs=\(text)")
        #expect(throws: Never.self) { try FieldValue(json: server.send("d", [], from: 0).body) }
    }

    @Test("DL-08 a list that is not whole says where it goes on, whether a number or its size ended it")
    func listsGoOn() throws {
        let server = try TestServer { $0.limits.pageBytes = 2_000 }
        let text = FieldValue.string(String(repeating: "x", count: 900))
        try server.sync("d", (1...7).map { server.create("k\($0)", Int64($0), "board", "b\($0)", ["t": text]) })
        var seen: [String] = []
        var query = "limit=5&since=0"
        while true {
            let reply = server.service.rest(
                account: "a", request: RESTRequest(method: "GET", path: "/1/boards", query: query))
            let page = try FieldValue(json: reply.body).array
            #expect((1...5).contains(page.count))
            seen += page.compactMap { $0["id"].string }
            guard let link = reply[header: "Link"] else { break }
            #expect(link == "</1/boards?limit=5&since=0&after=\(seen.last ?? "")>; rel=\"next\"")
            query = String(link.dropFirst("</1/boards?".count).prefix { $0 != ">" })
        }
        #expect(seen == (1...7).map { "b\($0)" })
    }
}
