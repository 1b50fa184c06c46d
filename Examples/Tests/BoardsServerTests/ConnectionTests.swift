import NIOCore
import SyncServer
import Testing

@testable import BoardsServer

/// What one connection may do, and what it is told: over raw sockets, with deadlines of moments.
@Suite("a connection", .timeLimit(.minutes(15))) struct ConnectionTests {
    @Test("two requests on one connection get two answers, and it stays open")
    func keepAlive() async throws {
        try await TestServer.run(HeldBackend()) { server in
            try await RawConnection.open(server.port) { connection in
                for text in [#"{"a":1}"#, #"{"b":2}"#] {
                    try await connection.send(.post(text))
                    let answer = try await connection.answer()
                    #expect(answer?.head.hasPrefix("HTTP/1.1 200") == true)
                    #expect(answer?.body == text)
                }
            }
        }
    }

    @Test("pipelined requests are answered in order, one at a time")
    func pipelining() async throws {
        try await TestServer.run(HeldBackend()) { server in
            try await RawConnection.open(server.port) { connection in
                let texts = (0..<50).map { #"{"n":\#($0)}"# }
                try await connection.send(texts.map { .post($0) }.joined())
                for text in texts { #expect(try await connection.answer()?.body == text) }
            }
        }
    }

    @Test("pipelined requests before a half-close are all answered, then the connection ends")
    func pipeliningThenEnd() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let all = String.post("1") + .post("2") + .post("3")
            let answer = try await RawConnection.say(all, to: server.port, halfClose: true)
            #expect(answer.components("HTTP/1.1 200") == 3)
        }
    }

    @Test("NET-10 garbage behind a good request costs that connection, not the request")
    func pipelinedGarbage() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let answer = try await RawConnection.say(.post("1") + "\u{1}\u{2}garbage\r\n\r\n", to: server.port)
            #expect(answer.components("HTTP/1.1 200") == 1)
            #expect(answer.contains(#""code":"malformed""#))
            #expect(try await RawConnection.say(.post("2", fields: closing), to: server.port).contains("200 OK"))
        }
    }

    @Test(
        "a request of HTTP/1.1 names one host, or is none",
        arguments: [
            ("", "1.1", 400), ("Host: a\r\nhost: a\r\n", "1.1", 400), ("Host: a\r\n", "1.1", 200), ("", "1.0", 200),
        ])
    func host(fields: String, version: String, status: Int) async throws {
        try await TestServer.run(HeldBackend()) { server in
            let head = "POST /api/sync HTTP/\(version)\r\n\(fields)Connection: close\r\n"
            let answer = try await RawConnection.say(
                head + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", to: server.port)
            #expect(
                answer.hasPrefix("HTTP/\(version) \(status)") || answer.hasPrefix("HTTP/1.1 \(status)"), "\(answer)")
        }
    }

    @Test(
        "thousands of accents in a field of the head, or any in the path, are no request: to compare them would take seconds"
    )
    func accents() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let marks = String(repeating: "\u{301}\u{316}", count: 10_000)
            for head in [
                "POST /api/sync HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer\(marks) a\r\n",
                "GET /1/n\(marks) HTTP/1.1\r\nHost: a\r\n",
            ] {
                let answer = try await RawConnection.say(head + "Connection: close\r\n\r\n", to: server.port)
                #expect(answer.hasPrefix("HTTP/1.1 400"), "\(answer)")
            }
        }
    }

    @Test(
        "what is not HTTP gets 400 malformed and an end",
        arguments: [
            "hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET\r\n\r\n",
            "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
            "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
            "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
            "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}", "G\0T / HTTP/1.1\r\n\r\n",
        ])
    func garbage(text: String) async throws {
        try await TestServer.run(HeldBackend()) { server in
            let answer = try await RawConnection.say(text, to: server.port, halfClose: true)
            #expect(answer.hasPrefix("HTTP/1.1 400"), "\(answer)")
            #expect(answer.contains("application/problem+json") && answer.contains(#""code":"malformed""#))
        }
    }

    @Test("NET-07 a body that ends before its length is answered 400 and never reaches the store")
    func truncated() async throws {
        let backend = HeldBackend { _, _ in
            Issue.record("the store was asked")
            return .json("{}")
        }
        try await TestServer.run(backend) { server in
            let head = "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            for text in [
                head + "Content-Length: 10\r\n\r\n{}", head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
            ] {
                let answer = try await RawConnection.say(text, to: server.port, halfClose: true)
                #expect(answer.hasPrefix("HTTP/1.1 400"), "\(answer)")
            }
        }
    }

    @Test("a head that is not finished in time gets 408 timeout")
    func slowHead() async throws {
        var options = ServerOptions.testing
        options.connections.headerDeadline = 0.05
        try await TestServer.run(HeldBackend(), options: options) { server in
            let answer = try await RawConnection.say("POST /api/sync HTT", to: server.port)
            #expect(answer.hasPrefix("HTTP/1.1 408"))
            #expect(answer.contains(#""code":"timeout""#))
        }
    }

    @Test("a body that stops gets 408 timeout")
    func stoppedBody() async throws {
        var options = ServerOptions.testing
        options.connections.bodyIdle = 0.05
        try await TestServer.run(HeldBackend(), options: options) { server in
            let whole = String.post(#"{"protocol":1}"#)
            let answer = try await RawConnection.say(String(whole.dropLast(3)), to: server.port)
            #expect(answer.hasPrefix("HTTP/1.1 408"))
        }
    }

    @Test("NET-06 a body that trickles is ended by the total deadline, though it never rests")
    func trickle() async throws {
        var options = ServerOptions.testing
        options.connections.bodyIdle = 60
        options.connections.bodyDeadline = 0.1
        try await TestServer.run(HeldBackend(), options: options) { server in
            try await RawConnection.open(server.port) { connection in
                try await connection.send("POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
                try await connection.send("Content-Length: 1000000\r\n\r\n")
                var answer: String?
                for _ in 0..<50 { try await connection.send(" ") }
                answer = try await connection.until("\r\n")
                #expect(answer?.hasPrefix("HTTP/1.1 408") == true)
            }
        }
    }

    @Test("an idle connection is ended without a word")
    func idle() async throws {
        var options = ServerOptions.testing
        options.connections.idle = 0.05
        try await TestServer.run(HeldBackend(), options: options) { server in
            let answer = try await RawConnection.say("", to: server.port)
            #expect(answer == "")
        }
    }

    @Test("a head beyond the limit gets 431 or 400, and an end")
    func largeHead() async throws {
        var options = ServerOptions.testing
        options.connections.headerBytes = 4_096
        try await TestServer.run(HeldBackend(), options: options) { server in
            let long = String(repeating: "x", count: 20_000)
            for text in ["GET /\(long)", "GET / HTTP/1.1\r\nA: \(long)"] {
                let answer = try await RawConnection.say(text, to: server.port)
                #expect(answer.hasPrefix("HTTP/1.1 431") || answer.hasPrefix("HTTP/1.1 400"), "\(answer)")
            }
        }
    }

    @Test("a refusal waits for the request's end, and the connection goes on")
    func heldRefusal() async throws {
        var options = ServerOptions.testing
        options.connections.refusalIdle = 60
        options.connections.drainDeadline = 60
        try await TestServer.run(HeldBackend(), options: options) { server in
            try await RawConnection.open(server.port) { connection in
                let refused = String.post("abc", fields: ["Content-Type: text/plain"])
                try await connection.send(String(refused.dropLast()))
                try await connection.send("c" + .post("{}"))
                #expect(try await connection.answer()?.head.hasPrefix("HTTP/1.1 415") == true)
                #expect(try await connection.answer()?.head.hasPrefix("HTTP/1.1 200") == true)
            }
        }
    }

    @Test("a refusal comes all the same when the request does not end, and the connection does")
    func refusalWithoutEnd() async throws {
        var options = ServerOptions.testing
        options.connections.refusalIdle = 0.05
        options.connections.drainDeadline = 0.1
        try await TestServer.run(HeldBackend(), options: options) { server in
            let refused = String.post("abc", fields: ["Content-Type: text/plain"])
            let answer = try await RawConnection.say(String(refused.dropLast()), to: server.port)
            #expect(answer.hasPrefix("HTTP/1.1 415") && answer.lowercased().contains("connection: close"))
        }
    }

    @Test("a body that is declared far too large is refused before it comes")
    func declared() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let head =
                "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n"
            let answer = try await RawConnection.say(head, to: server.port)
            #expect(answer.hasPrefix("HTTP/1.1 413"))
        }
    }

    @Test(
        "a body that is declared larger than numbers are is refused before it comes",
        arguments: [
            ("9223372036854775808", 413), ("18446744073709551615", 413), ("18446744073709551616", 400),
            (String(repeating: "9", count: 100), 400),
        ])
    func declaredBeyondNumbers(length: String, status: Int) async throws {
        var options = ServerOptions.testing
        options.connections.bodyIdle = 2
        options.connections.refusalIdle = 600
        options.connections.drainDeadline = 600
        try await TestServer.run(HeldBackend(), options: options) { server in
            for expectation in ["", "Expect: 100-continue\r\n"] {
                let head = "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\(expectation)"
                try await RawConnection.open(server.port) { connection in
                    try await connection.send(head + "Content-Length: \(length)\r\n\r\n")
                    let answer = try await connection.answer()?.head ?? ""
                    #expect(answer.hasPrefix("HTTP/1.1 \(status)"), "\(answer)")
                }
            }
        }
    }

    @Test(
        "a method that nobody knows is 405 with what the path has, not garbage",
        arguments: [
            ("FOO /api/sync", "POST"), ("get /health?x=y", "GET, HEAD"),
            ("PURGE-ALL /1/boards", "GET, HEAD, POST, PUT, DELETE"),
        ])
    func unknownMethod(line: String, allowed: String) async throws {
        try await TestServer.run(HeldBackend()) { server in
            let answer = try await RawConnection.say("\(line) HTTP/1.1\r\nHost: x\r\n\r\n", to: server.port)
            #expect(answer.hasPrefix("HTTP/1.1 405"), "\(answer)")
            #expect(answer.lowercased().contains("\r\nallow: \(allowed.lowercased())\r\n"), "\(answer)")
            #expect(answer.contains(#""code":"methodNotAllowed""#))
        }
    }

    @Test("a client that asks first is told to go on")
    func expectation() async throws {
        try await TestServer.run(HeldBackend()) { server in
            try await RawConnection.open(server.port) { connection in
                try await connection.send(
                    "POST /api/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
                        + "Content-Length: 2\r\n\r\n")
                #expect(try await connection.until("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
                try await connection.send("{}")
                #expect(try await connection.answer()?.body == "{}")
            }
        }
    }

    @Test("HTTP/1.0 is answered and ended")
    func oldVersion() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let answer = try await RawConnection.say("GET /health HTTP/1.0\r\n\r\n", to: server.port)
            #expect(answer.contains("200 OK") && answer.hasSuffix(#"{"status":"ok"}"#))
        }
    }

    @Test("an upgrade that nobody takes is answered as a plain request, and the connection ends")
    func upgrade() async throws {
        try await TestServer.run(HeldBackend()) { server in
            let fields = ["Content-Type: application/json", "Connection: Upgrade", "Upgrade: h2c"]
            let answer = try await RawConnection.say(.post("{}", fields: fields), to: server.port)
            #expect(answer.contains("200 OK") && answer.hasSuffix("{}"))
        }
    }

    @Test("a stop answers what was begun, and refuses nothing of it")
    func stop() async throws {
        let (begun, begin) = AsyncStream<Void>.makeStream()
        let (releases, release) = AsyncStream<Void>.makeStream()
        let backend = HeldBackend { _, body in
            begin.yield()
            for await _ in releases { break }
            return .json("late")
        }
        try await withThrowingTaskGroup(of: String.self) { group in
            try await TestServer.run(backend) { server in
                let port = server.port
                group.addTask { try await RawConnection.say(.post("{}"), to: port) }
                for await _ in begun { break }
                release.yield()
            }
            #expect(try await group.next()?.hasSuffix("late") == true)
        }
    }

    private var closing: [String] { ["Content-Type: application/json", "Connection: close"] }
}

extension String {
    /// How many times `text` occurs.
    func components(_ text: String) -> Int { ranges(of: text).count }
}
