import HTTPTypes
import Orchestrator
import Storage
import SyncCore
import SyncServer
import SyncTesting
import Testing
import Transport

/// A server that takes one token, and streams of hints that live until the token is another.
private final class GuardedHTTP: HTTPTransport, @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    var token = "old"
    private let service: SyncService
    private let clock: VirtualClock

    init(_ service: SyncService, clock: VirtualClock) {
        self.service = service
        self.clock = clock
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPAnswer {
        guard request.headerFields[.authorization] == "Bearer \(token)" else {
            return HTTPAnswer(head: HTTPResponse(status: .unauthorized), body: HTTPBody([]))
        }
        guard request.path != "/api/events" else {
            // It breaks off while the token is still good, and is opened again with a bad one.
            do { try await clock.sleep(for: .seconds(10)) } catch { throw HTTPFailure(.cancelled, "cancelled") }
            throw HTTPFailure(.interrupted, "broken off")
        }
        return try await ServiceHTTP { self.service.sync(account: "account", body: $0) }.send(request, body: body)
    }

    func close() async {}
}

/// The app's tokens; a new one takes 40 s.
private struct SlowCredentials: Credentials {
    let clock: VirtualClock
    func token() async throws -> Token? { Token(value: "old") }
    func refresh(_ old: Token?) async throws -> Token? {
        try await clock.sleep(for: .seconds(40))
        return Token(value: "new")
    }
}

struct RenewalScenarioTests {
    @Test(
        "SCH-11 a call that needs the token for which the stream of hints waits ends before its deadline all the same")
    func hintsRenew() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let http = GuardedHTTP(server.service, clock: stage.clock)
            let bearer = BearerAuthentication(
                credentials: SlowCredentials(clock: stage.clock), account: nil, clock: stage.clock)
            let exchange = try BatchExchange(
                endpoint: "https://server.invalid", http: http, authentication: bearer, clock: stage.clock,
                wallClock: stage.wall, ids: SeededIDs(seed: 8))
            let hints = try EventStream(
                endpoint: "https://server.invalid", http: http, authentication: bearer, clock: stage.clock,
                wallClock: stage.wall, ids: SeededIDs(seed: 9))
            let device = try stage.device(exchange, hints: hints)
            try await stage.running(device) {
                try await stage.pass(.seconds(9))
                http.token = "new"
                try await stage.pass(.seconds(6))
                try await device.addBoard("b-1")
                let before = stage.seconds
                #expect(await device.engine.runOnce(deadline: .seconds(5)).end == .cancelled)
                #expect(stage.seconds - before <= 5.001)
                try await stage.pass(.seconds(90))
                #expect(try await device.store.summary().hasWork == false)
            }
            try await device.end()
            try server.end()
        }
    }
}
