import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing
import UploadQueue

/// A platform that takes a moment to say how the device is connected; each call has a stream of its own.
private final class SlowPlatform: Connectivity, @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    var path: NetworkPath?
    private(set) var asked = 0
    private let clock: VirtualClock
    private let pause: Duration

    init(_ path: NetworkPath?, after pause: Duration = .milliseconds(10), clock: VirtualClock) {
        self.path = path
        self.pause = pause
        self.clock = clock
    }

    func paths() -> AsyncStream<NetworkPath> {
        asked += 1
        let (clock, pause) = (clock, pause)
        let told = Counter()
        return AsyncStream {
            // The present path, and no other before it is not wanted any more.
            let isFirst = told.next() == 1
            do { try await clock.sleep(for: isFirst ? pause : .seconds(1 << 30)) } catch { return nil }
            guard isFirst, let path = self.path else {
                do { try await clock.sleep(for: .seconds(1 << 30)) } catch { return nil }
                return nil
            }
            return path
        }
    }
}

@Suite("A lane's conditions are about the user's money: they hold from the first moment, with a run and without one")
struct ConditionScenarioTests {
    /// The ways in which a request may leave.
    enum Way: CaseIterable, Sendable { case run, runOnce, syncNow, backgroundRound, queue }

    private static let metered = NetworkPath(isReachable: true, isMetered: true, link: "cellular")
    private static let free = NetworkPath(isReachable: true, link: "wifi")

    private func engine(_ stage: Stage, _ device: Device, _ port: Port, _ platform: SlowPlatform) -> SyncEngine {
        var configuration = EngineConfiguration()
        configuration.conditions = [.records: .unmetered]
        return SyncEngine(
            store: device.store, exchange: port, connectivity: platform, configuration: configuration,
            wallClock: stage.wall, clock: stage.clock, randomness: SeededRandomness(seed: 3), ids: SeededIDs(seed: 3))
    }

