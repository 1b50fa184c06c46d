import HTTPTypes
import SyncCore
import SyncTesting
import Testing

@testable import Transport

/// What stands around every request: authentication, compression, redirects.
struct CallTests {
    /// Credentials that count how often they are asked.
    actor CountingCredentials: Credentials {
        var value: Token?
        var next: [Token?]
        var refreshes = 0
        private let gate: (@Sendable () async -> Void)?

        init(_ value: Token?, next: [Token?], gate: (@Sendable () async -> Void)? = nil) {
            self.value = value
            self.next = next
            self.gate = gate
        }

        func token() async throws -> Token? { value }
        func signIn(_ token: Token) { value = token }

        func refresh(_ old: Token?) async throws -> Token? {
            refreshes += 1
            await gate?()
            let new = next.isEmpty ? nil : next.removeFirst()
            if let new { value = new }
            return new
        }
    }

    /// Answers 401 to everything but this token.
    private func server(accepting token: String) -> ScriptedHTTP {
        ScriptedHTTP { request, _ in
            request.headerFields[.authorization] == "Bearer \(token)"
                ? .of(200, Sample.answer()) : .problem(401, "unauthorized")
        }
    }

    @Test("the request is the contract's")
    func request() async throws {
        let http = ScriptedHTTP([.of(200, Sample.answer())])
        let credentials = FixedCredentials(Token(value: "secret", account: "me"))
        let exchange = try Sample.exchange(
            http, credentials: credentials, account: "me", endpoint: "https://a.example/v2")
        _ = try await exchange.exchange(Sample.request())
        let request = try #require(http.requests.first)
        #expect(request.method == .post)
        #expect(request.scheme == "https")
        #expect(request.authority == "a.example")
        #expect(request.path == "/v2/api/sync")
        #expect(request.headerFields[.contentType] == "application/json")
        #expect(request.headerFields[.acceptEncoding] == "gzip")
        #expect(request.headerFields[.authorization] == "Bearer secret")
        #expect(request.headerFields[.contentLength] == "\(http.bodies[0].count)")
        #expect(request.headerFields[.requestID] == "cycle")
        #expect(request.headerFields[.contentEncoding] == nil)
        #expect(http.bodies[0] == (try BatchEncoder().encode(Sample.request()).body))
    }

    @Test("SEC-01 a refused token is renewed once and the request sent once more")
    func renewal() async throws {
        let http = server(accepting: "new")
        let credentials = CountingCredentials(Token(value: "old"), next: [Token(value: "new")])
        let exchange = try Sample.exchange(http, credentials: credentials)
        for _ in 0..<5 { _ = try await exchange.exchange(Sample.request()) }
        #expect(await credentials.refreshes == 1)
        #expect(http.requests.count == 6)
    }

    @Test("SEC-01 one renewal serves all who wait for it")
    func sharedRenewal() async throws {
        let http = server(accepting: "new")
        let refused = Locked(0)
        let (all, go) = AsyncStream.makeStream(of: Void.self)
        let counting = ScriptedHTTP { request, body async throws(HTTPFailure) in
            let answer = try await http.send(request, body: body)
            if answer.head.status.code == 401,
                refused.withLock({
                    $0 += 1; return $0
                }) == 10
            {
                go.finish()
            }
            return answer
        }
        // The renewal ends only after all ten have been refused.
        let credentials = CountingCredentials(Token(value: "old"), next: [Token(value: "new")]) {
            for await _ in all {}
        }
        let exchange = try Sample.exchange(counting, credentials: credentials)
        try await withThrowingTaskGroup { group in
            for _ in 0..<10 { group.addTask { _ = try await exchange.exchange(Sample.request()) } }
            try await group.waitForAll()
        }
        #expect(await credentials.refreshes == 1)
        #expect(http.requests.count == 20)
    }

