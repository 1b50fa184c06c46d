import SyncServer
import Testing

@testable import BoardsServer

/// What stands at which path, and what is said where nothing stands.
@Suite("a route", .timeLimit(.minutes(15))) struct RouteTests {
    @Test("a path that is not there is 404 notFound", arguments: ["/", "/api", "/api/sync/", "/1", "/x?y=z", "//"])
    func unknown(path: String) async throws {
        try await TestServer.run(HeldBackend()) { server in
            let reply = try await TestClient(port: server.port).send(.GET, path)
            #expect(reply.status == 404 && reply.text.contains(#""code":"notFound""#))
        }
    }

    @Test("a method that is not served is 405 with Allow")
    func methods() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let client = TestClient(port: server.port)
            for (path, allowed) in [("/api/sync", "POST"), ("/api/events", "GET"), ("/health", "GET, HEAD")] {
                let reply = try await client.send(.DELETE, path)
                #expect(reply.status == 405 && reply.text.contains(#""code":"methodNotAllowed""#))
                #expect(reply.headers.first(name: "Allow") == allowed)
            }
        }
    }

    @Test("a record's request reaches the store with path, query, fields and inflated body, and nothing else")
    func records() async throws {
        let backend = HeldBackend()
        try await TestServer.run(backend) { server in
            let client = TestClient(port: server.port)
            let body = Array(String(repeating: " ", count: 3_000).utf8) + Array("{}".utf8)
            let reply = try await client.send(
                .PUT, "/1/cards/a%2Fb?name=x+y&z=%C3%A4",
                [
                    "Content-Type": "application/json", "Content-Encoding": "gzip", "Idempotency-Key": "\"k\"",
                    "If-Match": "\"3\"", "Sync-Device": "d", "Cookie": "secret",
                ], body: Gzip.deflate(body))
            #expect(reply.status == 200)
            let request = try #require(backend.requests.first)
            #expect(request.method == "PUT" && request.path == "/1/cards/a%2Fb" && request.query == "name=x+y&z=%C3%A4")
            #expect(request.body == body)
            let names = request.headers.map { $0.name.lowercased() }.sorted()
            #expect(names == ["content-type", "idempotency-key", "if-match", "sync-device"])
        }
    }

    @Test("a record's body of another type is 415, no body needs none")
    func recordTypes() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let client = TestClient(port: server.port)
            let reply = try await client.send(.POST, "/1/cards", ["Content-Type": "text/plain"], body: [0x7b])
            #expect(reply.status == 415)
            #expect(try await client.send(.PUT, "/1/cards/a?name=b").status == 200)
        }
    }

    @Test("a store that cannot be asked is 503 unavailable with Retry-After, never 500")
    func unavailable() async throws {
        struct Broken: Error {}
        try await TestServer.run(HeldBackend { _, _ in throw Broken() }) { server in
            let reply = try await TestClient(port: server.port).sync("{}")
            #expect(reply.status == 503 && reply.text.contains(#""code":"unavailable""#))
            #expect(reply.headers.first(name: "Retry-After") == "1")
        }
    }

    @Test("why a store answers 503 stands in the log, and not in the answer")
    func cause() async throws {
        let backend = HeldBackend { _, _ in
            var reply = ServerReply(status: 503)
            reply.cause = "the disk is full"
            return reply
        }
        try await TestServer.run(backend) { server in
            let reply = try await TestClient(port: server.port).sync("{}")
            #expect(reply.status == 503 && !reply.text.contains("full"))
            #expect(server.log.text.contains(#""reason":"the disk is full""#))
        }
    }

    @Test("health and figures need no token, and tell of no account")
    func figures() async throws {
        let table = TokenTable("secret-token somebody\n")
        #expect(table.account(of: "secret-token".utf8) == "somebody")
        try await TestServer.run(HeldBackend()) { server in
            let client = TestClient(port: server.port)
            #expect(try await client.send(.GET, "/health").text == #"{"status":"ok"}"#)
            let head = try await client.send(.HEAD, "/health")
            #expect(head.status == 200 && head.bytes.isEmpty && head.headers.first(name: "Content-Length") == "15")
            _ = try await client.sync("{}")
            let figures = try await client.send(.GET, "/metrics")
            #expect(figures.headers.first(name: "Content-Type") == "text/plain; version=0.0.4; charset=utf-8")
            #expect(figures.text.contains(#"boards_requests_total{route="/api/sync",status="200"} 1"#))
            #expect(figures.text.contains(#"boards_request_duration_seconds_count{route="/health"} 2"#))
            #expect(figures.text.contains("boards_connections "))
        }
    }
}