    private func running(_ engine: SyncEngine, _ body: @escaping @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await engine.run() }
            group.addTask {
                try await body()
                await engine.stop()
            }
            try await group.next()
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    @Test("before the platform has said anything nothing leaves, and what it says then counts", arguments: Way.allCases)
    func fromTheFirstMoment(way: Way) throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            let platform = SlowPlatform(Self.metered, clock: stage.clock)
            let engine = engine(stage, device, port, platform)
            try await device.addBoard("b-1")
            switch way {
            case .run: try await running(engine) { try await stage.pass(.seconds(100)) }
            case .runOnce:
                guard case .notNow(_, let cause) = await engine.runOnce(deadline: .seconds(10)).end else {
                    Issue.record("it was not held")
                    return
                }
                #expect(cause.contains("costs nothing"))
            case .syncNow: _ = await engine.syncNow()
            case .backgroundRound:
                _ = try await engine.backgroundRound(deadline: .seconds(20))
                #expect(try await engine.nextBackgroundRound() == stage.wall.nowMilliseconds, "it was counted")
            case .queue: #expect(await engine.gate().mayGo(.routine) != .open)
            }
            #expect(port.requests.isEmpty)
            try await device.end()
        }
    }

    @Test("a network that costs nothing is waited for no longer than the platform takes to tell")
    func free() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            let engine = engine(stage, device, port, SlowPlatform(Self.free, clock: stage.clock))
            try await device.addBoard("b-1")
            #expect(await engine.runOnce(deadline: .seconds(10)).end == .complete)
            #expect(stage.seconds < 0.1)
            try await device.end()
        }
    }

    @Test("after a stop the platform is asked anew: what it said last counts until it says something else")
    func afterAStop() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            let platform = SlowPlatform(Self.metered, clock: stage.clock)
            let engine = engine(stage, device, port, platform)
            try await running(engine) { try await stage.pass(.seconds(10)) }
            try await device.addBoard("b-1")
            platform.path = nil
            for _ in 0..<2 {
                guard case .notNow = await engine.runOnce(deadline: .seconds(10)).end else {
                    Issue.record("it was forgotten")
                    return
                }
            }
            #expect(port.requests.isEmpty)
            platform.path = Self.free
            #expect(await engine.runOnce(deadline: .seconds(10)).acknowledged == 1)
            platform.path = Self.metered
            try await device.addBoard("b-2")
            port.forget()
            _ = await engine.runOnce(deadline: .seconds(10))
            #expect(port.requests.isEmpty)
            try await device.end()
        }
    }

    @Test("a platform that says nothing holds nothing up for long, in a run once, and is left when time is over")
    func mute() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            let platform = SlowPlatform(nil, clock: stage.clock)
            let engine = engine(stage, device, port, platform)
            let before = stage.seconds
            #expect(await engine.runOnce(deadline: .milliseconds(500)).end == .cancelled)
            #expect(stage.seconds - before <= 0.501)
            #expect(port.requests.isEmpty)
            try await running(engine) {
                try await stage.pass(.seconds(5))
                #expect(port.requests.count == 1)
                let asked = platform.asked
                try await stage.pass(.seconds(100))
                #expect(port.requests.count >= 4)
                #expect(platform.asked == asked)
            }
            try await device.end()
        }
    }

    @Test("without conditions nobody is asked, and nothing waits")
    func none() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            let platform = SlowPlatform(nil, clock: stage.clock)
            let engine = SyncEngine(
                store: device.store, exchange: port, connectivity: platform, wallClock: stage.wall, clock: stage.clock,
                randomness: SeededRandomness(seed: 3), ids: SeededIDs(seed: 3))
            #expect(await engine.runOnce(deadline: .seconds(10)).end == .complete)
            #expect(platform.asked == 0)
            #expect(stage.seconds < 0.001)
            try await device.end()
        }
    }

    /// What is to go when the link begins to cost.
    enum Load: CaseIterable, Sendable { case pages, changes, changesOneByOne }

    @Test(
        "a link that begins to cost while a cycle is at work ends it behind the request that is under way; the rest goes when it costs nothing",
        arguments: Load.allCases)
    func inTheMiddle(load: Load) throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let other = try stage.device(Port(server, clock: stage.clock), seed: 2)
            let port = Port(server, clock: stage.clock)
            let device = try stage.device(port)
            var configuration = EngineConfiguration()
            configuration.conditions = [.records: .unmetered]
            configuration.pageLimit = 5
            let engine = SyncEngine(
                store: device.store, exchange: port,
                handlers: load == .changesOneByOne ? [Device.parsed["board"]].compactMap { $0 } : [],
                configuration: configuration, policy: UploadPolicy(limits: ClaimLimits(maxChanges: 5)),
                wallClock: stage.wall, clock: stage.clock, randomness: SeededRandomness(seed: 3),
                ids: SeededIDs(seed: 3))
            #expect(await engine.syncNow().end == .complete)
            for number in 10..<40 { try await (load == .pages ? other : device).addBoard("b-\(number)") }
            if load == .pages { #expect(await other.engine.syncNow().end == .complete) }
            port.forget()
            port.otherwise = .slow(.seconds(10))
            await engine.noticed(Self.free)
            try await running(engine) {
                // Three of six requests, or two and a half: the third is under way.
                try await stage.pass(.seconds(25))
                await engine.noticed(Self.metered)
                try await stage.pass(.seconds(100))
                #expect(port.requests.count == 3)
                guard case .notNow(_, let cause) = await engine.syncNow().end else {
                    Issue.record("it was not held")
                    return
                }
                #expect(cause.contains("costs nothing"))
                // What the third brought stands; nothing of the rest counts as tried.
                let count = try device.store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM board") }
                #expect(count == (load == .pages ? 15 : 30))
                if load != .pages { #expect(try await device.store.summary().pending == 15) }
                #expect(port.requests.count == 3)
                await engine.noticed(Self.free)
                try await stage.pass(.seconds(60))
            }
            #expect(try await device.store.summary().isEmpty)
            let end = try device.store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM board") }
            #expect(end == 30)
            #expect(Set(port.requests.flatMap(\.changes).map(\.id)).count == (load == .pages ? 0 : 30))
            try await device.end()
            try await other.end()
        }
    }
}