    @Test("SEC-02, SEC-03 no new token, the same one again, or one that is refused too: authentication, no loop")
    func impossible() async throws {
        for next in [[], [Token(value: "old")], [Token(value: "also bad")]] as [[Token?]] {
            let http = server(accepting: "none")
            let credentials = CountingCredentials(Token(value: "old"), next: next)
            let exchange = try Sample.exchange(http, credentials: credentials)
            let failure = await failure { try await exchange.exchange(Sample.request()) }
            #expect(failure?.kind == .authentication)
            #expect(await credentials.refreshes == 1)
            #expect(http.requests.count <= 2)
        }
    }

    @Test("SCH-11 who waits for another's renewal leaves it when it is cancelled; the renewal goes on for the others")
    func givenUp() throws {
        let executor = SeededExecutor(seed: 1)
        let clock = executor.clock
        try executor.complete {
            let credentials = CountingCredentials(Token(value: "old"), next: [Token(value: "new")]) {
                do { try await clock.sleep(for: .seconds(60)) } catch { Issue.record("the renewal was cancelled") }
            }
            let bearer = BearerAuthentication(credentials: credentials, account: nil, clock: clock)
            let plain = HTTPRequest(method: .get, scheme: "https", authority: "a.example", path: "/")
            let refused = try await bearer.authenticate(plain, body: [])
            await withTaskGroup(of: Void.self) { group in
                group.addTask { #expect(await Self.renewed(bearer, refused) == nil) }
                try? await clock.sleep(for: .seconds(1))
                group.addTask { #expect(await Self.renewed(bearer, refused) == nil) }
                let failure = await withTaskGroup(of: HTTPFailure?.self) { impatient in
                    impatient.addTask { await Self.renewed(bearer, refused) }
                    try? await clock.sleep(for: .seconds(5))
                    impatient.cancelAll()
                    return await impatient.next() ?? nil
                }
                #expect(failure?.kind == .cancelled)
                #expect(clock.now.elapsed == .seconds(6))
                await group.waitForAll()
            }
            #expect(clock.now.elapsed == .seconds(60))
            #expect(await credentials.refreshes == 1)
        }
    }

    private static func renewed(_ bearer: BearerAuthentication, _ request: HTTPRequest) async -> HTTPFailure? {
        do throws(HTTPFailure) {
            #expect(try await bearer.renew(after: request))
            return nil
        } catch {
            return error
        }
    }

    @Test(
        "SEC-03 refused for hours: credentials that bring nothing, or what is refused too, are asked ever more seldom",
        arguments: [true, false])
    func refusedForHours(bringsNew: Bool) throws {
        let executor = SeededExecutor(seed: 1)
        let clock = executor.clock
        try executor.complete {
            let http = self.server(accepting: "right")
            let fresh = (0..<1_000).map { bringsNew ? Token(value: "new-\($0)") : nil }
            let credentials = CountingCredentials(Token(value: "old"), next: fresh)
            let exchange = try Sample.exchange(http, credentials: credentials, clock: clock)
            // A pull each period for six hours.
            for _ in 0..<720 {
                let failure = await failure { try await exchange.exchange(Sample.request()) }
                #expect(failure?.kind == .authentication)
                try await clock.sleep(for: .seconds(30))
            }
            // 1, 2, 4 … 60 min apart.
            #expect((6...13).contains(await credentials.refreshes))
            // The user has signed in again.
            await credentials.signIn(Token(value: "right"))
            _ = try await exchange.exchange(Sample.request())
        }
    }

    @Test("SEC-01 a token that was accepted and ran out is renewed at once, however soon")
    func runsOut() async throws {
        let accepted = Locked("t0")
        let http = ScriptedHTTP { request, _ in
            request.headerFields[.authorization] == "Bearer \(accepted.withLock { $0 })"
                ? .of(200, Sample.answer()) : .problem(401, "unauthorized")
        }
        let credentials = CountingCredentials(
            Token(value: "t0"), next: (1...10).map { Token(value: "t\($0)") })
        let exchange = try Sample.exchange(http, credentials: credentials)
        for number in 1...10 {
            _ = try await exchange.exchange(Sample.request())
            accepted.withLock { $0 = "t\(number)" }
            _ = try await exchange.exchange(Sample.request())
        }
        #expect(await credentials.refreshes == 10)
    }

    @Test("SEC-12 a token of another account is never sent, nor one that comes as a new one")
    func otherAccount() async throws {
        let http = server(accepting: "none")
        let wrong = FixedCredentials(Token(value: "t", account: "b"))
        let exchange = try Sample.exchange(http, credentials: wrong, account: "a")
        #expect(await failure { try await exchange.exchange(Sample.request()) }?.kind == .authentication)
        #expect(http.requests.isEmpty)
        let turning = CountingCredentials(Token(value: "t", account: "a"), next: [Token(value: "u", account: "b")])
        let second = try Sample.exchange(http, credentials: turning, account: "a")
        #expect(await failure { try await second.exchange(Sample.request()) }?.kind == .authentication)
        #expect(http.requests.map { $0.headerFields[.authorization] } == ["Bearer t"])
    }

    @Test("credentials that throw mean later, not the user's turn; a token that breaks a header is not sent")
    func throwing() async throws {
        struct Offline: Error {}
        struct Failing: Credentials {
            func token() async throws -> Token? { throw Offline() }
            func refresh(_ old: Token?) async throws -> Token? { nil }
        }
        let http = ScriptedHTTP([.of(200, Sample.answer())])
        let offline = try Sample.exchange(http, credentials: Failing())
        #expect(await failure { try await offline.exchange(Sample.request()) }?.kind == .network)
        let split = try Sample.exchange(http, credentials: FixedCredentials(Token(value: "a\r\nX-Evil: 1")))
        #expect(await failure { try await split.exchange(Sample.request()) }?.kind == .authentication)
        #expect(http.requests.isEmpty)
    }

    private let large = (1...50).map { Sample.change($0) }

    @Test("bodies of 1 KiB or more are gzip, smaller ones plain")
    func compression() async throws {
        let http = ScriptedHTTP { _, _ in .of(200, Sample.answer()) }
        let exchange = try Sample.exchange(http)
        _ = try await exchange.exchange(Sample.request())
        let answer = try await exchange.exchange(Sample.request(large))
        #expect(http.requests.map { $0.headerFields[.contentEncoding] } == [nil, "gzip"])
        #expect(answer.bytesSent == http.bodies[1].count)
        let collector = try BodyCollector(limits: AnswerLimits(), isGzip: true)
        try collector.append(http.bodies[1])
        let body = try collector.finish()
        #expect(body.bytes[0..<body.count] == (try BatchEncoder().encode(Sample.request(large)).body))
    }

    @Test("after a 415 the same request goes plain, and so do all later ones")
    func unsupported() async throws {
        let http = ScriptedHTTP { request, _ in
            request.headerFields[.contentEncoding] == nil
                ? .of(200, Sample.answer()) : .problem(415, "unsupportedMediaType")
        }
        let exchange = try Sample.exchange(http)
        _ = try await exchange.exchange(Sample.request(large))
        _ = try await exchange.exchange(Sample.request(large))
        #expect(http.requests.map { $0.headerFields[.contentEncoding] } == ["gzip", nil, nil])
        #expect(http.bodies[1] == http.bodies[2])
        let never = ScriptedHTTP([.problem(415, "unsupportedMediaType")])
        let refused = try Sample.exchange(never)
        #expect(await failure { try await refused.exchange(Sample.request(large)) }?.kind == .unknown)
        #expect(never.requests.count == 2)
    }

    @Test("307 and 308 within the origin are followed with the same method, body and headers", arguments: [307, 308])
    func redirects(_ status: Int) async throws {
        let http = ScriptedHTTP { request, _ in
            request.path == "/new"
                ? .of(200, Sample.answer()) : .of(status, "", type: nil, [("Location", "https://api.example.com/new")])
        }
        let exchange = try Sample.exchange(http, credentials: FixedCredentials(Token(value: "secret")))
        _ = try await exchange.exchange(Sample.request(large))
        #expect(http.requests.map(\.path) == ["/api/sync", "/new"])
        var again = http.requests[1]
        again.path = "/api/sync"
        #expect(again == http.requests[0])
        #expect(http.bodies[0] == http.bodies[1])
    }

    @Test(
        "SEC-19 Authorization never follows a redirect to another origin; other redirects are never followed",
        arguments: [
            (307, "https://evil.example.com/api/sync"), (308, "http://api.example.com/api/sync"),
            (307, "https://api.example.com:444/"), (301, "/new"), (302, "/new"), (303, "/new"), (300, "/new"),
            (307, ""),
        ])
    func foreignRedirects(_ status: Int, _ location: String) async throws {
        let http = ScriptedHTTP([.of(status, "", type: nil, [("Location", location)])])
        let exchange = try Sample.exchange(http, credentials: FixedCredentials(Token(value: "secret")))
        #expect(await failure { try await exchange.exchange(Sample.request()) }?.kind == .network)
        #expect(http.requests.count == 1)
    }

    @Test("a redirect in a circle ends")
    func circle() async throws {
        let http = ScriptedHTTP([.of(307, "", type: nil, [("Location", "/api/sync")])])
        let exchange = try Sample.exchange(http)
        #expect(await failure { try await exchange.exchange(Sample.request()) }?.kind == .network)
        #expect(http.requests.count == 6)
    }

    @Test("D11 whatever fails, nothing is sent a second time")
    func noRetries() async throws {
        let kinds: [HTTPFailure.Kind] = [
            .noConnection, .timedOut, .secureConnection, .interrupted, .unusable, .local, .cancelled, .closed,
        ]
        for kind in kinds {
            let http = ScriptedHTTP { _, _ throws(HTTPFailure) in throw HTTPFailure(kind, "no") }
            let exchange = try Sample.exchange(http)
            let failure = await failure { try await exchange.exchange(Sample.request(large)) }
            #expect(failure?.kind == .network)
            #expect(failure?.isCancelled == (kind == .cancelled || kind == .closed))
            #expect(failure?.isSecureConnectionFailure == (kind == .secureConnection))
            #expect(failure?.reachedServer == (kind == .timedOut || kind == .interrupted))
            #expect(http.requests.count == 1)
        }
    }

    @Test("a coding that was not asked for is no answer; a length that is not kept neither")
    func codings() async throws {
        for field in [("Content-Encoding", "br"), ("Content-Encoding", "gzip, gzip"), ("Content-Length", "7")] {
            let exchange = try Sample.exchange(
                ScriptedHTTP([.of(200, Sample.answer(), type: "application/json", [field])]))
            #expect(await failure { try await exchange.exchange(Sample.request()) }?.kind == .network)
        }
    }

    @Test("closing the exchange closes the client")
    func close() async throws {
        let http = ScriptedHTTP([.of(200, Sample.answer())])
        try await Sample.exchange(http).close()
        #expect(http.closeCount == 1)
    }

    @Test("OBS-08 what is logged or told has no contents and no secrets")
    func redaction() {
        let json = Array(#"{"token":"s3cr3t","name":"Ann","n":1,"list":["x"],"protocol":1}"#.utf8)
        #expect(Redaction.beginning(of: json) == #"{"token":"…","name":"…","n":1,"list":["…"],"protocol":1}"#)
        let long = Array(("<p>" + String(repeating: "word ", count: 100)).utf8)
        #expect(Redaction.beginning(of: long).utf8.count <= 210)
        let header = Array("Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6 at /a?token=1".utf8)
        #expect(Redaction.beginning(of: header) == "Bearer … at /a?…")
        #expect(Redaction.beginning(of: [0xff, 0x00, 0x1b, 0x41]) == "\u{fffd} A")
        #expect(Redaction.beginning(of: Array(#"{"cut":"s3cr"#.utf8)) == #"{"cut":"…""#)
    }
}
