import DownloadQueue
import Orchestrator
import SyncCore
import SyncTesting
import Testing
import UploadQueue

@Suite("A pause that the server asked of one binds all")
struct SharedPauseTests {
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
                let again = stage.anotherEngine(on: device, port)
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
            let again = stage.anotherEngine(on: device, port)
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
            let other = stage.anotherEngine(on: device, port)
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

    @Test("NET-16 a pause that only the stream of hints heard binds cycles and queues, also after a restart")
    func hintsWord() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            let hinter = Hinter(clock: stage.clock)
            let device = try stage.device(port, hints: hinter)
            _ = await device.engine.syncNow()
            port.forget()
            var refusal = ExchangeFailure.status(503)
            refusal.backoffSeconds = 300
            hinter.set(refusal: refusal)
            try await stage.running(device) {
                // The first cycle and the first stream begin together.
                try await stage.pass(.seconds(5))
                port.forget()
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(280))
                #expect(port.requests.isEmpty)
                #expect(await device.engine.gate().mayGo(.user) != .open)
                #expect(hinter.openings.count == 1)
            }
            let again = stage.anotherEngine(on: device, port)
            guard case .notNow = await again.syncNow().end else {
                Issue.record("a request went after a restart")
                return
            }
            hinter.set(refusal: nil)
            try await stage.pass(.seconds(20))
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
}
