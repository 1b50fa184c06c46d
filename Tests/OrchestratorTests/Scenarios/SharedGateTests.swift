import DownloadQueue
import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing
import UploadQueue

/// A server of an app's own queue, which does what the test wants.
private final class OwnServer: ChangeSender, RecordFetcher, @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    var failure: ExchangeFailure?
    var silence: Duration = .zero
    private(set) var requests = 0
    private let clock: VirtualClock

    init(clock: VirtualClock) { self.clock = clock }

    private func answer() async throws(ExchangeFailure) {
        requests += 1
        do { try await clock.sleep(for: silence) } catch {
            throw ExchangeFailure(kind: .network, message: "cancelled", isCancelled: true)
        }
        if let failure { throw failure }
    }

    func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
        try await answer()
        return []
    }
    func probe() async throws(ExchangeFailure) { try await answer() }
    func fetch(_ request: DownloadRequest) async throws(ExchangeFailure) { try await answer() }
}

@Suite("One gate for cycles, queues that run by themselves, and an app's own transfers")
struct SharedGateTests {
    /// An engine of another process, or of the next one, over the same store.
    private func anotherEngine(on device: Device, _ port: Port, _ stage: Stage) -> SyncEngine {
        SyncEngine(
            store: device.store, exchange: port, wallClock: stage.wall, clock: stage.clock,
            randomness: SeededRandomness(seed: 9), ids: SeededIDs(seed: 9))
    }

    /// A gate whose breaker five failures of an app's own queue have opened.
    private func opened(
        _ stage: Stage
    ) async throws -> (device: Device, server: OwnServer, sender: any ChangeSender, gate: any Gate) {
        let device = try stage.device(ModelServer(schema: Device.parsed, clock: stage.wall))
        let server = OwnServer(clock: stage.clock)
        let sender = device.engine.noting(server as any ChangeSender)
        server.failure = .status(503)
        for _ in 0..<5 { await #expect(throws: ExchangeFailure.self) { try await sender.send([], deviceID: "") } }
        return (device, server, sender, device.engine.gate())
    }

    @Test(
        "SCH-03 a queue's own request after the cool-down is the one probe: others wait, its failure opens for longer")
    func halfOpen() throws {
        try inVirtualTime { stage in
            let (device, server, sender, gate) = try await opened(stage)
            try await stage.pass(.seconds(1_799))
            #expect(await gate.mayGo(.routine) != .open)
            try await stage.pass(.seconds(2))
            #expect(await gate.mayGo(.routine) == .open)
            server.silence = .seconds(10)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    await #expect(throws: ExchangeFailure.self) { try await sender.send([], deviceID: "") }
                }
                try await stage.pass(.seconds(5))
                #expect(await gate.mayGo(.routine) != .open, "one probe is on its way")
                try await group.waitForAll()
            }
            try await stage.pass(.seconds(3_500))
            #expect(await gate.mayGo(.routine) != .open, "for an hour now")
            try await stage.pass(.seconds(101))
            #expect(await gate.mayGo(.routine) == .open)
            server.failure = nil
            _ = try await sender.send([], deviceID: "")
            for _ in 0..<2 { #expect(await gate.mayGo(.routine) == .open) }
            try await device.end()
        }
    }

