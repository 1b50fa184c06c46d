#if HTTP
    import AsyncHTTPClient
    import Foundation
    import HTTPTypes
    import Measuring
    import NIOCore
    import NIOHTTP1
    import SyncCore
    import SyncTesting
    import Transport

    // What our layers add to the HTTP client, over sockets of this machine.
    extension TransportBenchmark {
        private static let rounds = 200
        private static let requests = 10

        static func wire() async throws -> [Figure] {
            let server = try HostileServer([HostileScript([.answer(answer)])])
            let bare = HTTPClient(eventLoopGroupProvider: .singleton)
            let http = AsyncHTTPClientTransport()
            let exchange = try BatchExchange(endpoint: server.url, http: http, logger: quiet)
            let result: Result<[Figure], any Error>
            do {
                result = .success(
                    [try await sequential(server, http, bare), try await nothing(server, exchange, bare)])
            } catch { result = .failure(error) }
            await exchange.close()
            try await bare.shutdown()
            server.stop()
            return try result.get()
        }

        /// Requests one after the other through our HTTP seam.
        private static func sequential(
            _ server: HostileServer, _ http: AsyncHTTPClientTransport, _ bare: HTTPClient
        ) async throws -> Figure {
            let body = emptyRequest()
            let request = HTTPRequest(
                method: .post, scheme: "http", authority: "127.0.0.1:\(server.port)", path: "/api/sync",
                headerFields: [.contentType: "application/json"])
            return try await compare(
                name: "transport-sequential",
                what: "\(rounds * requests) requests one after the other, against AsyncHTTPClient",
                goal: 1.1
            ) {
                let answer = try await http.send(request, body: body)
                while try await answer.body.next() != nil {}
            } bare: {
                try await post(body, [("Content-Type", "application/json")], server, bare)
            }
        }

        /// A whole exchange that carries nothing.
        private static func nothing(
            _ server: HostileServer, _ exchange: BatchExchange, _ bare: HTTPClient
        ) async throws -> Figure {
            let body = emptyRequest()
            let request = ExchangeRequest(cycleID: "cycle", deviceID: "device")
            _ = try await exchange.exchange(request)
            // The very bytes: header fields and body as the exchange sent them. The client makes two by itself.
            let own: Set = ["host", "content-length"]
            let sent = server.requests.last
            precondition(sent?.body == body)
            let fields = (sent?.headers ?? [:]).filter { !own.contains($0.key) }.sorted { $0.key < $1.key }
            let headers = fields.map { ($0.key, $0.value) }
            return try await compare(
                name: "transport-nothing", what: "an exchange of nothing, against a bare POST of the same bytes",
                goal: 1.3
            ) {
                _ = try await exchange.exchange(request)
            } bare: {
                try await post(body, headers, server, bare)
            }
        }

        /// Small rounds in turn, so that what else the machine does meets both; the middle round of each counts.
        private static func compare(
            name: String, what: String, goal: Double, ours: () async throws -> Void, bare: () async throws -> Void
        ) async throws -> Figure {
            func round(_ work: () async throws -> Void) async throws -> Double {
                let clock = ContinuousClock()
                let start = clock.now
                for _ in 0..<requests { try await work() }
                let time = (clock.now - start).components
                return (Double(time.seconds) + Double(time.attoseconds) * 1e-18) / Double(requests)
            }
            for _ in 0..<10 {
                _ = try await round(ours)
                _ = try await round(bare)
            }
            var (mine, theirs): ([Double], [Double]) = ([], [])
            for _ in 0..<rounds {
                mine.append(try await round(ours))
                theirs.append(try await round(bare))
            }
            return Figure(
                name: name, what: what, value: middle(mine) * 1e6, unit: "µs", bare: middle(theirs) * 1e6, goal: goal)
        }

        private static func post(
            _ body: [UInt8], _ headers: [(String, String)], _ server: HostileServer, _ client: HTTPClient
        ) async throws {
            var request = HTTPClientRequest(url: "\(server.url)/api/sync")
            request.method = .POST
            for (name, value) in headers { request.headers.add(name: name, value: value) }
            request.body = .bytes(body)
            let response = try await client.execute(request, timeout: .seconds(30))
            for try await _ in response.body {}
        }

        /// The bytes of an exchange of nothing.
        private static func emptyRequest() -> [UInt8] {
            Array(
                #"{"protocol":1,"cycleID":"cycle","deviceID":"device","lastSyncVersion":0,"limit":500,"order":"strict","dirtyRecords":[]}"#
                    .utf8)
        }

        @Sendable private static func answer(_ request: HostileRequest) -> [UInt8] {
            let body = Array(
                #"{"protocol":1,"cycleID":"cycle","epoch":"e","currentSyncVersion":0,"hasMore":false,"count":0,"results":[],"changedRecords":[]}"#
                    .utf8)
            return HostileScript.head(200, "application/json", ["Content-Length: \(body.count)"]) + body
        }
    }
#endif
