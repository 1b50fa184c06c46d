import HTTPTypes
import SyncCore
import SyncTesting
import Testing

@testable import Transport

/// One request per change (PROTOCOL.md, section 2).
struct RESTTests {
    private static let mappings = [
        "card": RESTMapping(collection: "cards"),
        "label": RESTMapping(collection: "labels", updates: .query, usesIfMatch: false, answersEmpty: true),
        "checkItem": RESTMapping(
            collection: "checkItems", parent: .init(collection: "checklists", field: "idChecklist")),
        "note": RESTMapping(collection: "notes", serverMakesIDs: true, errorCodeMember: "error"),
    ]

    private func sender(
        _ http: any HTTPTransport, parentID: @escaping RESTSender.ParentLookup = { _ in nil }
    ) throws -> RESTSender {
        try RESTSender(
            endpoint: "https://api.example.com", mappings: Self.mappings, http: http, parentID: parentID,
            wallClock: FixedWallClock(), logger: Sample.quiet())
    }

    private func change(
        _ operation: SyncCore.Operation, _ entity: String = "card", id: String = "a", base: Int64? = nil,
        unit: String? = nil, _ fields: [String: FieldDelta] = [:]
    ) -> Change {
        Change(
            id: "key", sequence: 1, record: RecordKey(entity, id), operation: operation, stamp: .zero,
            baseVersion: base, fields: fields, unit: unit)
    }

    private func change(
        _ operation: SyncCore.Operation, base: Int64? = nil, unit: String? = nil, _ fields: [String: FieldDelta]
    ) -> Change {
        change(operation, "card", id: "a", base: base, unit: unit, fields)
    }

    private func verdict(_ change: Change, _ answers: HTTPAnswer...) async throws -> ChangeResult? {
        try await sender(ScriptedHTTP(answers)).send([change], deviceID: "device").first
    }

    private let edit = ["name": FieldDelta(old: "A", new: "B"), "n": FieldDelta(old: 1, new: nil)]

