import DownloadQueue
import Foundation
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing
import UploadQueue

/// What a platform would say, said by the test.
private final class Platform: Connectivity, BackgroundTime, @unchecked Sendable {
    // Sendable: `listeners`, `newest`, `asked` and `finished` are used under `lock` alone.
    private let lock = NSLock()
    private var listeners: [AsyncStream<NetworkPath>.Continuation] = []
    private var newest: NetworkPath?
    private var asked: [Int64] = []
    private var finished: [Bool] = []
    private let rounds = AsyncStream.makeStream(of: BackgroundGrant.self)

    func paths() -> AsyncStream<NetworkPath> {
        let (stream, continuation) = AsyncStream.makeStream(of: NetworkPath.self, bufferingPolicy: .bufferingNewest(1))
        let present = lock.withLock {
            listeners.append(continuation)
            return newest
        }
        if let present { continuation.yield(present) }
        return stream
    }

    func say(_ path: NetworkPath) {
        let all = lock.withLock {
            newest = path
            return listeners
        }
        for listener in all { listener.yield(path) }
    }

    func ask(notBeforeMilliseconds time: Int64) async { lock.withLock { asked.append(time) } }
    func grants() -> AsyncStream<BackgroundGrant> { rounds.stream }

    func give(_ limit: Duration, expiry: AsyncStream<Void> = AsyncStream { _ in }) {
        rounds.continuation.yield(
            BackgroundGrant(limit: limit, expiry: expiry) { isDone in
                self.lock.withLock { self.finished.append(isDone) }
            })
    }

    var wishes: [Int64] { lock.withLock { asked } }
    var ends: [Bool] { lock.withLock { finished } }
}

/// What an engine was shown to be at, without repetitions.
private final class Activities: @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    private(set) var all: [SyncStatus.Activity] = []
    func note(_ activity: SyncStatus.Activity) { if all.last != activity { all.append(activity) } }
}

@Suite struct GateScenarioTests {
    private static let hour: Int64 = 3_600_000

