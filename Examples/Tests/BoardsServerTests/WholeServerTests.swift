import Foundation
import SyncServer
import Testing

@testable import BoardsServer

/// The whole server, store and all, over HTTP: what it acknowledged is true.
@Suite("the server", .timeLimit(.minutes(2))) struct WholeServerTests {
    @Test(
        "NET-10 SEC-17 what is not the contract's JSON is 400 or 413, and the next request is answered",
        arguments: hostile)
    func hostileJSON(_ body: HostileBody) async throws {
        try await Self.run { client in
            let reply = try await client.json(.POST, "/api/sync", bytes: body.bytes)
            #expect(reply.status == 400 || reply.status == 413, "\(reply.text)")
            #expect(reply.headers.first(name: "Content-Type") == "application/problem+json")
            let record = try await client.json(.POST, "/1/boards", bytes: body.bytes)
            #expect(record.status < 500, "\(record.text)")
            #expect(try await client.sync(Self.request(device: "d")).status == 200)
        }
    }

    /// Bytes that are no request, told apart by their beginning.
    struct HostileBody: Sendable, CustomTestStringConvertible {
        let bytes: [UInt8]
        var testDescription: String { "\(bytes.count) bytes: \(String(decoding: bytes.prefix(100), as: UTF8.self))" }

        init(_ bytes: [UInt8]) { self.bytes = bytes }
        init(_ text: String) { bytes = Array(text.utf8) }
    }

    private static let hostile: [HostileBody] = [
        HostileBody([]), HostileBody([0x7b]), HostileBody([0xff, 0xfe]),
        HostileBody([0x7b, 0x22, 0xc3, 0x28, 0x22, 0x3a, 0x31, 0x7d]), HostileBody("null"), HostileBody("[]"),
        HostileBody("{}{}"), HostileBody(#"{"protocol":1,"protocol":1}"#),
        HostileBody(String(repeating: "[", count: 10_000)), HostileBody(String(repeating: #"{"a":"#, count: 10_000)),
        HostileBody(
            #"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":18446744073709551616,"dirtyRecords":[]}"#),
        HostileBody(#"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"dirtyRecords":[]} x"#),
        HostileBody(#"{"protocol":1,"cycleID":"c","deviceID":"d","lastSyncVersion":0,"limit":0,"dirtyRecords":[]}"#),
        HostileBody("{" + (0..<200_000).map { #""k\#($0)":1"# }.joined(separator: ",") + "}"),
    ]

    @Test("SEC-06 SEC-07 names of fields and entities never reach SQL")
    func names() async throws {
        try await Self.run { client in
            let names = [
                #"x\" = 1; DROP TABLE record; --"#, "id'", "rowid", "_sync_state",
                String(repeating: "n", count: 10_000),
            ]
            for (index, name) in names.enumerated() {
                let change = Self.create(
                    index + 1, entity: "board", id: "b\(index)", fields: #"{"\#(name)":{"new":1}}"#)
                let reply = try await client.sync(Self.request(device: "d", changes: [change]))
                #expect(reply.status == 200, "\(reply.text)")
                let strange = Self.create(index + 100, entity: name, id: "x", fields: "{}")
                let other = try await client.sync(Self.request(device: "d", changes: [strange]))
                #expect(other.status == 200 && other.text.contains(#""verdict":"rejected""#), "\(other.text)")
            }
        }
    }

    @Test("of many PUTs with one If-Match exactly one wins")
    func oneWins() async throws {
        try await Self.run { client in
            let made = try await client.json(.POST, "/1/boards", [:], #"{"id":"b","name":"start"}"#)
            var version = try #require(made.headers.first(name: "ETag"))
            for round in 0..<20 {
                let statuses = try await Self.all(16) { [version] writer in
                    try await client.json(
                        .PUT, "/1/boards/b", ["If-Match": version], #"{"name":"round \#(round) writer \#(writer)"}"#
                    ).status
                }
                #expect(statuses.count { $0 == 200 } == 1, "\(statuses)")
                #expect(statuses.allSatisfy { $0 == 200 || $0 == 412 })
                let now = try await client.send(.GET, "/1/boards/b")
                let next = try #require(now.headers.first(name: "ETag"))
                #expect(next != version)
                version = next
                #expect(try await client.send(.GET, "/1/boards/b", ["If-None-Match": version]).status == 304)
            }
        }
    }

    @Test("IDS-09 concurrent repeats of one key have one effect, and the same answer")
    func repeats() async throws {
        try await Self.run { client in
            let replies = try await Self.all(16) { _ in
                try await client.json(
                    .POST, "/1/boards", ["Idempotency-Key": "\"k-1\"", "Sync-Device": "d"], #"{"name":"one"}"#)
            }
            let done = replies.filter { $0.status == 201 }
            #expect(!done.isEmpty && Set(done.map(\.text)).count == 1)
            #expect(replies.allSatisfy { $0.status == 201 || ($0.status == 409 && $0.text.contains("keyInUse")) })
            #expect(done.count { $0.headers.first(name: "Idempotency-Replayed") == "true" } == done.count - 1)
            let list = try await client.send(.GET, "/1/boards")
            #expect(list.text.components(#""name":"one""#) == 1)
        }
    }

    @Test("concurrent repeats of one change have one effect")
    func repeatedChange() async throws {
        try await Self.run { client in
            let change = Self.create(1, entity: "board", id: "b", fields: #"{"name":{"new":"one"}}"#)
            let replies = try await Self.all(16) { _ in
                try await client.sync(Self.request(device: "d", changes: [change])).text
            }
            #expect(replies.count { $0.contains(#""verdict":"applied""#) } == 1)
            #expect(replies.count { $0.contains(#""verdict":"duplicate""#) } == 15)
        }
    }

    @Test("SEC-13 another account's key is a new key, and nothing of its answer is told")
    func foreignKey() async throws {
        try await Self.run(tokens: "t1 alice\nt2 bob\n") { client in
            var alice = client
            alice.token = "t1"
            var bob = client
            bob.token = "t2"
            let headers = ["Idempotency-Key": "\"k\"", "Sync-Device": "d"]
            let first = try await alice.json(.POST, "/1/boards", headers, #"{"name":"hers"}"#)
            let second = try await bob.json(.POST, "/1/boards", headers, #"{"name":"his"}"#)
            #expect(first.status == 201 && second.status == 201)
            #expect(second.headers.first(name: "Idempotency-Replayed") == nil && !second.text.contains("hers"))
        }
    }

    @Test("SEC-21 SEC-14 another account's record, version and history look as if they were not there")
    func enumeration() async throws {
        try await Self.run(tokens: "t1 alice\nt2 bob\n") { client in
            var alice = client
            alice.token = "t1"
            var bob = client
            bob.token = "t2"
            for n in 0..<5 { _ = try await alice.json(.POST, "/1/boards", [:], #"{"id":"hers\#(n)","name":"x"}"#) }
            let foreign = try await bob.send(.GET, "/1/boards/hers1")
            let absent = try await bob.send(.GET, "/1/boards/nobodys")
            #expect(foreign.status == 404 && foreign.text == absent.text)
            let put = try await bob.json(.PUT, "/1/boards/hers1", [:], #"{"name":"mine"}"#)
            let putAbsent = try await bob.json(.PUT, "/1/boards/nobodys", [:], #"{"name":"mine"}"#)
            #expect(put.status == putAbsent.status && put.text == putAbsent.text)
            let synced = try await bob.sync(Self.request(device: "d"))
            #expect(synced.text.contains(#""currentSyncVersion":0"#) && synced.text.contains(#""changedRecords":[]"#))
        }
    }

    @Test(
        "SEC-10 a key that is none is refused before it is looked up",
        arguments: ["", "\"\"", String(repeating: "k", count: 5_000), "\"a b\tc\""])
    func strangeKey(key: String) async throws {
        try await Self.run { client in
            let reply = try await client.json(.POST, "/1/boards", ["Idempotency-Key": key], #"{"name":"x"}"#)
            #expect((400..<500).contains(reply.status), "\(reply.status) \(reply.text)")
        }
    }

    @Test("DL-06 readers that page with tiny limits miss nothing while writers write, and no version repeats")
    func readersAndWriters() async throws {
        try await Self.run { client in
            let writers = 8
            let each = 25
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<writers {
                    group.addTask {
                        for n in 1...each {
                            let change = Self.create(
                                n, entity: "board", id: "w\(writer)-\(n)", fields: #"{"name":{"new":"x"}}"#)
                            let reply = try await client.sync(Self.request(device: "w\(writer)", changes: [change]))
                            #expect(reply.text.contains(#""verdict":"applied""#))
                        }
                    }
                }
                for reader in 0..<4 {
                    group.addTask {
                        var seen: Set<String> = []
                        var versions: Set<Int> = []
                        var checkpoint = 0
                        while seen.count < writers * each {
                            let reply = try await client.sync(
                                Self.request(device: "r\(reader)", from: checkpoint, limit: 3))
                            let page = try Page(reply.bytes)
                            for record in page.changedRecords {
                                #expect(record.version > checkpoint && versions.insert(record.version).inserted)
                                seen.insert(record.id)
                            }
                            #expect(page.currentSyncVersion >= checkpoint)
                            checkpoint = page.currentSyncVersion
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test("HEAD of a record and of a list has the head that GET has; who is refused a method is told of it")
    func head() async throws {
        try await Self.run { client in
            _ = try await client.json(.POST, "/1/boards", [:], #"{"id":"b1","name":"x"}"#)
            for path in ["/1/boards/b1", "/1/boards"] {
                let get = try await client.send(.GET, path)
                let head = try await client.send(.HEAD, path)
                #expect(get.status == 200 && head.status == 200 && head.bytes.isEmpty)
                #expect(head.headers.first(name: "Content-Length") == "\(get.bytes.count)")
                #expect(head.headers.first(name: "ETag") == get.headers.first(name: "ETag"))
            }
            let refused = try await client.send(.DELETE, "/1/boards")
            #expect(refused.status == 405 && refused.headers.first(name: "Allow") == "GET, HEAD, POST")
        }
    }

    @Test("an event stream tells the writer's commit, with its scopes")
    func events() async throws {
        try await Self.run { client in
            try await RawConnection.open(client.port) { connection in
                try await connection.send("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                #expect(try await connection.until(": here\n\n") != nil)
                _ = try await client.json(.POST, "/1/boards", [:], #"{"id":"b1","name":"x"}"#)
                let event = try await connection.until("}\n\n")
                #expect(event?.contains(#"data: {"currentSyncVersion":1,"scopes":["board:b1"]}"#) == true)
                #expect(event?.contains("id: 1\n") == true)
            }
        }
    }

    @Test("what was acknowledged is there after a stop and a new start; a second server on the file is refused")
    func restart() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        var options = ServerOptions.quiet
        options.database = folder.path("boards.sqlite")
        try await ReferenceServer.during(options) { [options] port in
            _ = try await TestClient(port: port).json(.POST, "/1/boards", [:], #"{"id":"b1","name":"kept"}"#)
            await #expect(throws: ServeFailure.self) { try await ReferenceServer.run(options, signals: []) { _ in } }
        }
        try await ReferenceServer.during(options) { port in
            let kept = try await TestClient(port: port).send(.GET, "/1/boards/b1")
            #expect(kept.text.contains("kept"))
        }
    }
}

// MARK: Help

extension WholeServerTests {
    struct Page: Decodable {
        struct Record: Decodable {
            let id: String
            let version: Int
        }
        let currentSyncVersion: Int
        let changedRecords: [Record]

        init(_ bytes: [UInt8]) throws { self = try JSONDecoder().decode(Page.self, from: Data(bytes)) }
    }

    static func run(
        tokens: String? = nil, _ body: @escaping @Sendable (TestClient) async throws -> Void
    ) async throws {
        let folder = try Folder()
        defer { folder.remove() }
        var options = ServerOptions.quiet
        if let tokens {
            options.tokens = folder.path("tokens")
            try tokens.write(toFile: folder.path("tokens"), atomically: true, encoding: .utf8)
        }
        try await ReferenceServer.during(options) { try await body(TestClient(port: $0)) }
    }

    /// The results of `count` calls at once.
    static func all<Result: Sendable>(
        _ count: Int, _ body: @escaping @Sendable (Int) async throws -> Result
    ) async throws -> [Result] {
        try await withThrowingTaskGroup(of: Result.self) { group in
            for n in 0..<count { group.addTask { try await body(n) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    static func request(device: String, from: Int = 0, limit: Int = 500, changes: [String] = []) -> String {
        #"{"protocol":1,"cycleID":"c","deviceID":"\#(device)","lastSyncVersion":\#(from),"limit":\#(limit),"#
            + #""dirtyRecords":[\#(changes.joined(separator: ","))]}"#
    }

    static func create(_ sequence: Int, entity: String, id: String, fields: String) -> String {
        #"{"changeID":"\#(id)-\#(sequence)","sequence":\#(sequence),"entity":"\#(entity)","id":"\#(id)","#
            + #""operation":"create","schemaVersion":1,"stamp":"0195a3f2c4d1-0004","fields":\#(fields)}"#
    }
}

extension TestClient {
    func json(_ method: Method, _ path: String, bytes: [UInt8]) async throws -> Reply {
        try await send(method, path, ["Content-Type": "application/json"], body: bytes)
    }
}

extension ServerOptions {
    /// A free port, a database that goes away, and no log.
    static var quiet: ServerOptions {
        var options = ServerOptions.testing
        options.logLevel = "critical"
        return options
    }
}

/// A folder for one test, gone after it.
struct Folder {
    private let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "boards-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    func path(_ name: String) -> String { url.appending(path: name).path }

    func remove() {
        do {
            try FileManager.default.removeItem(at: url)
        } catch {
            Issue.record("the folder stays: \(error)")
        }
    }
}