    @Test("each operation is the contract's request")
    func requests() async throws {
        let http = ScriptedHTTP { request, _ in
            request.method == .delete ? .of(204, "", type: nil) : .of(200, #"{"id":"a","version":7}"#)
        }
        let sender = try sender(http) { $0.id == "a" ? "list" : nil }
        let item = ["idChecklist": FieldDelta(old: "from", new: "to")]
        for change in [
            change(.create, edit), change(.update, base: 5, edit), change(.delete, base: 6), change(.update, edit),
            change(
                .update, "label", base: 5,
                ["name": FieldDelta(old: nil, new: "a b&c=ü"), "x": FieldDelta(old: nil, new: 7)]),
            change(.create, "checkItem", ["idChecklist": FieldDelta(old: nil, new: "to")]),
            change(.update, "checkItem", item), change(.update, "checkItem", edit), change(.delete, "checkItem"),
        ] {
            #expect(try await sender.send([change], deviceID: "device").first?.verdict.isDecided == true)
        }
        #expect(
            http.requests.map { "\($0.method.rawValue) \($0.path ?? "")" } == [
                "POST /1/cards", "PUT /1/cards/a", "DELETE /1/cards/a", "PUT /1/cards/a",
                "PUT /1/labels/a?name=a+b%26c%3D%C3%BC&x=7", "POST /1/checklists/to/checkItems",
                "PUT /1/checklists/from/checkItems/a", "PUT /1/checklists/list/checkItems/a",
                "DELETE /1/checklists/list/checkItems/a",
            ])
        #expect(
            http.bodies.prefix(5).map { String(decoding: $0, as: UTF8.self) } == [
                #"{"id":"a","n":null,"name":"B"}"#, #"{"n":null,"name":"B"}"#, "", #"{"n":null,"name":"B"}"#, "",
            ])
        #expect(http.requests.allSatisfy { $0.headerFields[.idempotencyKey] == "\"key\"" })
        #expect(http.requests.allSatisfy { $0.headerFields[.syncDevice] == "device" })
        #expect(http.requests.prefix(5).map { $0.headerFields[.ifMatch] } == [nil, "\"5\"", "\"6\"", nil, nil])
    }

    @Test("where nobody knows the parent, the record's own path is asked")
    func unknownParent() async throws {
        let http = ScriptedHTTP { request, _ in
            request.method == .delete ? .of(204, "", type: nil) : .of(200, #"{"id":"a","version":7}"#)
        }
        for change in [change(.update, "checkItem", edit), change(.delete, "checkItem")] {
            #expect(try await sender(http).send([change], deviceID: "d").first?.verdict.isDecided == true)
        }
        #expect(http.requests.map(\.path) == ["/1/checkItems/a", "/1/checkItems/a"])
    }

    @Test("a key that was used by another path is a change that was decided, where the path goes through a parent")
    func otherPath() async throws {
        let reused = #"{"code":"keyReused","detail":"it was another request"}"#
        func rejection(_ change: Change) async throws -> Rejection.Code? {
            let sender = try sender(ScriptedHTTP([.of(422, reused, type: "application/problem+json")])) { _ in "list" }
            guard case .rejected(let rejection)? = try await sender.send([change], deviceID: "d").first?.verdict
            else { return nil }
            return rejection.code
        }
        #expect(try await rejection(change(.update, "checkItem", edit)) == .expired)
        #expect(try await rejection(change(.delete, "checkItem")) == .expired)
        #expect(
            try await rejection(change(.create, "checkItem", ["idChecklist": FieldDelta(old: nil, new: "l")]))
                == .keyReused)
        #expect(try await rejection(change(.update, edit)) == .keyReused)
    }

    @Test("what is made under something dead is told as dead, and is no success")
    func madeDead() async throws {
        let create = change(.create, edit)
        let dead = ServerRecord(key: create.record, version: 7, presence: .deleted)
        let result = try await verdict(create, .of(201, #"{"id":"a","version":7,"deleted":true}"#))
        #expect(result?.verdict == .merged(record: dead))
    }

    @Test("a PUT says what fields are to be, whoever passes it on")
    func values() throws {
        let sender = try sender(ScriptedHTTP([]))
        #expect(sender.sendsValues)
        #expect(IDTranslatingSender(sender, schema: try Schema([]), translation: InMemoryIDs()).sendsValues)
    }

    @Test("a success is proved by the record's id, or empty where the mapping says so")
    func successes() async throws {
        func applied(_ version: Int64?, _ serverID: String? = nil) -> Verdict {
            .applied(version: version, overwrote: [:], serverID: serverID)
        }
        #expect(try await verdict(change(.create, edit), .of(201, #"{"id":"a","version":7}"#))?.verdict == applied(7))
        let tagged = HTTPAnswer.of(200, #"{"id":"a"}"#, type: "application/json", [("ETag", "\"8\"")])
        #expect(try await verdict(change(.update, edit), tagged)?.verdict == applied(8))
        #expect(try await verdict(change(.delete), .of(204, "", type: nil))?.verdict == applied(nil))
        #expect(try await verdict(change(.update, "label", edit), .of(204, "", type: nil))?.verdict == applied(nil))
        let made = try await verdict(change(.create, "note", edit), .of(201, #"{"id":"s-1","version":1}"#))
        #expect(made?.verdict == applied(1, "s-1"))
        let replayed = HTTPAnswer.of(
            200, #"{"id":"a","version":7}"#, type: "application/json", [("Idempotency-Replayed", "true")])
        #expect(try await verdict(change(.update, edit), replayed)?.isDuplicate == true)
    }

    @Test("a pause that the server asks for comes with the verdict, be it a success, a refusal or a conflict")
    func pause() async throws {
        let backoff = [("Backoff", "30")]
        let success = HTTPAnswer.of(200, #"{"id":"a","version":7}"#, type: "application/json", backoff)
        let refusal = HTTPAnswer.of(422, #"{"code":"invalid"}"#, type: "application/problem+json", backoff)
        let conflict = HTTPAnswer.of(412, "", type: "application/problem+json", backoff)
        for answer in [success, refusal] {
            #expect(try await verdict(change(.update, edit), answer)?.backoffSeconds == 30)
        }
        let moved = HTTPAnswer.of(
            412, #"{"code":"preconditionFailed","record":{"id":"a","version":9}}"#, type: "application/problem+json",
            backoff)
        #expect(try await verdict(change(.update, edit), moved)?.backoffSeconds == 30)
        let failure = await failure { try await verdict(change(.update, edit), conflict) }
        #expect(failure?.backoffSeconds == 30)
        #expect(try await verdict(change(.update, edit), .of(200, #"{"id":"a","version":7}"#))?.backoffSeconds == nil)
    }

    @Test("NET-12 everything else with a status of success is foreign")
    func foreign() async throws {
        for answer in [
            HTTPAnswer.of(200, ""), .of(204, "", type: nil), .of(200, "<html>", type: "text/html"), .of(200, "[]"),
            .of(200, #"{"id":"b","version":7}"#), .of(200, #"{"version":7}"#), .of(200, #"{"id":"a","id":"a"}"#),
            .of(202, #"{"id":"a"}"#), .of(404, "not here", type: "text/html"), .of(403, #"{"code":"forbidden"}"#),
            .of(412, "", type: nil), .of(410, "", type: nil), .of(302, ""), .of(511, ""),
        ] {
            let failure = await failure { try await verdict(change(.update, edit), answer) }
            #expect(failure?.kind == .network)
        }
    }

    @Test(
        "a proved refusal sets the change aside, with the server's reason",
        arguments: [
            (400, "malformed"), (403, "forbidden"), (404, "notFound"), (405, "methodNotAllowed"), (409, "idTaken"),
            (422, "invalid"), (422, "keyReused"), (422, "missingReference"),
        ])
    func refusals(_ status: Int, _ code: String) async throws {
        let body = #"{"code":"\#(code)","detail":"Because","field":"name","reference":"r"}"#
        let result = try await verdict(change(.update, edit), .of(status, body, type: "application/problem+json"))
        let rejection = Rejection(code: .init(rawValue: code), message: "Because", field: "name", reference: "r")
        #expect(result?.verdict == .rejected(rejection))
    }

    @Test("a refusal in the shape that the mapping names is proved as well")
    func mappedRefusal() async throws {
        let result = try await verdict(change(.update, "note", edit), .of(404, #"{"error":"gone","message":"No"}"#))
        #expect(result?.verdict == .rejected(Rejection(code: .init(rawValue: "gone"), message: "No")))
    }

    @Test("409 conflict and 412 bring the present record, or it is read")
    func conflicts() async throws {
        let record = ServerRecord(key: RecordKey("card", "a"), version: 9, fields: ["name": "C"])
        let problem = #"{"code":"preconditionFailed","record":{"id":"a","version":9,"name":"C"}}"#
        let nested = #"""
            {"code":"conflict","record":{"entity":"card","id":"a","version":9,"deleted":false,"fields":{"name":"C"}}}
            """#
        for (status, body) in [(412, problem), (409, nested)] {
            let answer = HTTPAnswer.of(status, body, type: "application/problem+json")
            #expect(try await verdict(change(.update, base: 5, edit), answer)?.verdict == .conflict(record: record))
        }
        let http = ScriptedHTTP([.problem(412, "preconditionFailed"), .of(200, #"{"id":"a","version":9,"name":"C"}"#)])
        let read = try await sender(http).send([change(.update, base: 5, edit)], deviceID: "d").first
        #expect(read?.verdict == .conflict(record: record))
        #expect(http.requests.map(\.method) == [.put, .get])
    }

    @Test(
        "what is no verdict is thrown, by its class",
        arguments: [
            (401, "unauthorized", FailureClass.authentication), (408, "timeout", .temporary),
            (409, "keyInUse", .temporary), (429, "rateLimited", .temporary), (503, "unavailable", .temporary),
            (500, "internal", .temporaryLonger), (413, "tooLarge", .tooLarge), (409, "otherDataset", .history),
        ])
    func failures(_ status: Int, _ code: String, _ kind: FailureClass) async {
        let failure = await failure { try await verdict(change(.update, edit), .problem(status, code)) }
        #expect(failure?.kind == kind)
    }

    @Test("the first change that is not applied ends the sending; verdicts before a failure are kept")
    func order() async throws {
        let changes = ["a", "b", "c"].map { id in
            Change(
                id: "key-\(id)", sequence: 1, record: RecordKey("card", id), operation: .update, stamp: .zero,
                fields: edit)
        }
        let refused = ScriptedHTTP([.of(200, #"{"id":"a","version":7}"#), .problem(422, "invalid")])
        let results = try await sender(refused).send(changes, deviceID: "d")
        #expect(results.map(\.changeID) == ["key-a", "key-b"])
        #expect(refused.requests.count == 2)
        let failing = ScriptedHTTP([.of(200, #"{"id":"a","version":7}"#), .problem(503, "unavailable")])
        #expect(try await sender(failing).send(changes, deviceID: "d").map(\.changeID) == ["key-a"])
    }

    @Test("a probe is a small read; a refusal of the server itself works, too")
    func probe() async throws {
        let http = ScriptedHTTP([.of(200, "[]"), .problem(404, "notFound"), .problem(503, "unavailable"), .of(404)])
        let sender = try sender(http)
        try await sender.probe()
        try await sender.probe()
        for _ in 0..<2 { #expect(await failure { try await sender.probe() } != nil) }
        #expect(http.requests.first?.path == "/1/cards?limit=1")
        #expect(http.requests.allSatisfy { $0.method == .get && $0.headerFields[.idempotencyKey] == nil })
    }

    @Test("what no request can carry is refused here, and nothing is sent")
    func unsendable() async throws {
        let http = ScriptedHTTP([.of()])
        for (change, code) in [
            (change(.update, unit: "u", edit), Rejection.Code.transaction),
            (change(.update, "alien", edit), .unknownEntity),
            (change(.delete, id: ".."), .invalid), (change(.delete, id: "a/b"), .invalid),
            (change(.create, "checkItem", edit), .invalid),
            (change(.create, ["n": FieldDelta(old: nil, new: .double(.infinity))]), .invalid),
        ] {
            guard case .rejected(let rejection)? = try await sender(http).send([change], deviceID: "d").first?.verdict
            else { return #expect(Bool(false), "not rejected") }
            #expect(rejection.code == code)
        }
        #expect(http.requests.isEmpty)
    }
}
