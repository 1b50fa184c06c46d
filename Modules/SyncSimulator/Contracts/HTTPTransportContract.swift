public import SyncTesting
public import Transport
import HTTPTypes
import SyncCore

/// What every ``HTTPTransport`` must keep; a rule's subject makes a fresh client, which is closed behind it.
///
/// The suite starts a ``HostileServer`` of its own for each rule, on the loopback address: it is for clients that speak HTTP.
public enum HTTPTransportContract {
    /// Makes a client.
    public typealias Subject = @Sendable () throws -> any HTTPTransport

    public static let rules: [ContractRule<Subject>] = carrying + ending

    private static func rule(
        _ name: String, _ scripts: [HostileScript],
        _ body: @escaping @Sendable (any HTTPTransport, HostileServer, Expectation) async throws -> Void
    ) -> ContractRule<Subject> {
        ContractRule("HTTPTransport", name) { make, expect in
            let server = try HostileServer(scripts)
            let http = try make()
            let result: Result<Void, any Error>
            do { result = .success(try await body(http, server, expect)) } catch { result = .failure(error) }
            await http.close()
            server.stop()
            try result.get()
        }
    }

    private static func request(_ port: UInt16, _ path: String = "/path?a=b", body: [UInt8] = []) -> HTTPRequest {
        var request = HTTPRequest(
            method: body.isEmpty ? .get : .post, scheme: "http", authority: "127.0.0.1:\(port)", path: path)
        if !body.isEmpty { request.headerFields[.contentLength] = "\(body.count)" }
        return request
    }

    /// An answer's whole body.
    private static func read(_ answer: HTTPAnswer) async throws(HTTPFailure) -> [UInt8] {
        var all: [UInt8] = []
        while let piece = try await answer.body.next() { all += piece }
        return all
    }

    private static let carrying: [ContractRule<Subject>] = [
        rule(
            "a request arrives as it is, and its answer comes as it is",
            [.answer(status: 418, headers: ["X-A: b"], "tea")]
        ) {
            http, server, expect in
            let body = [UInt8]((0...255).map { UInt8($0) })
            var sent = request(server.port, body: body)
            if let name = HTTPField.Name("X-Token") { sent.headerFields[name] = "a b" }
            let answer = try await http.send(sent, body: body)
            try expect.equal(answer.head.status.code, 418, "status")
            try expect.equal(HTTPField.Name("X-A").flatMap { answer.head.headerFields[$0] }, "b", "a header")
            try expect.equal(try await read(answer), Array("tea".utf8), "the answer's body")
            let came = server.requests.first
            try expect.equal(came?.method, "POST", "method")
            try expect.equal(came?.path, "/path?a=b", "path")
            try expect.equal(came?.headers["x-token"], "a b", "the request's header")
            try expect.equal(came?.body, body, "the request's body")
        },
        rule("a body is given as it came, packed or not", [.answer(headers: ["Content-Encoding: gzip"], [1, 2, 3])]) {
            http, server, expect in
            let answer = try await http.send(request(server.port), body: [])
            try expect.equal(try await read(answer), [1, 2, 3], "the body")
        },
        rule("no redirect is followed", [.redirect(307, to: "/elsewhere"), .answer("followed")]) {
            http, server, expect in
            let answer = try await http.send(request(server.port), body: [])
            try expect.equal(answer.head.status.code, 307, "status")
            _ = try await read(answer)
            try expect.equal(server.requests.count, 1, "requests")
        },
        rule(
            "nothing is kept from one request for the next: no cookie, no answer",
            [.answer(headers: ["Set-Cookie: a=b", "Cache-Control: max-age=600"], "first"), .answer("second")]
        ) { http, server, expect in
            for text in ["first", "second"] {
                let answer = try await http.send(request(server.port, "/same"), body: [])
                try expect.equal(try await read(answer), Array(text.utf8), "the body")
            }
            try expect.equal(server.requests.map { $0.headers["cookie"] }, [nil, nil], "cookies")
        },
        rule("a body that is dropped unread leaves the next request alone", [.answer("dropped"), .answer("next")]) {
            http, server, expect in
            _ = try await http.send(request(server.port), body: [])
            let answer = try await http.send(request(server.port), body: [])
            try expect.equal(try await read(answer), Array("next".utf8), "the body")
        },
    ]

    private static let ending: [ContractRule<Subject>] = [
        rule("D11: what breaks off is not sent again", [.resetAfterRequest, .closedUnanswered, .answer("again")]) {
            http, server, expect in
            for count in 1...2 {
                _ = try await expect.failure { () async throws(HTTPFailure) in
                    _ = try await read(try await http.send(request(server.port, body: [1]), body: [1]))
                }
                try expect.equal(server.requests.count, count, "requests")
            }
        },
        rule(
            "NET-07 a body that ends before its length, or without its last chunk, is interrupted",
            [
                .truncated([1, 2, 3], announcing: 9), .chunked([1, 2, 3, 4], isWhole: false),
                .chunked([1, 2], isWhole: true),
            ]
        ) { http, server, expect in
            for _ in 0..<2 {
                let failure = try await expect.failure { () async throws(HTTPFailure) in
                    _ = try await read(try await http.send(request(server.port), body: []))
                }
                try expect.equal(failure.kind, .interrupted, "kind")
            }
            try expect.equal(
                try await read(try await http.send(request(server.port), body: [])), [1, 2], "a whole one")
        },
        rule("where nobody listens there is no connection", [.answer("")]) { http, _, expect in
            let port = try HostileServer.closedPort()
            let failure = try await expect.failure { () async throws(HTTPFailure) in
                _ = try await http.send(request(port), body: [])
            }
            try expect.equal(failure.kind, .noConnection, "kind")
        },
        rule(
            "cancelled, a request ends, before its answer and within its body", [.silent, halfAnswer, .answer("next")]
        ) {
            http, server, expect in
            for count in 1...2 {
                let (begun, begin) = AsyncStream.makeStream(of: Void.self)
                let task = Task { () -> HTTPFailure? in  // owner: this rule, which waits for it
                    do throws(HTTPFailure) {
                        let answer = try await http.send(request(server.port), body: [])
                        _ = try await answer.body.next()
                        begin.finish()
                        _ = try await read(answer)
                        return nil
                    } catch {
                        begin.finish()
                        return error
                    }
                }
                await server.waitForRequests(count)
                // The first has no answer; of the second a part has come.
                if count == 2 { for await _ in begun {} }
                task.cancel()
                try expect.equal(await task.value?.kind, .cancelled, "kind")
            }
            let answer = try await http.send(request(server.port), body: [])
            try expect.equal(try await read(answer), Array("next".utf8), "the next")
        },
        rule("closing ends what is under way; later calls fail as closed; closing again is harmless", [.silent]) {
            http, server, expect in
            let task = Task { () -> HTTPFailure? in  // owner: this rule, which waits for it
                do throws(HTTPFailure) {
                    _ = try await http.send(request(server.port), body: [])
                    return nil
                } catch {
                    return error
                }
            }
            await server.waitForRequests(1)
            await http.close()
            try expect.isTrue(await task.value != nil, "it was answered")
            await http.close()
            let failure = try await expect.failure { () async throws(HTTPFailure) in
                _ = try await http.send(request(server.port), body: [])
            }
            try expect.equal(failure.kind, .closed, "kind")
            try expect.equal(server.requests.count, 1, "requests")
        },
    ]

    /// A part of a body, and then nothing.
    private static let halfAnswer = HostileScript([
        .send(HostileScript.head(200, "text/plain", ["Content-Length: 9"]) + [1, 2, 3]), .silence,
    ])
}
