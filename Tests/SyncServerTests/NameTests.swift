import SyncCore
import Testing

@testable import SyncServer

/// A letter with so many marks behind it, in an order that is not theirs.
private func letter(_ marks: Int) -> String {
    var text = "n"
    for index in 0..<marks { text.unicodeScalars.append(index % 2 == 0 ? "\u{301}" : "\u{316}") }
    return text
}

@Suite("Names that take long to compare")
struct NameTests {
    /// The members of a create, some of which are not usual.
    private func send(_ server: TestServer, _ members: [String: FieldValue]) throws -> Answer {
        let create = server.create("k1", 1, "board", "b1", [:], members)
        return try server.sync("d", [create, server.create("k2", 2, "board", "b2")])
    }

    @Test("a field's name with more than 30 marks in a row is refused, and nothing else of the request")
    func field() throws {
        let server = try TestServer()
        let answer = try send(server, ["fields": [letter(31): ["new": 1]]])
        #expect(answer.result("k1")["error"]["code"] == "invalid")
        #expect(answer.verdict("k2") == "applied")
        let others = try TestServer()
        #expect(try send(others, ["fields": [letter(30): ["new": 1]]]).verdict("k1") == "applied")
    }

    @Test("so is a name within a value, and a name of marks that are written as escapes")
    func withinValues() throws {
        let server = try TestServer()
        let answer = try send(server, ["fields": ["x": ["new": [["a": [letter(31): 1]]]]]])
        #expect(answer.result("k1")["error"]["code"] == "invalid")
        #expect(answer.result("k1")["error"]["field"] == "x")
        let escaped = String(repeating: #"\u0f73"#, count: 16)
        let body = """
            {"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"\(letter(31))":1,"dirtyRecords":[{\
            "changeID":"k3","sequence":3,"entity":"board","id":"b3","operation":"create","schemaVersion":1,\
            "stamp":"\(server.stamp(0))","fields":{"x":{"new":{"\(escaped)\(escaped)":1}}}},{\
            "changeID":"k4","sequence":4,"entity":"board","id":"b4","operation":"create","schemaVersion":1,\
            "stamp":"\(server.stamp(0))","\(letter(31))":1,"fields":{"x":{"new":{"y":1},"\(letter(31))":1}}}]}
            """
        let written = try Answer(server.service.sync(account: "a", body: Array(body.utf8)))
        #expect(written.result("k3")["error"]["code"] == "invalid")
        #expect(written.verdict("k4") == "applied", "what nobody knows is skipped, whatever its name")
    }

    @Test("a text with thousands of marks in a row is a value as any other, also as an element of a set")
    func values() throws {
        let server = try TestServer()
        let text = FieldValue.string(letter(4_000))
        let answer = try send(server, ["fields": ["s": ["new": text], "tags": ["new": [text]]]])
        #expect(answer.verdict("k1") == "applied")
        let put = server.update("k3", 3, "board", "b1", ["tags": ([text], [text, "x"])], rule: "union")
        #expect(try server.sync("d", [put], from: 2).verdict("k3") == "applied")
        #expect(try server.sync("e").record("b1")?["fields"] == ["s": text, "tags": [text, "x"]])
    }

    @Test(
        "where a word of the contract is wanted, it is none",
        arguments: [
            ("entity", "unknownEntity"), ("id", "invalid"), ("operation", "invalid"), ("deviceID", "invalid"),
            ("stamp", "invalid"),
        ])
    func words(_ member: String, _ code: String) throws {
        let server = try TestServer()
        let usual = ["entity": "board", "id": "b1", "operation": "create", "deviceID": "d", "stamp": server.stamp(0)]
        let answer = try send(
            server, [member: .string((usual[member] ?? "") + String(letter(10_000).unicodeScalars.dropFirst()))])
        #expect(answer.result("k1")["error"]["code"] == .string(code))
        #expect(answer.verdict("k2") == "applied")
    }

    @Test("a name told twice in two forms is told twice; told in another form later it is the same field")
    func forms() throws {
        let server = try TestServer()
        let (one, other) = ("caf\u{e9}", "cafe\u{301}")
        let twice = """
            {"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[{\
            "changeID":"k3","sequence":3,"entity":"board","id":"b3","operation":"create","schemaVersion":1,\
            "stamp":"\(server.stamp(0))","fields":{"\(one)":{"new":1},"\(other)":{"new":2}}}]}
            """
        #expect(server.service.sync(account: "a", body: Array(twice.utf8)).status == 400)
        try server.sync("d", [server.create("k1", 1, "board", "b1", [one: 1], at: -10)])
        let later = try server.sync("e", [server.update("k1", 1, "board", "b1", [other: (1, 2)])], from: 1)
        #expect(later.verdict("k1") == "applied")
        #expect(try server.sync("f").record("b1")?["fields"] == [one: 2])
    }

    @Test("by REST such a name is refused, in a body and in a query, and such a path is none")
    func rest() throws {
        let server = try TestServer()
        func answer(_ method: String, _ path: String, query: String = "", body: String = "") -> ServerReply {
            server.service.rest(
                account: "a", request: RESTRequest(method: method, path: path, query: query, body: Array(body.utf8)))
        }
        let name = letter(31)
        let encoded = name.utf8.map { "%" + String($0, radix: 16) }.joined()
        #expect(answer("POST", "/1/boards", body: #"{"id":"b1","name":"B"}"#).status == 201)
        #expect(answer("PUT", "/1/boards/b1", body: #"{"\#(name)":1}"#).status == 422)
        #expect(answer("PUT", "/1/boards/b1", body: #"{"x":{"\#(name)":1}}"#).status == 422)
        #expect(answer("PUT", "/1/boards/b1", query: "\(encoded)=1").status == 422)
        #expect(answer("GET", "/1/boards/b1", query: "fields=\(encoded)").status == 400)
        #expect(answer("PUT", "/1/boards/\(encoded)", body: #"{"x":1}"#).status == 404)
        #expect(answer("GET", "/1/\(encoded)").status == 404)
        #expect(answer("PUT", "/1/boards/b1", query: "name=\(encoded)").status == 200)
    }
}
