import Orchestrator
import Storage
import SyncCore
import SyncTesting
import UploadQueue
import Testing

@Suite struct BreakerScenarioTests {
    private func port(_ stage: Stage) -> Port {
        Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
    }

    /// A device whose breaker five failures have opened, and a server that works again.
    private func opened(_ stage: Stage) async throws -> (device: Device, port: Port) {
        let port = port(stage)
        let device = try stage.device(port)
        _ = await device.engine.syncNow()
        port.otherwise = .fail(.status(503))
        for _ in 0..<5 { _ = await device.engine.syncNow() }
        port.otherwise = .pass
        return (device, port)
    }

    @Test(
        "SCH-03 after five 5xx exactly one probe in half an hour, the next in an hour; a probe that works drains the queue"
    )
    func halfOpen() throws {
        try inVirtualTime { stage in
            let port = port(stage)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            port.otherwise = .fail(.status(500))
            port.forget()
            try await device.addBoard("b-1")
            try await stage.running(device) {
                try await stage.pass(.seconds(600))
                #expect(port.requests.count == 5)
                guard case .notNow(let until?, let cause)? = await device.status.lastEnd else {
                    Issue.record("the reason is not shown")
                    return
                }
                #expect(until > stage.wall.nowMilliseconds)
                #expect(cause.contains("status 500"))
                port.forget()
                try await stage.pass(.seconds(1_500))
                #expect(port.requests.count == 1)
                port.otherwise = .pass
                try await stage.pass(.seconds(3_000))
                #expect(port.requests.count == 1)
                try await stage.pass(.seconds(800))
                #expect(try await device.store.summary().hasWork == false)
                #expect(await device.status.lastEnd == .complete)
            }
            try await device.end()
        }
    }

    @Test(
        "NET-18 one that is watched goes on trying, an open breaker or not, never faster than its pauses, and drains soon"
    )
    func watched() throws {
        try inVirtualTime { stage in
            let port = port(stage)
            let device = try stage.device(port, configuration: EngineConfiguration(isWatched: true))
            _ = await device.engine.syncNow()
            port.otherwise = .fail(.status(503))
            port.forget()
            try await device.addBoard("b-1")
            try await stage.running(device) {
                try await stage.pass(.seconds(1_200))
                // A cycle each 2 to 32 s, of two requests until the breaker is open.
                #expect((36...300).contains(port.requests.count))
                port.otherwise = .pass
                try await stage.pass(.seconds(33))
                #expect(try await device.store.summary().hasWork == false)
                #expect(await device.status.lastEnd == .complete)
                // A pause that the server asks for binds it all the same.
                port.otherwise = .fail(.status(429, retryAfter: 300))
                try await device.addBoard("b-2")
                try await stage.pass(.seconds(10))
                port.forget()
                try await stage.pass(.seconds(280))
                #expect(port.requests.isEmpty)
            }
            try await device.end()
        }
    }

    @Test(
        "SCH-05 4xx, 401, a captive portal, cancellation and having no connection don't trip it",
        arguments: [
            ExchangeFailure.status(404), .status(429), .status(408), .status(401), .portal, .unreachable,
            ExchangeFailure(kind: .network, message: "cancelled", reachedServer: true, isCancelled: true),
        ])
    func doesNotTrip(failure: ExchangeFailure) throws {
        try inVirtualTime { stage in
            let port = port(stage)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            port.otherwise = .fail(failure)
            for _ in 0..<20 { _ = await device.engine.syncNow() }
            port.otherwise = .pass
            port.forget()
            let report = await device.engine.runOnce(deadline: .seconds(10))
            #expect(report.end == .complete)
            try await device.end()
        }
    }

    @Test(
        "SCH-05 5xx, time-outs and resets of a reached server trip it",
        arguments: [.status(503), .timedOut] as [ExchangeFailure])
    func trips(failure: ExchangeFailure) throws {
        try inVirtualTime { stage in
            let port = port(stage)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            port.otherwise = .fail(failure)
            for _ in 0..<5 { _ = await device.engine.syncNow() }
            port.forget()
            _ = await device.engine.runOnce(deadline: .seconds(10))
            #expect(port.requests.isEmpty)
            try await device.end()
        }
    }

    @Test(
        "SCH-04 the link, the foreground, a hint and the user probe at once; a cancelled probe is followed by the next")
    func probes() throws {
        try inVirtualTime { stage in
            let port = port(stage)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            port.otherwise = .fail(.status(503))
            try await stage.running(device) {
                try await stage.pass(.seconds(300))
                for trigger in [Scheduler.Trigger.reconnected, .foreground, .hint, .user] {
                    port.forget()
                    await device.engine.trigger(trigger)
                    try await stage.pass(.seconds(5))
                    #expect(port.requests.count == 1, "\(trigger)")
                }
            }
            // A probe that hangs is given up by its deadline; the next one is not kept waiting for it.
            port.otherwise = .hang(.seconds(1_000))
            await device.engine.trigger(.reconnected)
            port.forget()
            let cancelled = await device.engine.runOnce(deadline: .seconds(5))
            #expect(cancelled.end == .cancelled)
            #expect(port.requests.count == 1)
            port.otherwise = .pass
            #expect(await device.engine.runOnce(deadline: .seconds(5)).end == .complete)
            try await device.end()
        }
    }

