import HTTPTypes
import Orchestrator
import Storage
import SyncCore
import SyncServer
import SyncTesting
import Testing
import Transport

/// A proxy in front of the real server: while it has pages of its own it answers with these, in turn.
private final class Proxy: HTTPTransport, @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    struct Page: Sendable {
        var status: Int
        var type: String?
        var text: String
    }

    var pages: [Page] = []
    private(set) var answered: [Int: Int] = [:]
    private let service: SyncService

    init(_ service: SyncService) { self.service = service }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        guard let page = pages.first else {
            return try await ServiceHTTP { self.service.sync(account: "account", body: $0) }.send(request, body: body)
        }
        pages.append(pages.removeFirst())
        answered[page.status, default: 0] += 1
        var head = HTTPResponse(status: .init(code: page.status))
        head.headerFields[.contentType] = page.type
        return HTTPAnswer(head: head, body: HTTPBody(Array(page.text.utf8)))
    }

    func close() async {}
}

/// What an engine told, as it came.
private final class Told: @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    private(set) var events: [SyncEvent] = []
    func note(_ event: SyncEvent) { events.append(event) }
}

struct OutageScenarioTests {
    private static let insecure = ExchangeFailure(
        kind: .network, message: "the certificate is another host's", isSecureConnectionFailure: true)

    @Test(
        "NET-12 NET-21 a portal, or another end that cannot be trusted: it is shown, nothing is blamed, then all goes",
        arguments: [ExchangeFailure.portal, insecure])
    func foreign(failure: ExchangeFailure) throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            for number in 0..<3 { try await device.addBoard("b-\(number)") }
            port.otherwise = .fail(failure)
            try await stage.running(device) {
                try await stage.pass(.seconds(600))
                #expect(await device.status.lastEnd == .exchange(failure))
                let waiting = try await device.store.queued()
                #expect(waiting.count == 3)
                #expect(waiting.allSatisfy { $0.attempts == 0 })
                #expect(try await device.store.summary().failed == 0)
                #expect(
                    Set(port.requests.flatMap(\.changes).map(\.id)).count == 3, "their keys are the same all the time")
                port.otherwise = .pass
                try await stage.pass(.seconds(40))
                #expect(await device.status.lastEnd == .complete)
                #expect(try await device.store.summary().hasWork == false)
            }
            try await device.end()
        }
    }

    @Test("NET-14 half an hour of a proxy's pages, 404, 503, empty and a portal's, removes nothing and moves nothing")
    func maintenance() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let proxy = Proxy(server.service)
            let exchange = try BatchExchange(
                endpoint: "https://server.invalid", http: proxy, clock: stage.clock, wallClock: stage.wall,
                ids: SeededIDs(seed: 9))
            let other = try stage.device(server.exchange, seed: 2)
            for number in 0..<1_000 { try await other.addBoard("b-\(number)") }
            #expect(try await other.engine.sync(for: .seconds(60)).isInStep)
            let device = try stage.device(exchange)
            #expect(try await device.engine.sync(for: .seconds(60)).isInStep)
            let rows = try device.rows("board")
            #expect(rows.count == 1_000)
            let checkpoint = try await device.store.position().checkpoint
            let told = Told()
            try await withThrowingTaskGroup(of: Void.self) { group in
                let events = await device.engine.events()
                group.addTask { for await event in events { told.note(event) } }
                try await stage.running(device) {
                    proxy.pages = [
                        .init(status: 404, type: "text/html", text: "<h1>Not found</h1>"),
                        .init(status: 503, type: "text/html", text: "<h1>Maintenance</h1>"),
                        .init(status: 200, type: "application/json", text: ""),
                        .init(status: 200, type: "text/html", text: "<h1>Sign in</h1>"),
                    ]
                    try await stage.pass(.seconds(1_800))
                    #expect(Set(proxy.answered.keys) == [200, 404, 503])
                    #expect((proxy.answered[200] ?? 0) > (proxy.answered[404] ?? 0))
                    #expect(try device.rows("board") == rows)
                    #expect(try await device.store.position().checkpoint == checkpoint)
                    #expect(try await device.store.position().isInFullPass == false)
                    proxy.pages = []
                    try await other.addBoard("b-last")
                    _ = try await other.engine.sync(for: .seconds(5))
                    try await stage.pass(.seconds(60))
                    #expect(await device.status.lastEnd == .complete)
                    #expect(try device.rows("board").count == 1_001)
                }
                group.cancelAll()
            }
            for event in told.events {
                #expect(event != .fullPassBegan)
                if case .cycleEnded(let report) = event { #expect(report.removed == 0) }
            }
            #expect(!told.events.isEmpty)
            try await device.end()
            try await other.end()
            try server.end()
        }
    }
}
