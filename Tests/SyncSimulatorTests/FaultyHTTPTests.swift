import Foundation
import HTTPTypes
import SyncCore
import SyncSimulator
import Testing
import Transport

/// The faults of the HTTP seam are what they say, and the exchange behind them believes none of them.
struct FaultyHTTPTests {
    /// Answers well, and counts.
    private final class Server: HTTPTransport, @unchecked Sendable {
        // Sendable: `count` is used under `lock` alone.
        private let lock = NSLock()
        private var count = 0
        var requests: Int { lock.withLock { count } }

        func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
            lock.withLock { count += 1 }
            var head = HTTPResponse(status: .ok)
            head.headerFields[.contentType] = "application/json"
            let text =
                #"{"protocol":1,"cycleID":"cycle","epoch":"e","currentSyncVersion":4,"hasMore":false,"count":0,"#
                + #""results":[],"changedRecords":[]}"#
            return HTTPAnswer(head: head, body: HTTPBody(Array(text.utf8)))
        }

        func close() async {}
    }

    @Test(
        "NET-01, NET-03, NET-07, NET-12 a fault is no answer, and the next request works",
        arguments: [
            (.lostRequest, 0, false), (.lostAnswer, 1, true), (.cut(after: 0), 1, true), (.cut(after: 60), 1, true),
            (.flippedBit(3), 1, false), (.intercepted(status: 200), 0, false), (.intercepted(status: 404), 0, nil),
        ] as [(HTTPFault, Int, Bool?)])
    func faults(_ fault: HTTPFault, arrived: Int, reached: Bool?) async throws {
        let server = Server()
        let http = FaultyHTTP(server) { number in number == 1 ? fault : nil }
        let exchange = try BatchExchange(endpoint: "https://localhost", http: http)
        let request = ExchangeRequest(cycleID: "cycle", deviceID: "device")
        do {
            _ = try await exchange.exchange(request)
            Issue.record("an answer was believed")
        } catch let failure {
            if let reached { #expect(failure.reachedServer == reached) }
        }
        #expect(server.requests == arrived)
        let answer = try await exchange.exchange(request)
        #expect(answer.currentSyncVersion == 4)
        #expect(http.faults == [fault])
        #expect(http.requestCount == 2)
        await exchange.close()
    }

    @Test("NET-03 a request that arrives twice has one answer")
    func twice() async throws {
        let server = Server()
        let http = FaultyHTTP(server) { _ in .sentTwice }
        let exchange = try BatchExchange(endpoint: "https://localhost", http: http)
        _ = try await exchange.exchange(ExchangeRequest(cycleID: "cycle", deviceID: "device"))
        #expect(server.requests == 2)
        await exchange.close()
    }

    @Test("NET-10 whichever bit of an answer is another, it is no answer or says the same of what counts")
    func bits() async throws {
        let length = 8 * 140
        for place in stride(from: 0, to: length, by: 7) {
            let http = FaultyHTTP(Server()) { _ in .flippedBit(place) }
            let exchange = try BatchExchange(endpoint: "https://localhost", http: http)
            do {
                let answer = try await exchange.exchange(
                    ExchangeRequest(cycleID: "cycle", deviceID: "device", epoch: "e", lastSyncVersion: 4))
                // Only a member that nobody asked for, or a greater version, may differ.
                #expect(answer.epoch == "e" && answer.currentSyncVersion >= 4 && answer.page.count == 0)
            } catch let failure {
                #expect(failure.kind == .network)
            }
            await exchange.close()
        }
    }
}
