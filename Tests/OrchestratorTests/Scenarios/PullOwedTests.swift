import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing

/// A server that takes no changes, in some way or other, and answers everything else.
private final class Writeless: Exchange, @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    var refusal: ExchangeFailure?
    /// It says nothing for so long.
    var silence: Duration = .zero
    /// The changes of each request, whatever became of it.
    private(set) var sent: [Int] = []
    private let inner: any Exchange
    private let clock: VirtualClock

    init(_ inner: any Exchange, clock: VirtualClock) {
        self.inner = inner
        self.clock = clock
    }

    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        sent.append(request.changes.count)
        guard let refusal, !request.changes.isEmpty else { return try await inner.exchange(request) }
        do { try await clock.sleep(for: silence) } catch {
            throw ExchangeFailure(kind: .network, message: "cancelled", isCancelled: true)
        }
        throw refusal
    }

    func close() async {}
}

@Suite("A failed or slow push never keeps the pull away")
struct PullOwedTests {
    /// A device with a change that the server does not take, and another one whose board it has not heard of.
    private func stuck(
        _ stage: Stage
    ) async throws -> (device: Device, other: Device, exchange: Writeless) {
        let server = ModelServer(schema: Device.parsed, clock: stage.wall)
        let exchange = Writeless(server, clock: stage.clock)
        let (device, other) = (try stage.device(exchange), try stage.device(server, seed: 2))
        _ = await device.engine.syncNow()
        try await device.addBoard("mine")
        try await other.addBoard("theirs")
        _ = try await other.engine.sync(for: .seconds(10))
        return (device, other, exchange)
    }

    private func has(_ device: Device, _ id: String) throws -> Bool {
        try device.rows("board").contains { $0.contains("id=\"\(id)\"") }
    }

    @Test("DL-17 a server that asks for an hour's pause after each push: when it is over others' changes come first")
    func pauses() throws {
        try inVirtualTime { stage in
            let (device, other, exchange) = try await stuck(stage)
            exchange.refusal = .status(503, retryAfter: 3_600)
            try await stage.running(device) {
                try await stage.pass(.seconds(60))
                #expect(try !has(device, "theirs"))
                try await stage.pass(.seconds(3_660))
                #expect(try has(device, "theirs"))
                // And so each time, until a push is taken.
                for round in 1...3 {
                    try await other.addBoard("more-\(round)")
                    _ = try await other.engine.sync(for: .seconds(10))
                    try await stage.pass(.seconds(3_700))
                    #expect(try has(device, "more-\(round)"))
                }
                exchange.refusal = nil
                try await stage.pass(.seconds(3_700))
                #expect(try await device.store.summary().hasWork == false)
                // Then one request does it all again.
                let before = exchange.sent.count
                try await device.addBoard("last")
                try await stage.pass(.seconds(5))
                #expect(exchange.sent[before...] == [1])
            }
            try await device.end()
            try await other.end()
        }
    }

    @Test("DL-17 each sync a process of its own: a pause asked for after each push does not keep others' changes away")
    func restarts() throws {
        try inVirtualTime { stage in
            let (device, other, exchange) = try await stuck(stage)
            func restarted(_ seed: UInt64) -> SyncEngine {
                SyncEngine(
                    store: device.store, exchange: exchange, wallClock: stage.wall, clock: stage.clock,
                    randomness: SeededRandomness(seed: seed), ids: SeededIDs(seed: seed))
            }
            exchange.refusal = .status(503, retryAfter: 600)
            #expect(await restarted(5).syncNow().isPulled == false)
            #expect(try !has(device, "theirs"))
            for round in 0..<3 {
                try await stage.pass(.seconds(601))
                let before = exchange.sent.count
                #expect(await restarted(UInt64(6 + round)).syncNow().isPulled)
                #expect(exchange.sent[before...].first == 0)
            }
            #expect(try has(device, "theirs"))
            exchange.refusal = nil
            try await stage.pass(.seconds(601))
            #expect(await restarted(20).syncNow().end == .complete)
            let before = exchange.sent.count
            try await device.addBoard("last")
            #expect(await restarted(21).syncNow().end == .complete)
            #expect(exchange.sent[before...] == [1])
            try await device.end()
            try await other.end()
        }
    }

    @Test("When everything was last in step is known after a restart, and stands there before anything was asked")
    func lastSynced() throws {
        try inVirtualTime { stage in
            let (device, other, exchange) = try await stuck(stage)
            #expect(await device.engine.syncNow().end == .complete)
            let synced = try #require(await device.status.lastSyncedMilliseconds)
            try await stage.pass(.seconds(100))
            let again = SyncEngine(
                store: device.store, exchange: Port(exchange, clock: stage.clock), wallClock: stage.wall,
                clock: stage.clock, randomness: SeededRandomness(seed: 5), ids: SeededIDs(seed: 5))
            exchange.refusal = .status(503)
            try await device.addBoard("more")
            _ = await again.syncNow()
            var statuses = await again.statuses().makeAsyncIterator()
            let told = try #require(await statuses.next()?.lastSyncedMilliseconds)
            #expect(abs(told - synced) < 100)
            try await device.end()
            try await other.end()
        }
    }

    @Test("DL-17 SCH-03 an open breaker's probe brings others' changes, though the server fails over each push")
    func probe() throws {
        try inVirtualTime { stage in
            let (device, other, exchange) = try await stuck(stage)
            exchange.refusal = .status(500)
            // The last failures in a row are pushes, which the breaker takes for the server's.
            var configuration = EngineConfiguration()
            configuration.breaker = CircuitBreaker(threshold: 1)
            let engine = SyncEngine(
                store: device.store, exchange: exchange, configuration: configuration, wallClock: stage.wall,
                clock: stage.clock, randomness: SeededRandomness(seed: 4), ids: SeededIDs(seed: 4))
            _ = await engine.runOnce(deadline: .seconds(10))
            guard case .notNow = await engine.runOnce(deadline: .seconds(10)).end else {
                Issue.record("the breaker is not open")
                return
            }
            #expect(try !has(device, "theirs"))
            try await stage.pass(.seconds(1_801))
            _ = await engine.runOnce(deadline: .seconds(10))
            #expect(try has(device, "theirs"))
            exchange.refusal = nil
            #expect(await engine.syncNow().end == .complete)
            #expect(try await device.store.summary().hasWork == false)
            try await device.end()
            try await other.end()
        }
    }

    @Test("DL-17 SCH-11 a push too slow for the time in the background: the next round asks first")
    func slow() throws {
        try inVirtualTime { stage in
            let (device, other, exchange) = try await stuck(stage)
            (exchange.refusal, exchange.silence) = (.timedOut, .seconds(120))
            #expect(await device.engine.runOnce(deadline: .seconds(20)).end == .cancelled)
            #expect(try !has(device, "theirs"))
            #expect(await device.engine.runOnce(deadline: .seconds(20)).end == .cancelled)
            #expect(try has(device, "theirs"))
            try await device.end()
            try await other.end()
        }
    }
}
