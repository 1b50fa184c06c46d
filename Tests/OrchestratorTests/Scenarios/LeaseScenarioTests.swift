import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing

/// Two processes on one file: who is at work keeps the lease, however long that takes.
@Suite struct LeaseScenarioTests {
    @Test("NET-02, PRC-11 a request that takes longer than the lease keeps it: no other process sends the same change")
    func slowRequest() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let app = try stage.device(port)
            let widget = try stage.device(port, seed: 2, onFileOf: app)
            _ = await app.engine.syncNow()
            try await app.addBoard("b-1")
            port.forget()
            port.next(.slow(.seconds(110)))
            async let slow = app.engine.syncNow()
            for _ in 0..<3 {
                try await stage.pass(.seconds(35))
                #expect(await widget.engine.syncNow().end == .leaseHeld)
            }
            #expect(await slow.end == .complete)
            #expect(port.requests.filter { !$0.changes.isEmpty }.count == 1)
            #expect(await widget.engine.syncNow().end == .complete)
            try await widget.end()
            try await app.end()
        }
    }

    @Test("PRC-11 a handler that is at work for longer than the lease keeps it, too")
    func slowHandler() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let app = try stage.device(port)
            let widget = try stage.device(port, seed: 2, onFileOf: app)
            let engine = SyncEngine(
                store: app.store, exchange: port, handlers: [Sleeper(clock: stage.clock)], wallClock: stage.wall,
                clock: stage.clock, randomness: SeededRandomness(seed: 5), ids: SeededIDs(seed: 5))
            async let slow = engine.syncNow()
            try await stage.pass(.seconds(50))
            #expect(await widget.engine.syncNow().end == .leaseHeld)
            #expect(await slow.end == .complete)
            try await widget.end()
            try await app.end()
        }
    }

    @Test(
        "PRC-11 by the system's clock the lease is prolonged, too, and the cycle ends with its request",
        .timeLimit(.minutes(1)))
    func live() async throws {
        let device = try Device(ModelServer(schema: Device.parsed, clock: ManualWallClock()))
        let exchange = UntilProlonged(device)
        let engine = SyncEngine(
            store: device.store, exchange: exchange, configuration: EngineConfiguration(leaseSeconds: 0.02),
            wallClock: device.wall)
        #expect(await engine.syncNow().end == .exchange(.timedOut))
        #expect(try await device.store.isBeingSynced() == false)
        try await device.end()
    }

    @Test("PRC-11 whoever is silent loses the lease once it has run out; what comes back then is not prolonged again")
    func silent() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let app = try stage.device(port)
            let widget = try stage.device(port, seed: 2, onFileOf: app)
            _ = await app.engine.syncNow()
            port.next(.slow(.seconds(60)))
            async let slow = app.engine.syncNow()
            try await stage.pass(.seconds(1))
            // Suspended: for the others its time is over, its own clocks have not moved.
            stage.wall.advance(milliseconds: 40_000)
            #expect(await widget.engine.syncNow().end == .complete)
            #expect(await slow.end != .leaseHeld)
            #expect(await widget.engine.syncNow().end == .complete)
            try await widget.end()
            try await app.end()
        }
    }
}

/// Looks for a minute before it says that there is nothing.
private struct Sleeper: Syncable {
    let schema = Device.parsed["list"] ?? EntitySchema("list", fields: [])
    let clock: VirtualClock
    func collectDirty() async throws -> [FoundChange] {
        try await clock.sleep(for: .seconds(60))
        return []
    }
}

/// Answers, with a failure, once the lease was prolonged three times.
private struct UntilProlonged: Exchange {
    let device: Device
    init(_ device: Device) { self.device = device }

    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        do {
            for _ in 0..<3 {
                let before = try expires()
                device.wall.advance(milliseconds: 1)
                while try expires() == before { await Task.yield() }
            }
        } catch { Issue.record(error) }
        throw .timedOut
    }

    private func expires() throws -> Int64? {
        try device.store.database.read { try Int64.fetchOne($0, sql: "SELECT expires FROM sync_lease") }
    }

    func close() async {}
}
