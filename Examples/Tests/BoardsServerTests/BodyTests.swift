import SyncServer
import Testing

@testable import BoardsServer

/// What may come as a body, how large, and in which encoding; and how answers are packed.
@Suite("a body", .timeLimit(.minutes(15))) struct BodyTests {
    private static let json = ["Content-Type": "application/json"]

    @Test(
        "a body packed in two parts is one gzip, whatever stands in front",
        arguments: [0, 1, 300, 65_535, 70_000, 140_000])
    func twoParts(count: Int) throws {
        let first = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let tail = Array(String(repeating: #"{"entity":"card","version":7},"#, count: 1_000).utf8)
        let packed = try #require(Gzip.packedTail(tail))
        let whole = Gzip.joined(first, packed, count: tail.count)
        #expect(try Gzip.inflate(whole, limit: 1 << 20) == first + tail)
        #expect(whole.count < count + tail.count / 10)
        #expect(Gzip.packedTail([1, 2, 3]) == nil)
    }

    @Test(
        "NET-11 a sync without the type application/json is refused with 415",
        arguments: [
            nil, "text/plain", "text/html", "application/x-www-form-urlencoded", "application/json; charset=latin1",
        ])
    func wrongType(type: String?) async throws {
        try await TestServer.run(HeldBackend()) { server in
            let headers = type.map { ["Content-Type": $0] } ?? [:]
            let reply = try await TestClient(port: server.port).send(
                .POST, "/api/sync", headers, body: Array("{}".utf8))
            #expect(reply.status == 415 && reply.text.contains(#""code":"unsupportedMediaType""#))
            #expect(reply.headers.first(name: "Content-Type") == "application/problem+json")
        }
    }

    @Test(
        "the type counts in any case and with UTF-8 named",
        arguments: [
            "application/json", "Application/JSON", "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
        ])
    func rightType(type: String) async throws {
        try await TestServer.run(HeldBackend()) { server in
            let reply = try await TestClient(port: server.port).send(
                .POST, "/api/sync", ["Content-Type": type], body: Array("{}".utf8))
            #expect(reply.status == 200)
        }
    }

    @Test("SEC-18 NET-09 a compressed bomb stops at the limit with 413, and the next request is answered")
    func bomb() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let client = TestClient(port: server.port)
            let bomb = try #require(Gzip.deflate([UInt8](repeating: 0x20, count: 64 << 20)))
            #expect(bomb.count < 1 << 20)
            let headers = Self.json.merging(["Content-Encoding": "gzip"]) { $1 }
            let reply = try await client.send(.POST, "/api/sync", headers, body: bomb)
            #expect(reply.status == 413 && reply.text.contains(#""code":"tooLarge""#))
            #expect(try await client.sync("{}").status == 200)
            // The two bytes of the request that was just answered are given back after its answer.
            #expect(server.program.vitals.held <= 2)
        }
    }

    @Test("a body compressed 30:1 within the limit arrives whole")
    func compressed() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let text = "[" + String(repeating: #"{"name":"a card"},"#, count: 100_000) + "0]"
            let packed = try #require(Gzip.deflate(Array(text.utf8)))
            let reply = try await TestClient(port: server.port).send(
                .POST, "/api/sync", Self.json.merging(["Content-Encoding": "gzip"]) { $1 }, body: packed)
            #expect(reply.status == 200 && reply.text == text)
        }
    }

    @Test("several gzip members after each other count as one body")
    func members() async throws {
        let one = Array(String(repeating: "a", count: 500).utf8)
        let packed = try #require(Gzip.deflate(one))
        #expect(try Gzip.inflate(packed + packed, limit: 1_000) == one + one)
        #expect(throws: Gzip.Failure.tooLarge) { try Gzip.inflate(packed + packed, limit: 999) }
    }

    @Test("gzip that is damaged, cut off or followed by more is refused with 400")
    func damaged() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let client = TestClient(port: server.port)
            let whole = try #require(Gzip.deflate(Array(String(repeating: "{ }", count: 5_000).utf8)))
            var bent = whole
            bent[bent.count / 2] ^= 0xff
            for body in [[], Array("{}".utf8), Array(whole.dropLast(9)), whole + [1, 2, 3], bent] {
                let reply = try await client.send(
                    .POST, "/api/sync", Self.json.merging(["Content-Encoding": "gzip"]) { $1 }, body: body)
                #expect(reply.status == 400 && reply.text.contains(#""code":"malformed""#))
            }
        }
    }

    @Test("an encoding that is not known is refused with 415", arguments: ["br", "deflate", "gzip, gzip", "zstd"])
    func unknownEncoding(name: String) async throws {
        try await TestServer.run(HeldBackend()) { server in
            let reply = try await TestClient(port: server.port).send(
                .POST, "/api/sync", Self.json.merging(["Content-Encoding": name]) { $1 }, body: [1, 2, 3])
            #expect(reply.status == 415 && reply.headers.first(name: "Accept-Encoding") == "gzip")
        }
    }

    @Test("SEC-17 a plain body beyond the limit gets 413, told before and not told before")
    func tooLarge() async throws {
        var options = ServerOptions.testing
        options.connections.bodyBytes = 10_000
        try await TestServer.run(HeldBackend(), options: options) { server in
            let body = String(repeating: " ", count: 10_001)
            let chunked =
                "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                + String(10_001, radix: 16) + "\r\n" + body + "\r\n0\r\n\r\n"
            try await RawConnection.open(server.port) { connection in
                for text in [.post(body), chunked] {
                    try await connection.send(text)
                    let answer = try await connection.answer()
                    #expect(answer?.head.hasPrefix("HTTP/1.1 413") == true)
                    #expect(answer?.body.contains(#""code":"tooLarge""#) == true)
                }
            }
            let exact = try await TestClient(port: server.port).sync(String(body.dropLast()))
            #expect(exact.status == 200)
        }
    }

    @Test("a refusal arrives though the client sends its whole large body first")
    func largeRefused() async throws {
        var options = ServerOptions.testing
        options.connections.refusalIdle = 60
        options.connections.drainDeadline = 60
        try await TestServer.run(HeldBackend(), options: options) { server in
            let reply = try await TestClient(port: server.port).sync(String(repeating: " ", count: 20 << 20))
            #expect(reply.status == 413)
        }
    }

    @Test("bodies held beyond the common limit are refused with 503 until others are decided")
    func heldBytes() async throws {
        var options = ServerOptions.testing
        options.connections.heldBytes = 1_000
        try await TestServer.run(HeldBackend(), options: options) { server in
            let client = TestClient(port: server.port)
            let reply = try await client.sync(String(repeating: " ", count: 1_001))
            #expect(reply.status == 503 && reply.text.contains(#""code":"unavailable""#))
            #expect(reply.headers.first(name: "Retry-After") == "1")
            #expect(try await client.sync("{}").status == 200)
        }
    }

    @Test("an answer is compressed where it is asked for and pays")
    func answers() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let client = TestClient(port: server.port)
            let long = String(repeating: #"{"name":"a card"}"#, count: 2_000)
            let plain = try await client.sync(long)
            #expect(plain.headers.first(name: "Content-Encoding") == nil && plain.text == long)
            let packed = try await client.sync(long, ["Accept-Encoding": "deflate, gzip;q=0.5"])
            #expect(packed.headers.first(name: "Content-Encoding") == "gzip")
            #expect(try Gzip.inflate(packed.bytes, limit: 1 << 20) == Array(long.utf8))
            let refused = try await client.sync(long, ["Accept-Encoding": "gzip;q=0, *"])
            #expect(refused.headers.first(name: "Content-Encoding") == nil)
            let short = try await client.sync("{}", ["Accept-Encoding": "gzip"])
            #expect(short.headers.first(name: "Content-Encoding") == nil)
        }
    }
}