    private func engine(
        _ stage: Stage, _ device: Device, _ exchange: any Exchange, _ platform: Platform,
        _ configuration: EngineConfiguration = EngineConfiguration(), isInBackground: Bool = false
    ) -> SyncEngine {
        SyncEngine(
            store: device.store, exchange: exchange, connectivity: platform,
            background: isInBackground ? platform : nil, configuration: configuration, wallClock: stage.wall,
            clock: stage.clock, randomness: SeededRandomness(seed: 3), ids: SeededIDs(seed: 3))
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

    @Test(
        "SCH-10 NET-24 a link that is down delays, a network that comes starts a cycle at once, a liar is tried anyway")
    func connectivity() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, platform) = (try stage.device(port), Platform())
            let engine = engine(stage, device, port, platform)
            try await running(engine) {
                try await stage.pass(.seconds(5))
                platform.say(NetworkPath(isReachable: false))
                try await stage.pass(.seconds(1))
                port.forget()
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(200))
                #expect(port.requests.isEmpty)
                platform.say(NetworkPath(isReachable: true, link: "wifi"))
                try await stage.pass(.seconds(3))
                #expect(port.requests.flatMap(\.changes).count == 1)
                // It lies: there is a network all the time.
                platform.say(NetworkPath(isReachable: false))
                try await stage.pass(.seconds(1))
                port.forget()
                try await device.addBoard("b-2")
                try await stage.pass(.seconds(310))
                #expect(port.requests.flatMap(\.changes).count == 1)
                // The user goes past it.
                port.forget()
                try await device.addBoard("b-3")
                #expect(await engine.syncNow().acknowledged == 1)
            }
            try await device.end()
        }
    }

    @Test("A lane that wants an unmetered network waits on a metered one, without a request, and goes when it changes")
    func lanes() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, platform) = (try stage.device(port), Platform())
            var configuration = EngineConfiguration()
            configuration.conditions = [.records: .unmetered]
            let engine = engine(stage, device, port, platform, configuration)
            try await running(engine) {
                platform.say(NetworkPath(isReachable: true, isMetered: true, link: "cellular"))
                try await stage.pass(.seconds(1))
                port.forget()
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(100))
                #expect(port.requests.isEmpty)
                guard case .notNow(_, let cause) = await engine.syncNow().end else {
                    Issue.record("it was not held")
                    return
                }
                #expect(cause.contains("costs nothing"))
                // The user's override lasts as long as was said.
                await engine.overrideConditions(of: .records, for: .seconds(60))
                try await stage.pass(.seconds(5))
                #expect(port.requests.flatMap(\.changes).count == 1)
                try await stage.pass(.seconds(100))
                port.forget()
                try await device.addBoard("b-2")
                try await stage.pass(.seconds(100))
                #expect(port.requests.isEmpty)
                platform.say(NetworkPath(isReachable: true, link: "cellular"))
                try await stage.pass(.seconds(5))
                #expect(port.requests.flatMap(\.changes).count == 1)
            }
            try await device.end()
        }
    }

    @Test("I8 what does not go is not shown as going: a closed gate, a pause of the server's, another process's lease")
    func shownOnlyAtWork() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, platform) = (try stage.device(port), Platform())
            let engine = engine(stage, device, port, platform)
            let seen = Activities()
            try await withThrowingTaskGroup(of: Void.self) { group in
                let statuses = await engine.statuses()
                group.addTask { for await status in statuses { seen.note(status.activity) } }
                _ = try await device.store.lease(holder: "other", seconds: 30)
                #expect(await engine.syncNow().end == .leaseHeld)
                try await device.store.release(holder: "other")
                try await stage.pass(.seconds(3))
                await engine.noticed(NetworkPath(isReachable: false))
                guard case .notNow = await engine.runOnce(deadline: .seconds(5)).end else {
                    Issue.record("it was not held")
                    return
                }
                await engine.noticed(NetworkPath(isReachable: true))
                try await stage.pass(.seconds(3))
                try await engine.uploads.asked(pauseSeconds: 60)
                let end = await engine.syncNow().end
                guard case .notNow = end else {
                    Issue.record("\(end)")
                    group.cancelAll()
                    return
                }
                #expect(seen.all == [.idle])
                try await stage.pass(.seconds(61))
                port.next(.slow(.seconds(1)))
                _ = await engine.syncNow()
                try await stage.pass(.seconds(1))
                #expect(seen.all == [.idle, .syncing, .idle])
                group.cancelAll()
            }
            try await device.end()
        }
    }

    @Test("Both queues ask the same gate: what opens the breaker in one holds the other")
    func sharedByQueues() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, platform) = (try stage.device(port), Platform())
            let engine = engine(stage, device, port, platform)
            let gate = engine.gate()
            #expect(await gate.mayGo(.routine) == .open)
            // A queue of the app's own meets a server that was reached and fails.
            let down = ExchangeFailure(kind: .temporary, status: 503, message: "down", reachedServer: true)
            let own = engine.noting(ScriptedFetcher(otherwise: .fail(down)) as any RecordFetcher)
            for _ in 0..<5 {
                await #expect(throws: ExchangeFailure.self) {
                    try await own.fetch(DownloadRequest(scope: "", priority: 1))
                }
            }
            #expect(await gate.mayGo(.routine) != .open)
            let downloads = DownloadQueue(log: InMemoryDownloadLog(), fetcher: ScriptedFetcher(), gate: gate)
            try await downloads.ask(DownloadRequest(scope: "", priority: 1))
            guard case .closed(_, let cause) = try await downloads.drain(.routine) else {
                Issue.record("the download queue went past the gate")
                return
            }
            #expect(cause.contains("503"))
            #expect(await gate.mayGo(.user) == .open)
            let report = await engine.runOnce(deadline: .seconds(10))
            guard case .notNow = report.end else {
                Issue.record("\(report.end)")
                return
            }
            #expect(port.requests.isEmpty)
            // The cycle's own success opens it for the other.
            #expect(await engine.syncNow().end == .complete)
            #expect(await gate.mayGo(.routine) == .open)
            #expect(try await downloads.drain(.routine) == .empty)
            await engine.pause()
            #expect(await gate.mayGo(.routine) == .closed(untilMilliseconds: nil, cause: "paused"))
            try await device.end()
        }
    }

    @Test("A queue that runs by itself waits at the gate of its lane, and goes on when it opens")
    func runningQueue() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, sender) = (try stage.device(port), ScriptedSender())
            var configuration = EngineConfiguration()
            configuration.conditions = [.contents: .unmetered]
            let engine = engine(stage, device, port, Platform(), configuration)
            await engine.noticed(NetworkPath(isReachable: true, isMetered: true))
            try await device.addBoard("b-1")
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    await engine.uploads.run(sender: engine.noting(sender), gate: engine.gate(for: .contents))
                }
                try await stage.pass(.seconds(100))
                #expect(sender.arrivals.isEmpty)
                await engine.noticed(NetworkPath(isReachable: true))
                try await stage.pass(.seconds(2))
                #expect(sender.arrivals.map(\.change.record.id) == ["b-1"])
                group.cancelAll()
            }
            try await device.end()
        }
    }

    @Test("Rounds in the background: two a day, 6 h apart, counted in the file, so that a restart makes none more")
    func rounds() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, platform) = (try stage.device(port), Platform())
            var ran: [Int64] = []
            let start = stage.wall.nowMilliseconds
            for _ in 0..<50 {
                // A program that is started anew for each round.
                let engine = engine(stage, device, port, platform)
                if case .ran(let report) = try await engine.backgroundRound(deadline: .seconds(20)) {
                    #expect(report.end == .complete)
                    ran.append((stage.wall.nowMilliseconds - start) / Self.hour)
                }
                try await stage.pass(.seconds(3_600))
            }
            #expect(ran == [0, 6, 24, 30, 48])
            #expect(port.requests.count == 5)
            try await device.end()
        }
    }

    @Test("A round in the background for which the gate is closed is none: it is not counted")
    func roundAtAClosedGate() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, platform) = (try stage.device(port), Platform())
            let engine = engine(stage, device, port, platform)
            await engine.pause()
            for _ in 0..<5 {
                guard case .ran(let report) = try await engine.backgroundRound(deadline: .seconds(20)),
                    case .notNow = report.end
                else {
                    Issue.record("it went, or was counted")
                    return
                }
            }
            await engine.resume()
            #expect(try await engine.nextBackgroundRound() == stage.wall.nowMilliseconds)
            guard case .ran(let report) = try await engine.backgroundRound(deadline: .seconds(20)) else {
                Issue.record("it did not run")
                return
            }
            #expect(report.end == .complete)
            #expect(try await engine.nextBackgroundRound() > stage.wall.nowMilliseconds)
            try await device.end()
        }
    }

    @Test(
        "SCH-11 a round ends before its deadline, also when the system wants it back early; the next one is asked for")
    func grants() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, platform) = (try stage.device(port), Platform())
            var configuration = EngineConfiguration()
            configuration.intervals.period = 1 << 40
            let engine = engine(stage, device, port, platform, configuration, isInBackground: true)
            try await running(engine) {
                try await stage.pass(.seconds(1))
                let first = stage.wall.nowMilliseconds
                #expect(platform.wishes.count == 1)
                port.next(.hang(.seconds(600)))
                try await device.addBoard("b-1")
                platform.give(.seconds(20))
                try await stage.pass(.seconds(19.5))
                #expect(platform.ends == [false])
                #expect(platform.wishes.count == 2)
                #expect((platform.wishes.last ?? 0) >= first + 6 * Self.hour)
                // Too soon: the round is given back at once, without a request.
                try await stage.pass(.seconds(30))
                port.forget()
                platform.give(.seconds(20))
                try await stage.pass(.seconds(1))
                #expect(platform.ends == [false, true])
                #expect(port.requests.isEmpty)
                // The system wants its time back after a second.
                try await stage.pass(.seconds(6 * 3_600))
                port.forget()
                port.next(.hang(.seconds(600)))
                let (expiry, expired) = AsyncStream.makeStream(of: Void.self)
                platform.give(.seconds(20), expiry: expiry)
                try await stage.pass(.seconds(1))
                expired.finish()
                try await stage.pass(.seconds(1))
                #expect(platform.ends == [false, true, false])
            }
            #expect(await engine.syncNow().end == .complete)
            try await device.end()
        }
    }

    @Test("trigger(.background) is a round as well: the third of a day makes no request")
    func triggered() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let (device, platform) = (try stage.device(port), Platform())
            var configuration = EngineConfiguration()
            configuration.intervals.period = 1 << 40
            let engine = engine(stage, device, port, platform, configuration)
            try await running(engine) {
                try await stage.pass(.seconds(10))
                port.forget()
                for _ in 0..<4 {
                    await engine.trigger(.background)
                    try await stage.pass(.seconds(6 * 3_600))
                }
                #expect(port.requests.count == 2)
            }
            try await device.end()
        }
    }
}
