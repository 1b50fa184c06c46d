import Foundation
import Logging
import NIOConcurrencyHelpers
import SyncServer
import Testing

@testable import BoardsServer

/// Who may come in, and how often.
@Suite("an account", .timeLimit(.minutes(15))) struct AccountTests {
    @Test("a tokens file: comments, blanks, tabs; lines that are neither are counted, not told")
    func lines() {
        let table = TokenTable("# tokens\n\n t1 alice \nt2\tbob # his phone\nodd\nt1 mallory\na b c\n")
        #expect(table.account(of: "t1".utf8) == "alice")
        #expect(table.account(of: "t2".utf8) == "bob")
        #expect(table.account(of: "odd".utf8) == nil && table.account(of: "".utf8) == nil)
        #expect(table.count == 2 && table.strangeLines == [5, 6, 7])
    }

    @Test("a tokens file as Windows writes it, with its line ends and a byte order mark, is read the same")
    func carriageReturns() {
        let forms = TokenTable("t1 caf\u{e9}\nt2 cafe\u{301}\nt3 caf\u{e9}\n")
        #expect(forms.strangeLines == [2], "an account that looks like another, and is none to the database")
        #expect(forms.account(of: "t3".utf8)?.unicodeScalars.count == 4)
        #expect(TokenTable("\u{FEFF}t1 alice\nt2 bob\n").account(of: "t1".utf8) == "alice")
        let table = TokenTable("# tokens\r\n\r\nt1 alice\r\nt2 bob\r\nodd\r\n")
        #expect(table.account(of: "t1".utf8) == "alice" && table.account(of: "t2".utf8) == "bob")
        #expect(table.count == 2 && table.strangeLines == [5])
    }

    @Test(
        "without a known token every route but health and figures is 401 unauthorized",
        arguments: [nil, "Bearer", "Bearer wrong", "Basic t1", "t1", "Bearer t1 t1", "bearer  "])
    func unauthorized(field: String?) async throws {
        try await Self.withTokens("t1 alice\n") { server, _ in
            let client = TestClient(port: server.port)
            let headers = field.map { ["Authorization": $0] } ?? [:]
            for path in ["/api/sync", "/1/cards", "/api/events"] {
                let reply = try await client.send(path == "/api/sync" ? .POST : .GET, path, headers)
                #expect(reply.status == 401 && reply.text.contains(#""code":"unauthorized""#))
            }
            #expect(try await client.send(.GET, "/health").status == 200)
        }
    }

    @Test("each token is its account's")
    func accounts() async throws {
        try await Self.withTokens("t1 alice\nt2 bob\nt3 alice\n") { server, _ in
            for (token, account) in [("t1", "alice"), ("t2", "bob"), ("t3", "alice")] {
                let reply = try await TestClient(port: server.port, token: token).sync("{}")
                #expect(reply.text == account)
            }
        }
    }

    @Test("the file is read again after a change in place, after a replacement, and not lost while it is away")
    func reading() async throws {
        try await Self.withTokens("t1 alice\n") { server, file in
            let book = server.program.book
            let logger = server.program.logger
            try "t1 alice\nt2 bob\n".write(to: file, atomically: false, encoding: .utf8)
            #expect(book.refresh(logger: logger) && book.account(authorization: "Bearer t2") == "bob")
            try "t3 carol\n".write(to: file, atomically: true, encoding: .utf8)
            #expect(book.refresh(logger: logger) && book.account(authorization: "Bearer t2") == nil)
            try FileManager.default.removeItem(at: file)
            #expect(!book.refresh(logger: logger) && book.account(authorization: "Bearer t3") == "carol")
            #expect(!book.refresh(logger: logger))
        }
    }

    @Test("SEC-22 an account beyond its rate gets 429 with Retry-After; another goes on")
    func rate() async throws {
        var options = ServerOptions.testing
        options.rates.perSecond = 1
        try await Self.withTokens("t1 alice\nt2 bob\n", options: options) { server, _ in
            let noisy = TestClient(port: server.port, token: "t1")
            var replies: [TestClient.Reply] = []
            for _ in 0..<5 { replies.append(try await noisy.sync("{}")) }
            #expect(replies[0].status == 200)
            let refused = try #require(replies.first { $0.status == 429 })
            #expect(refused.text.contains(#""code":"rateLimited""#))
            #expect(refused.headers.first(name: "Retry-After") == "1")
            #expect(try await TestClient(port: server.port, token: "t2").sync("{}").status == 200)
        }
    }

    @Test("SEC-22 an account with too many requests in work gets 429; another goes on")
    func concurrency() async throws {
        let (begun, begin) = AsyncStream<Void>.makeStream()
        let (releases, release) = AsyncStream<Void>.makeStream()
        var options = ServerOptions.testing
        options.rates.concurrent = 1
        let asked: HeldBackend.Asked = { account, _ in
            guard account == "alice" else { return .json(account) }
            begin.yield()
            for await _ in releases { break }
            return .json(account)
        }
        try await Self.withTokens("t1 alice\nt2 bob\n", options: options, asked: asked) { server, _ in
            let alice = TestClient(port: server.port, token: "t1")
            async let first = alice.sync("{}").status
            for await _ in begun { break }
            let second = try await alice.sync("{}").status
            let other = try await TestClient(port: server.port, token: "t2").sync("{}").status
            release.yield()
            let statuses = [try await first, second, other]
            #expect(statuses == [200, 429, 200])
        }
    }

    @Test("a bucket refills by the second, and holds no more than one second")
    func bucket() {
        var limits = RateLimits()
        limits.perSecond = 2
        var allowance = Allowance(limits, now: 0)
        #expect(allowance.take(limits, now: 0) == nil && allowance.take(limits, now: 0) == nil)
        #expect(allowance.take(limits, now: 0) == 0.5)
        #expect(allowance.take(limits, now: 500_000_000) == nil)
        #expect(allowance.take(limits, now: 500_000_000) != nil)
        for _ in 0..<2 { #expect(allowance.take(limits, now: 3_600_000_000_000) == nil) }
        #expect(allowance.take(limits, now: 3_600_000_000_000) != nil)
    }

    @Test("neither tokens nor contents are logged")
    func log() async throws {
        try await Self.withTokens("t1-secret alice\n") { server, _ in
            _ = try await TestClient(port: server.port, token: "t1-secret").sync(#"{"a":"private words"}"#)
            _ = try await TestClient(port: server.port, token: "t2-secret").sync("{}")
            _ = try await TestClient(port: server.port, token: "t1-secret").send(.GET, "/1/cards/private-id?q=private")
            #expect(server.log.text.contains(#""route":"/api/sync""#))
            #expect(!server.log.text.contains("secret") && !server.log.text.contains("private"))
        }
    }

    static func withTokens(
        _ text: String, options: ServerOptions = .testing,
        asked: @escaping HeldBackend.Asked = { account, _ in .json(account) },
        _ body: (TestServer, URL) async throws -> Void
    ) async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "tokens-\(UUID().uuidString)")
        try text.write(to: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(at: file) }
        let book = try TokenBook(path: file.path)
        try await TestServer.run(HeldBackend(asked: asked), options: options, book: book) { server in
            try await body(server, file)
        }
    }
}
