#if HTTP
    import AsyncHTTPClient
    import Foundation
    import HTTPTypes
    import NIOCore
    import NIOHTTP1
    import SyncCore
    import Transport

    /// What an exchange costs above a bare request of the same client, over loopback, one after the other.
    enum TransportRequests {
        static func run() async throws -> [Figure] {
            let body = Array(
                #"{"protocol":1,"cycleID":"cycle","epoch":"e","currentSyncVersion":0,"hasMore":false,"count":0,"results":[],"changedRecords":[]}"#
                    .utf8)
            let server = try LoopbackServer(answering: body)
            let exchange = try BatchExchange(
                endpoint: server.url, http: AsyncHTTPClientTransport(), logger: TransportBenchmark.quiet)
            let client = HTTPClient(eventLoopGroupProvider: .singleton)
            let sent = Array(
                #"{"protocol":1,"cycleID":"cycle","deviceID":"device","lastSyncVersion":0,"limit":500,"order":"strict","dirtyRecords":[]}"#
                    .utf8)
            var ours: [Double] = []
            var bare: [Double] = []
            let clock = ContinuousClock()
            // Alternating, so that a machine that slows down slows both.
            for _ in 0..<11 {
                let first = clock.now
                for _ in 0..<1_000 { _ = try await exchange.exchange(SamplePage.request) }
                let second = clock.now
                for _ in 0..<1_000 {
                    var request = HTTPClientRequest(url: server.url + "/api/sync")
                    request.method = .POST
                    request.headers.add(name: "Content-Type", value: "application/json")
                    request.body = .bytes(sent)
                    let answer = try await client.execute(request, timeout: .seconds(30))
                    let bytes = try await answer.body.collect(upTo: 1 << 20)
                    precondition(bytes.readableBytes == body.count)
                }
                ours.append(TransportBenchmark.inSeconds(second - first) / 1_000)
                bare.append(TransportBenchmark.inSeconds(clock.now - second) / 1_000)
            }
            await exchange.close()
            try await client.shutdown()
            server.stop()
            let (value, base) = (TransportBenchmark.middle(ours) * 1e6, TransportBenchmark.middle(bare) * 1e6)
            return [
                Figure(
                    name: "transport-requests",
                    what: "1,000 exchanges of nothing one after the other, each, against the bare client's POST",
                    value: value, unit: "us", bare: base, goal: 1.1)
            ]
        }
    }
#endif
