#if AsyncHTTPClient && !canImport(Darwin)
    import HTTPTypes
    import SyncCore
    import SyncTesting
    import Testing

    @testable import Transport

    /// The whole way, through a real client and real sockets, to a server that misbehaves byte by byte.
    struct WireTests {
        private func run<T>(
            _ scripts: [HostileScript], scheme: String = "http", options: BatchExchange.Options = Sample.patient,
            _ body: (BatchExchange, HostileServer) async throws -> T
        ) async throws -> T {
            let server = try HostileServer(scripts)
            // So long that no connection is given up between two requests on a machine that is busy elsewhere.
            let http = AsyncHTTPClientTransport(keepAlive: .seconds(600))
            let exchange = try Sample.exchange(
                http, options: options, endpoint: "\(scheme)://127.0.0.1:\(server.port)")
            let result: Result<T, any Error>
            do { result = .success(try await body(exchange, server)) } catch { result = .failure(error) }
            await exchange.close()
            server.stop()
            return try result.get()
        }

        private func failure(
            of scripts: [HostileScript], scheme: String = "http", options: BatchExchange.Options = Sample.patient
        ) async throws -> ExchangeFailure? {
            try await run(scripts, scheme: scheme, options: options) { exchange, _ in
                await TransportTests.failure { try await exchange.exchange(Sample.request()) }
            }
        }

        @Test("a good answer, plain, in chunks, and packed, over a connection that is kept")
        func good() async throws {
            let text = Sample.answer(["count": "1", "changedRecords": "[\(Sample.record("a", 50))]"])
            let packed = try #require(Gzip.compress(Array(text.utf8)))
            let scripts: [HostileScript] = [
                .answer(text), .chunked(Array(text.utf8), isWhole: true),
                .answer(headers: ["Content-Encoding: gzip"], packed),
            ]
            try await run(scripts) { exchange, server in
                for _ in 0..<3 {
                    let answer = try await exchange.exchange(Sample.request())
                    #expect(try answer.page.next(maxRecords: 9, maxBytes: 999).map(\.version) == [50])
                }
                #expect(server.connectionCount < 3)
                #expect(server.requests.allSatisfy { $0.path == "/api/sync" && $0.method == "POST" })
                #expect(server.requests.allSatisfy { $0.headers["accept-encoding"] == "gzip" })
            }
        }

        @Test("NET-07 truncated bodies are no answer: by length, by chunks, by gzip")
        func truncated() async throws {
            let text = Array(Sample.answer().utf8)
            let packed = try #require(Gzip.compress(text))
            for script in [
                HostileScript.truncated(text, announcing: text.count + 1), .truncated([], announcing: 10_000),
                .truncated(Array(text.prefix(60)), announcing: text.count), .chunked(text, isWhole: false),
                .answer(headers: ["Content-Encoding: gzip"], Array(packed.dropLast(4))),
                .answer(headers: ["Content-Encoding: gzip"], text),
            ] {
                #expect(try await failure(of: [script])?.kind == .network)
            }
        }

        @Test("NET-01, NET-03 a lost answer is a failure, and the next try carries the same bytes")
        func lostAnswer() async throws {
            let scripts: [HostileScript] = [
                .closedUnanswered, .resetAfterRequest, .resetAtOnce,
                HostileScript([.send(HostileScript.head(200, "application/json", ["Content-Length: 9"])), .reset]),
                .answer(Sample.answer()),
            ]
            try await run(scripts) { exchange, server in
                let request = Sample.request((1...40).map { Sample.change($0) })
                for _ in 0..<4 {
                    let failure = await TransportTests.failure { try await exchange.exchange(request) }
                    #expect(failure?.kind == .network)
                    #expect(failure?.isCancelled == false)
                }
                _ = try await exchange.exchange(request)
                // The one that was reset before it was read is not among them; no other was sent twice.
                #expect(server.requests.count == 4)
                #expect(Set(server.requests.map(\.body)).count == 1)
            }
        }

        @Test("NET-05 a server that says nothing: the deadline ends it, and the next request has another connection")
        func silent() async throws {
            let server = try HostileServer([.silent, .answer(Sample.answer())])
            let clock = VirtualClock()
            let http = AsyncHTTPClientTransport()
            let exchange = try Sample.exchange(http, endpoint: server.url, clock: clock)
            async let failed = TransportTests.failure { try await exchange.exchange(Sample.request()) }
            await server.waitForRequests(1)
            // The request has left, so its deadline is set: connecting and idle, 40 seconds in all.
            clock.advance(by: .seconds(45))
            let failure = await failed
            #expect(failure?.kind == .network)
            #expect(failure?.reachedServer == true)
            #expect(server.connectionCount == 1)
            _ = try await exchange.exchange(Sample.request())
            #expect(server.connectionCount == 2)
            await exchange.close()
            server.stop()
        }

        @Test("NET-06 a slow-loris answer is ended by the least rate")
        func drip() async throws {
            var options = BatchExchange.Options()
            options.deadlines.idle = .milliseconds(300)
            options.deadlines.leastRate = 10_000
            let head = HostileScript.head(200, "application/json", ["Content-Length: 100000"])
            let script = HostileScript([
                .send(head), .drip([UInt8](repeating: 0x20, count: 10_000), every: .milliseconds(20)),
            ])
            let failure = try await failure(of: [script], options: options)
            #expect(failure?.kind == .network)
            #expect(failure?.reachedServer == true)
        }

        @Test("NET-09 a bomb ends at the limit; a stream without an end too")
        func bombs() async throws {
            var options = Sample.patient
            options.answer.total = 4 << 20
            #expect(try await failure(of: [.bomb(inflatingTo: 1 << 28)], options: options)?.kind == .network)
            let head = HostileScript.head(200, "application/json", ["Transfer-Encoding: chunked"])
            let chunk = Array("10000\r\n".utf8) + [UInt8](repeating: 0x20, count: 65_536) + Array("\r\n".utf8)
            let flood = HostileScript([.send(head), .flood(chunk, times: 1 << 20)])
            #expect(try await failure(of: [flood], options: options)?.kind == .network)
        }

        @Test("I12 a page beyond 1 MiB comes from a file, packed and plain, and reads the same")
        func large() async throws {
            let records = (1...20_000).map { Sample.record("id\($0)", 100 + $0) }.joined(separator: ",")
            let text = Sample.answer(
                ["count": "20000", "currentSyncVersion": "99999", "changedRecords": "[\(records)]"])
            #expect(text.utf8.count > 1 << 20)
            let packed = try #require(Gzip.compress(Array(text.utf8)))
            try await run([.answer(text), .answer(headers: ["Content-Encoding: gzip"], packed)]) { exchange, _ in
                for _ in 0..<2 {
                    let page = try await exchange.exchange(Sample.request()).page
                    var versions: [Int64] = []
                    while case let slice = try page.next(maxRecords: 500, maxBytes: 1 << 20), !slice.isEmpty {
                        versions += slice.map(\.version)
                    }
                    #expect(versions == (101...20_100).map(Int64.init))
                }
            }
        }

        @Test("NET-11, NET-12 foreign pages, foreign bytes and foreign redirects are no answer")
        func foreign() async throws {
            for script in [
                HostileScript.portal, .answer(type: "text/plain", Sample.answer()), .answer(""),
                .redirect(302, to: "http://portal.example.com/"), .redirect(307, to: "http://portal.example.com/"),
                .redirect(307, to: "https://127.0.0.1/"), .answer(status: 511, "{}"),
                HostileScript([.send(Array("SSH-2.0-OpenSSH_9.2\r\n".utf8)), .close]),
                HostileScript([.send(Array("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".utf8)), .close]),
                HostileScript([
                    .send(
                        HostileScript.head(
                            200, "application/json",
                            [
                                "Content-Length: 5", "Content-Length: 6",
                            ])), .close,
                ]),
            ] {
                let failure = try await failure(of: [script])
                #expect(failure?.kind == .network)
                #expect(failure?.isCancelled == false)
            }
        }

        @Test("307 within the origin is followed with method, body and headers")
        func redirect() async throws {
            try await run([.redirect(307, to: "/moved"), .answer(Sample.answer())]) { exchange, server in
                _ = try await exchange.exchange(Sample.request())
                #expect(server.requests.map(\.path) == ["/api/sync", "/moved"])
                #expect(server.requests[0].body == server.requests[1].body)
                #expect(server.requests[1].method == "POST")
            }
        }

        @Test("SEC-19 a redirect to another origin is not followed: neither the body nor the token gets there")
        func foreignOrigin() async throws {
            let other = try HostileServer([.answer(Sample.answer())])
            for status in [301, 302, 303, 307, 308] {
                let server = try HostileServer([.redirect(status, to: "\(other.url)/api/sync")])
                let exchange = try Sample.exchange(
                    AsyncHTTPClientTransport(), credentials: FixedCredentials(Token(value: "secret")),
                    endpoint: server.url)
                let failure = await TransportTests.failure {
                    try await exchange.exchange(Sample.request([Sample.change(1)]))
                }
                #expect(failure?.kind == .network)
                #expect(failure?.status == status)
                #expect(server.requests.map { $0.headers["authorization"] } == ["Bearer secret"])
                await exchange.close()
                server.stop()
            }
            #expect(other.connectionCount == 0)
            other.stop()
        }

        @Test("NET-21 no TLS on the other side: shown as such, no fallback to http")
        func noTLS() async throws {
            let text = Array("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".utf8)
            let script = HostileScript([.send(text), .close], readsRequest: false)
            let failure = try await failure(of: [script], scheme: "https")
            #expect(failure?.kind == .network)
            #expect(failure?.isSecureConnectionFailure == true)
            #expect(failure?.reachedServer == false)
        }

        @Test("a transport that is let go unclosed, since its exchange could not be made, ends without a word")
        func letGo() async throws {
            #expect(throws: (any Error).self) { try Sample.exchange(AsyncHTTPClientTransport(), endpoint: "not a url") }
        }

        @Test("nobody listens: no connection, and no server to blame")
        func refused() async throws {
            let http = AsyncHTTPClientTransport()
            let exchange = try Sample.exchange(http, endpoint: "http://127.0.0.1:\(try HostileServer.closedPort())")
            let failure = await TransportTests.failure { try await exchange.exchange(Sample.request()) }
            #expect(failure?.kind == .network)
            #expect(failure?.reachedServer == false)
            await exchange.close()
        }

        @Test("a cancelled exchange ends at once, while it waits for the head and while it reads")
        func cancelled() async throws {
            let head = HostileScript.head(200, "application/json", ["Content-Length: 100000"])
            for script in [HostileScript.silent, HostileScript([.send(head), .silence])] {
                let failure = try await run([script]) { exchange, server in
                    let task = Task { await TransportTests.failure { try await exchange.exchange(Sample.request()) } }
                    await server.waitForRequests(1)
                    task.cancel()
                    return await task.value
                }
                #expect(failure?.isCancelled == true)
            }
        }

        @Test("closing ends what is under way, and later calls fail; twice is harmless")
        func closed() async throws {
            try await run([.silent]) { exchange, server in
                async let failed = TransportTests.failure { try await exchange.exchange(Sample.request()) }
                await server.waitForRequests(1)
                await exchange.close()
                #expect(await failed?.kind == .network)
                await exchange.close()
                let later = await TransportTests.failure { try await exchange.exchange(Sample.request()) }
                #expect(later?.isCancelled == true)
            }
        }

        @Test(
            "NET-10 a status below 100 is no answer, and ends nothing but its connection", arguments: [0, 1, 42, 99])
        func statusBelowHundred(_ status: Int) async throws {
            let line = "HTTP/1.1 \(String(repeating: "0", count: 3 - "\(status)".count))\(status) X\r\n"
            let scripts = ["Content-Length: 2\r\n\r\n{}", "\r\n"].map {
                HostileScript([.send(Array((line + $0).utf8)), .close])
            }
            try await run(scripts + [.answer(Sample.answer())]) { exchange, _ in
                for _ in scripts {
                    let failure = await TransportTests.failure { try await exchange.exchange(Sample.request()) }
                    #expect(failure?.kind == .network)
                    #expect(failure?.isCancelled == false)
                }
                _ = try await exchange.exchange(Sample.request())
            }
        }

        @Test("NET-05 closing does not wait for an attempt to connect that hangs")
        func closingWhileConnecting() async throws {
            let server = try HostileServer([HostileScript([.silence], readsRequest: false)])
            let http = AsyncHTTPClientTransport(connectTimeout: .seconds(120))
            let exchange = try Sample.exchange(
                http, options: Sample.patient, endpoint: "https://127.0.0.1:\(server.port)")
            let task = Task { await TransportTests.failure { try await exchange.exchange(Sample.request()) } }
            while server.connectionCount == 0 { await Task.yield() }
            task.cancel()
            #expect(await task.value?.isCancelled == true)
            let began = ContinuousClock.now
            await exchange.close()
            #expect(began.duration(to: .now) < .seconds(60))
            server.stop()
        }

        @Test("SEC-17 a head without an end is ended")
        func endlessHead() async throws {
            let line = Array("X-Fill: \(String(repeating: "x", count: 1000))\r\n".utf8)
            let script = HostileScript([
                .send(Array("HTTP/1.1 200 OK\r\n".utf8)), .flood(line, times: 1 << 20),
            ])
            #expect(try await failure(of: [script])?.kind == .network)
        }
    }
#endif