    @Test(
        "SCH-03 SCH-04 while a probe is on its way, what fails beside it decides nothing, a former probe neither")
    func besideTheProbe() throws {
        try inVirtualTime { stage in
            let (device, server, sender, gate) = try await opened(stage)
            let other = OwnServer(clock: stage.clock)
            other.failure = .status(503)
            let beside = device.engine.noting(other as any ChangeSender)
            try await stage.pass(.seconds(1_801))
            server.silence = .seconds(10)
            server.failure = .unreachable
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    await #expect(throws: ExchangeFailure.self) { try await sender.send([], deviceID: "") }
                }
                try await stage.pass(.seconds(5))
                await #expect(throws: ExchangeFailure.self) { try await beside.send([], deviceID: "") }
                #expect(await gate.mayGo(.routine) != .open, "one probe is on its way")
                try await group.waitForAll()
            }
            #expect(await gate.mayGo(.routine) == .open, "the probe learned nothing")
            // One that hangs for a cool-down is forgotten; it fails while the next one is on its way.
            (server.silence, server.failure) = (.seconds(1_810), .status(503))
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    await #expect(throws: ExchangeFailure.self) { try await sender.send([], deviceID: "") }
                }
                try await stage.pass(.seconds(1_805))
                (other.silence, other.failure) = (.seconds(20), .unreachable)
                group.addTask {
                    await #expect(throws: ExchangeFailure.self) { try await beside.send([], deviceID: "") }
                }
                try await stage.pass(.seconds(10))
                #expect(await gate.mayGo(.routine) != .open, "the second probe is on its way")
                try await group.waitForAll()
            }
            #expect(await gate.mayGo(.routine) == .open, "the second learned nothing either")
            try await device.end()
        }
    }

    @Test("SCH-05 what a download queue meets counts as well")
    func downloads() throws {
        try inVirtualTime { stage in
            let device = try stage.device(ModelServer(schema: Device.parsed, clock: stage.wall))
            let server = OwnServer(clock: stage.clock)
            let gate = device.engine.gate()
            let queue = DownloadQueue(
                log: InMemoryDownloadLog(), fetcher: device.engine.noting(server as any RecordFetcher), gate: gate)
            try await queue.ask(DownloadRequest(scope: "", priority: 1))
            server.failure = .status(500)
            for _ in 0..<5 { _ = try await queue.drain(.routine) }
            guard case .closed = try await queue.drain(.routine) else {
                Issue.record("the breaker did not hear of it")
                return
            }
            #expect(server.requests == 5)
            server.failure = nil
            #expect(try await queue.drain(.user) == .empty)
            #expect(await gate.mayGo(.routine) == .open)
            try await device.end()
        }
    }

    @Test("NET-16 what the server asked a cycle to wait binds the other queues at once, and after a restart")
    func serversWord() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            let gate = device.engine.gate()
            for act in [Port.Act.fail(.status(503, retryAfter: 100)), .backoff(100)] {
                #expect(await gate.mayGo(.user) == .open)
                port.next(act)
                _ = await device.engine.syncNow()
                try await stage.pass(.seconds(10))
                guard case .closed(let until?, _) = await gate.mayGo(.user) else {
                    Issue.record("the gate has not heard of it")
                    return
                }
                #expect(abs(until - stage.wall.nowMilliseconds - 90_000) < 100)
                let again = anotherEngine(on: device, port, stage)
                #expect(await again.gate().mayGo(.user) != .open, "nothing has gone since the restart")
                // Nor is a round in the background used up for nothing.
                let third = SyncEngine(
                    store: device.store, exchange: port, wallClock: stage.wall, clock: stage.clock,
                    randomness: SeededRandomness(seed: 8), ids: SeededIDs(seed: 8))
                _ = try await third.backgroundRound(deadline: .seconds(20))
                #expect(try await third.nextBackgroundRound() == stage.wall.nowMilliseconds)
                try await stage.pass(.seconds(91))
            }
            try await device.end()
        }
    }

    @Test("NET-16 what the server asked a queue of the app's own to wait binds cycles and the other queues")
    func othersWord() throws {
        try inVirtualTime { stage in
            let device = try stage.device(ModelServer(schema: Device.parsed, clock: stage.wall))
            let server = OwnServer(clock: stage.clock)
            let gate = device.engine.gate()
            #expect(await gate.mayGo(.user) == .open)
            server.failure = .status(429, retryAfter: 100)
            let sender = device.engine.noting(server as any ChangeSender)
            await #expect(throws: ExchangeFailure.self) { try await sender.probe() }
            #expect(await gate.mayGo(.user) != .open)
            #expect(await device.engine.gate(for: .contents).mayGo(.routine) != .open)
            try await stage.pass(.seconds(101))
            #expect(await gate.mayGo(.user) == .open)
            try await device.end()
        }
    }

    @Test("NET-16 a pause that only an app's own fetcher heard binds cycles with changes, also after a restart")
    func fetchersWord() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            try await device.addBoard("b-0")
            _ = await device.engine.syncNow()
            let server = OwnServer(clock: stage.clock)
            server.failure = .status(429, retryAfter: 60)
            let fetcher = device.engine.noting(server as any RecordFetcher)
            let request = DownloadRequest(scope: "", priority: 1)
            await #expect(throws: ExchangeFailure.self) { try await fetcher.fetch(request) }
            try await device.addBoard("b-1")
            port.forget()
            #expect(await device.engine.syncNow().requests == 0)
            // A shorter one that is kept later ends none that was asked for before.
            try await device.engine.uploads.asked(pauseSeconds: 2)
            try await stage.pass(.seconds(5))
            #expect(await device.engine.syncNow().requests == 0)
            let again = anotherEngine(on: device, port, stage)
            guard case .notNow(let until?, let cause) = await again.syncNow().end else {
                Issue.record("a request went after a restart")
                return
            }
            #expect(abs(until - stage.wall.nowMilliseconds - 55_000) < 100)
            #expect(!cause.isEmpty)
            #expect(port.requests.isEmpty)
            try await stage.pass(.seconds(56))
            #expect(await device.engine.syncNow().acknowledged == 1)
            try await device.end()
        }
    }

    @Test("NET-16 a pause that another process's pull heard binds the changes of one that runs all the while")
    func othersPull() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            try await device.addBoard("b-0")
            _ = await device.engine.syncNow()
            let other = anotherEngine(on: device, port, stage)
            port.next(.fail(.status(429, retryAfter: 60)))
            _ = await other.syncNow()
            try await device.addBoard("b-1")
            port.forget()
            try await stage.pass(.seconds(5))
            #expect(await device.engine.syncNow().requests == 0)
            #expect(port.requests.isEmpty)
            try await stage.pass(.seconds(56))
            #expect(await device.engine.syncNow().acknowledged == 1)
            try await device.end()
        }
    }

    @Test("NET-16 within the server's pause no stream of hints is opened either")
    func hintsWait() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let hinter = Hinter(clock: stage.clock)
            let device = try stage.device(port, hints: hinter)
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                port.next(.fail(.status(429, retryAfter: 100)))
                await device.engine.trigger(.user)
                try await stage.pass(.seconds(3))
                let asked = stage.seconds
                hinter.breakStreams()
                try await stage.pass(.seconds(80))
                #expect(hinter.openings.filter { $0 > asked }.isEmpty)
                try await stage.pass(.seconds(60))
                #expect(hinter.openings.filter { $0 > asked }.count == 1)
            }
            try await device.end()
        }
    }

    @Test("SCH-03 SCH-04 requests beside an open breaker are no probe: they let nobody through, and open it no longer")
    func besideTheBreaker() throws {
        try inVirtualTime { stage in
            let (device, server, sender, gate) = try await opened(stage)
            try await stage.pass(.seconds(60))
            server.failure = ExchangeFailure(kind: .network, message: "cancelled", isCancelled: true)
            await #expect(throws: ExchangeFailure.self) { try await sender.send([], deviceID: "") }
            #expect(await gate.mayGo(.routine) != .open, "given up: nothing was learned")
            server.failure = .unreachable
            await #expect(throws: ExchangeFailure.self) { try await sender.send([], deviceID: "") }
            #expect(await gate.mayGo(.routine) != .open, "no network: nothing was learned")
            server.failure = .status(503)
            for _ in 0..<10 { await #expect(throws: ExchangeFailure.self) { try await sender.send([], deviceID: "") } }
            try await stage.pass(.seconds(1_741))
            #expect(await gate.mayGo(.routine) == .open, "half an hour after it opened, whatever went beside it")
            try await device.end()
        }
    }

    @Test("Where nobody tells any more what the link costs, what waited for a cheaper one goes at once")
    func lostPath() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            var configuration = EngineConfiguration()
            configuration.conditions = [.records: .unmetered]
            configuration.intervals.period = 1 << 40
            let device = try stage.device(port, configuration: configuration)
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                await device.engine.noticed(NetworkPath(isReachable: true, isMetered: true))
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(60))
                // What waits is shown, though no cycle could begin.
                #expect(await device.status.queue.pending == 1)
                await device.engine.noticed(nil)
                try await stage.pass(.seconds(3))
                #expect(try await device.store.summary().hasWork == false)
                #expect(await device.status.queue.pending == 0)
            }
            try await device.end()
        }
    }

    @Test("SCH-08 the clock is set back by a year: rounds in the background are given again within one window")
    func clockSetBack() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            func rounds(hours: Int) async throws -> Int {
                var count = 0
                for _ in 0..<hours {
                    if case .ran = try await device.engine.backgroundRound(deadline: .seconds(20)) { count += 1 }
                    try await stage.pass(.seconds(3_600))
                }
                return count
            }
            #expect(try await rounds(hours: 12) == 2)
            stage.wall.advance(milliseconds: -365 * 86_400_000)
            #expect(try await rounds(hours: 24) == 0)
            #expect(try await rounds(hours: 24) == 2)
            try await device.end()
        }
    }

    @Test("Two calls for a round at the same moment, of two engines too, make one")
    func oneRound() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            let other = anotherEngine(on: device, port, stage)
            let ran = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<10 {
                    let engine = number % 2 == 0 ? device.engine : other
                    group.addTask {
                        if case .ran = try await engine.backgroundRound(deadline: .seconds(20)) { true } else { false }
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(ran == 1)
            #expect(port.requests.count == 1)
            try await device.end()
        }
    }

    @Test("PRC-11 two engines on one file, both running: one request at a time, and each change goes once")
    func twoEngines() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let port = Port(server, clock: stage.clock)
            port.otherwise = .slow(.seconds(1))
            let device = try stage.device(port)
            let other = anotherEngine(on: device, port, stage)
            try await stage.running(device) {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await other.run() }
                    for number in 0..<100 {
                        try await device.addBoard("b-\(number)")
                        try await stage.pass(.milliseconds(700))
                    }
                    try await stage.pass(.seconds(60))
                    await other.stop()
                    try await group.waitForAll()
                }
            }
            #expect(port.mostAtOnce == 1)
            #expect(server.effects.count == 100)
            #expect(port.requests.flatMap(\.changes).count == 100)
            #expect(try await device.store.summary().hasWork == false)
            try await device.end()
        }
    }

    @Test("PRC-11 two engines, each with a store of its own on one file: one request at a time, each change goes once")
    func twoStores() throws {
        try inVirtualTime { stage in
            let server = ModelServer(schema: Device.parsed, clock: stage.wall)
            let port = Port(server, clock: stage.clock)
            port.otherwise = .slow(.seconds(1))
            let device = try stage.device(port)
            let second = try stage.secondStore(of: device)
            let other = SyncEngine(
                store: second, exchange: port, wallClock: stage.wall, clock: stage.clock,
                randomness: SeededRandomness(seed: 9), ids: SeededIDs(seed: 9))
            try await stage.running(device) {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await other.run() }
                    for number in 0..<100 {
                        try await device.addBoard("a-\(number)")
                        try await second.write {
                            try $0.execute(sql: "INSERT INTO board (id, name) VALUES ('b-\(number)', 'B')")
                        }
                        try await stage.pass(.milliseconds(700))
                    }
                    try await stage.pass(.seconds(60))
                    await other.stop()
                    try await group.waitForAll()
                }
            }
            #expect(port.mostAtOnce == 1)
            #expect(server.effects.count == 200)
            #expect(port.requests.flatMap(\.changes).count == 200)
            #expect(try await device.store.summary().hasWork == false)
            #expect(try await second.summary().hasWork == false)
            // Both of them had their turns.
            let holders = try device.store.read { db in
                try Int.fetchOne(db, sql: "SELECT generation FROM sync_lease") ?? 0
            }
            #expect(holders > 2)
            #expect(try await device.store.integrityProblems().isEmpty)
            try await second.close()
            try await device.end()
        }
    }
}