    @Test(
        "SCH-03 the user's try that learned nothing leaves the cool-down as it was: nothing goes by itself before its end",
        arguments: [true, false])
    func triedInVain(isCancelled: Bool) throws {
        try inVirtualTime { stage in
            let (device, port) = try await opened(stage)
            try await stage.pass(.seconds(60))
            let given = ExchangeFailure(kind: .network, message: "cancelled", isCancelled: true)
            port.next(.fail(isCancelled ? given : .unreachable))
            _ = await device.engine.syncNow()
            port.forget()
            guard case .notNow(let until?, _) = await device.engine.runOnce(deadline: .seconds(10)).end else {
                Issue.record("a request went by itself")
                return
            }
            #expect(port.requests.isEmpty)
            // It kept its distance of 2 s from the try.
            #expect(abs(until - stage.wall.nowMilliseconds - 1_738_000) < 1_000)
            try await stage.pass(.seconds(1_741))
            #expect(await device.engine.runOnce(deadline: .seconds(10)).end == .complete)
            try await device.end()
        }
    }

    @Test("SCH-04 what says that the outside has changed while a probe hangs lets the next go when it is given up")
    func invitedWhileProbing() throws {
        try inVirtualTime { stage in
            let (device, port) = try await opened(stage)
            port.next(.hang(.seconds(1_000)))
            await withTaskGroup(of: Void.self) { group in
                group.addTask { _ = try? await device.engine.sync(for: .seconds(10)) }
                group.addTask {
                    try? await stage.pass(.seconds(5))
                    await device.engine.trigger(.reconnected)
                }
            }
            #expect(await device.engine.runOnce(deadline: .seconds(10)).end == .complete)
            try await device.end()
        }
    }

    @Test("SCH-04 a probe that is given up because the file refuses a write is followed by the next at once")
    func givenUpWithTheFile() throws {
        try inVirtualTime { stage in
            let port = port(stage)
            var policy = UploadPolicy()
            policy.limits.maxChanges = 1
            let device = try stage.device(port, policy: policy)
            _ = await device.engine.syncNow()
            port.otherwise = .fail(.status(503))
            for _ in 0..<5 { _ = await device.engine.syncNow() }
            port.otherwise = .slow(.seconds(3))
            for number in 0..<2 { try await device.addBoard("b-\(number)") }
            try await stage.pass(.seconds(1_801))
            // What is made ready behind the probe cannot be marked.
            try await device.write(
                """
                CREATE TRIGGER full BEFORE UPDATE OF state ON sync_change
                WHEN new.state = 1 AND EXISTS (SELECT 1 FROM sync_change WHERE state = 1)
                BEGIN SELECT RAISE(ABORT, 'no room'); END
                """)
            port.forget()
            guard case .store = await device.engine.runOnce(deadline: .seconds(10)).end else {
                Issue.record("the file took it")
                return
            }
            #expect(port.requests.count == 1)
            try await device.write("DROP TRIGGER full")
            let report = await device.engine.runOnce(deadline: .seconds(30))
            #expect(report.end == .complete)
            #expect(report.acknowledged == 2)
            try await device.end()
        }
    }

    @Test(
        "SCH-04 a restart asks at once, and a sign-out does not keep the probe away for ever", arguments: [true, false])
    func neverStuckAfter(restart: Bool) throws {
        try inVirtualTime { stage in
            let (device, port) = try await opened(stage)
            guard case .notNow = await device.engine.runOnce(deadline: .seconds(10)).end else {
                Issue.record("it is not open")
                return
            }
            if restart {
                let again = SyncEngine(
                    store: device.store, exchange: port, wallClock: stage.wall, clock: stage.clock,
                    randomness: SeededRandomness(seed: 9), ids: SeededIDs(seed: 9))
                #expect(await again.runOnce(deadline: .seconds(10)).end == .complete)
            } else {
                try await device.store.wipe()
                try await device.addBoard("b-1")
                try await stage.running(device) {
                    try await stage.pass(.seconds(1_900))
                    #expect(await device.status.lastEnd == .complete)
                    #expect(try await device.store.summary().hasWork == false)
                }
            }
            try await device.end()
        }
    }

    @Test(
        "SCH-04 another process's lease, or a wall clock set back a year, does not keep the probe away for ever",
        arguments: [true, false])
    func neverStuck(hasLease: Bool) throws {
        try inVirtualTime { stage in
            let device = try await opened(stage).device
            if hasLease {
                _ = try await device.store.lease(holder: "other", seconds: 2_000)
            } else {
                stage.wall.advance(milliseconds: -365 * 86_400_000)
            }
            try await stage.running(device) {
                try await stage.pass(.seconds(2_100))
                #expect(await device.status.lastEnd == .complete)
            }
            try await device.end()
        }
    }
}
