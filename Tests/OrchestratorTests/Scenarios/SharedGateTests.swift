import DownloadQueue
import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing
import UploadQueue

@Suite("One gate for cycles, queues that run by themselves, and an app's own transfers")
struct SharedGateTests {
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

    @Test("SCH-03 what an app's own request closes, the engine takes up at once: it does not wait the cool-down out")
    func closedByAnother() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            let sender = device.engine.noting(OwnServer(clock: stage.clock) as any ChangeSender)
            _ = await device.engine.syncNow()
            port.otherwise = .fail(.status(503))
            try await stage.running(device) {
                try await stage.pass(.seconds(600))
                guard case .notNow? = await device.status.lastEnd else {
                    Issue.record("the breaker is not open")
                    return
                }
                port.otherwise = .pass
                _ = try await sender.send([], deviceID: "")
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(60))
                #expect(try await device.store.summary().hasWork == false)
                #expect(await device.status.lastEnd == .complete)
            }
            try await device.end()
        }
    }

    @Test(
        "SCH-03 SCH-04 a cycle that met the gate while another's probe was on its way goes when that has ended",
        arguments: [nil, ExchangeFailure.unreachable])
    func metTheProbe(failure: ExchangeFailure?) throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let device = try stage.device(port)
            let server = OwnServer(clock: stage.clock)
            let sender = device.engine.noting(server as any ChangeSender)
            _ = await device.engine.syncNow()
            port.otherwise = .fail(.status(503))
            try await stage.running(device) {
                try await stage.pass(.seconds(600))
                guard case .notNow(let until?, _)? = await device.status.lastEnd else {
                    Issue.record("the breaker is not open")
                    return
                }
                port.otherwise = .pass
                port.forget()
                try await stage.pass(.milliseconds(until - stage.wall.nowMilliseconds))
                (server.silence, server.failure) = (.seconds(20), failure)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        do throws(ExchangeFailure) { _ = try await sender.send([], deviceID: "") } catch {
                            #expect(error == failure)
                        }
                    }
                    try await stage.pass(.seconds(19))
                    #expect(port.requests.isEmpty, "one probe is on its way")
                    try await group.waitForAll()
                }
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(60))
                #expect(try await device.store.summary().hasWork == false)
            }
            try await device.end()
        }
    }

    @Test("SCH-03 a queue that waits at the gate for the end of the cool-down goes on when a cycle closes the breaker")
    func queueAtTheGate() throws {
        try inVirtualTime { stage in
            let (device, server, sender, gate) = try await opened(stage)
            server.failure = nil
            let requests = server.requests
            try await device.addBoard("b-1")
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await device.engine.uploads.run(sender: sender, gate: gate) }
                try await stage.pass(.seconds(30))
                #expect(server.requests == requests)
                // Another lane's request, by the user's wish.
                try await sender.probe()
                try await stage.pass(.seconds(30))
                #expect(server.requests > requests + 1)
                group.cancelAll()
            }
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
}
