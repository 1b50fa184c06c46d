import HTTPTypes
import SyncCore
import SyncTesting
import Testing

@testable import Transport

@Suite struct HintTests {
    private func stream(
        _ http: any HTTPTransport, credentials: any Credentials = FixedCredentials(nil),
        clock: VirtualClock = VirtualClock()
    ) throws -> EventStream {
        try EventStream(
            endpoint: "https://api.example.com", http: http, credentials: credentials, clock: clock,
            wallClock: FixedWallClock())
    }

    private func events(_ text: String, status: Int = 200, type: String = "text/event-stream") -> HTTPAnswer {
        .of(status, text, type: type)
    }

    @Test("Each event of a stream is a hint, whatever line ends, comments, ids and pieces it comes in")
    func parsing() {
        let text =
            ": hello\r\n\r\nid: 58\r\ndata: {\"currentSyncVersion\":58,\r\ndata: \"scopes\":[\"board:a\"]}\r\n\r\n"
            + "data:{\"currentSyncVersion\":59}\n\n: beat\n\nevent: x\rdata: {}\r\r"
        let expected = [
            Hint(currentSyncVersion: 58, scopes: ["board:a"]), Hint(currentSyncVersion: 59), Hint(),
        ]
        for size in [1, 2, 3, 7, 1_000] {
            var parser = EventParser()
            var hints: [Hint] = []
            var rest = Array(text.utf8)
            while !rest.isEmpty {
                hints += parser.take(Array(rest.prefix(size)))
                rest.removeFirst(min(size, rest.count))
            }
            #expect(hints == expected)
        }
    }

    @Test(
        "SEC-17 an event longer than a hint can be, or no JSON, is passed over; the next one counts, memory is bounded")
    func overlong() {
        var parser = EventParser(mostBytes: 64)
        var hints: [Hint] = []
        hints += parser.take(Array("data: {\"currentSyncVersion\":1".utf8))
        for _ in 0..<1_000 { hints += parser.take([UInt8](repeating: 0x20, count: 100)) }
        hints += parser.take(Array("}\n\ndata: nonsense\n\ndata: {\"currentSyncVersion\":2}\n\n".utf8))
        #expect(hints == [Hint(currentSyncVersion: 2)])
    }

    @Test("The request says what is known, and the end of the stream is the end of the call")
    func listening() async throws {
        let http = ScriptedHTTP([events("data: {\"currentSyncVersion\":7}\n\n")])
        let heard = Locked<[HintEvent]>([])
        try await stream(http).listen(after: 6) { event in heard.withLock { $0.append(event) } }
        #expect(heard.withLock { $0 } == [.opened, .hint(Hint(currentSyncVersion: 7))])
        let request = try #require(http.requests.first)
        #expect(request.path == "/api/events")
        #expect(request.headerFields[try #require(HTTPField.Name("Last-Event-ID"))] == "6")
    }

    @Test("A 401 asks once for new credentials; a second one is the end")
    func credentials() async throws {
        let http = ScriptedHTTP([events("", status: 401), events("", status: 401)])
        let stream = try stream(http, credentials: ScriptedCredentials("old", "new"))
        let failure = await failure { try await stream.listen(after: nil) { _ in } }
        #expect(failure?.kind == .authentication)
        #expect(http.requests.map { $0.headerFields[.authorization] } == ["Bearer old", "Bearer new"])
    }

    @Test("NET-12 a captive portal's page is no stream, and a 503 says when to come again")
    func refused() async throws {
        let portal = try stream(ScriptedHTTP([events("<html>", type: "text/html")]))
        let first = await failure { try await portal.listen(after: nil) { _ in Issue.record("nothing was heard") } }
        #expect(first?.kind == .network)
        #expect(first?.reachedServer == false)
        let busy = try stream(ScriptedHTTP([.of(503, "", type: nil, [("Retry-After", "9")])]))
        let second = await failure { try await busy.listen(after: nil) { _ in } }
        #expect(second?.kind == .temporary)
        #expect(second?.retryAfterSeconds == 9)
    }

    @Test("NET-05 a stream that falls silent ends after three beats, one that beats does not")
    func silence() async throws {
        let clock = VirtualClock()
        let beats = AsyncStream<[UInt8]>.makeStream()
        let http = ScriptedHTTP { _, _ in
            var answer = HTTPAnswer.of(200, "", type: "text/event-stream")
            answer.body = HTTPBody { () async throws(HTTPFailure) -> [UInt8]? in
                var iterator = beats.stream.makeAsyncIterator()
                guard let piece = await iterator.next() else { throw HTTPFailure(.cancelled, "cancelled") }
                return piece
            }
            return answer
        }
        let stream = try stream(http, clock: clock)
        let opened = AsyncStream<Void>.makeStream()
        async let end = failure { try await stream.listen(after: nil) { _ in opened.continuation.yield() } }
        var openings = opened.stream.makeAsyncIterator()
        await openings.next()
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(30))
        beats.continuation.yield(Array("data: {}\n\n".utf8))
        await openings.next()
        // The first watch ends at 45 s and finds that something came at 30 s: it waits for 30 s more.
        clock.advance(by: .seconds(15))
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(30))
        let failure = await end
        #expect(failure?.message.contains("silent") == true)
        #expect(failure?.reachedServer == true)
    }
}
