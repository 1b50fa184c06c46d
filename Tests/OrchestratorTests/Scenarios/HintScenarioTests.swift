import Orchestrator
import Storage
import SyncCore
import SyncTesting
import UploadQueue
import Testing

@Suite struct HintScenarioTests {
    private func model(_ stage: Stage) -> ModelServer { ModelServer(schema: Device.parsed, clock: stage.wall) }

    @Test("A change on one device is on the other within a second of its write, and hints cost no cycle of their own")
    func quick() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let (hintsA, hintsB) = (Hinter(clock: stage.clock), Hinter(clock: stage.clock))
            let told = Telling(server) { version in
                for hinter in [hintsA, hintsB] { hinter.say(Hint(currentSyncVersion: version)) }
            }
            let portA = Port(told, clock: stage.clock)
            let a = try stage.device(portA, seed: 1, hints: hintsA)
            let b = try stage.device(told, seed: 2, hints: hintsB)
            try await stage.running(a) {
                try await stage.running(b) {
                    for number in 0..<5 {
                        try await stage.pass(.seconds(10))
                        portA.forget()
                        try await a.addBoard("b-\(number)")
                        try await stage.pass(.seconds(1))
                        #expect(try b.rows("board").count == number + 1)
                        try await stage.pass(.seconds(4))
                        // The writer hears of its own commit, and has it already.
                        #expect(portA.requests.count == 1)
                    }
                }
            }
            try await a.end()
            try await b.end()
        }
    }

    @Test("DL-09 a version that was hinted at and never comes, as after a restored backup, makes one cycle and no more")
    func neverComes() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let (port, hints) = (Port(server, clock: stage.clock), Hinter(clock: stage.clock))
            let other = try stage.device(server, seed: 2)
            let device = try stage.device(port, seed: 1, hints: hints)
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(5))
                port.forget()
                hints.say(Hint(currentSyncVersion: 1_000))
                try await stage.pass(.seconds(25))
                #expect(port.requests.count == 1)
                // One that is true is followed, also where the first try fails.
                try await other.addBoard("b-2")
                _ = try await other.engine.sync(for: .seconds(5))
                port.next(.fail(.unreachable))
                hints.say(Hint(currentSyncVersion: server.head))
                try await stage.pass(.seconds(8))
                #expect(try device.rows("board").count == 2)
            }
            try await device.end()
            try await other.end()
        }
    }

    @Test("Without a stream the period brings everything; it is opened again with growing pauses, all different")
    func without() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let hints = Hinter(clock: stage.clock)
            hints.set(open: false)
            let (a, b) = (try stage.device(server, seed: 1), try stage.device(server, seed: 2, hints: hints))
            try await stage.running(b) {
                try await stage.pass(.seconds(5))
                try await a.addBoard("b-1")
                _ = try await a.engine.sync(for: .seconds(5))
                try await stage.pass(.seconds(30))
                #expect(try b.rows("board").count == 1)
                try await stage.pass(.seconds(3_600))
                let gaps = zip(hints.openings, hints.openings.dropFirst()).map { $1 - $0 }
                #expect(gaps.allSatisfy { $0 <= 60.001 })
                #expect(Set(gaps).count > gaps.count / 2)
                #expect(hints.openings.count < 300)
                hints.set(open: true)
                let events = await b.engine.events()
                for await event in events where event == .hintsOpened { break }
            }
            try await a.end()
            try await b.end()
        }
    }

    @Test("SCH-01 a stream that comes back after a loss makes a cycle, spread over the fleet's window")
    func back() throws {
        try inVirtualTime { stage in
            let hints = Hinter(clock: stage.clock)
            let port = Port(model(stage), clock: stage.clock)
            var configuration = EngineConfiguration()
            configuration.intervals.period = 3_600_000
            let device = try stage.device(port, hints: hints, configuration: configuration)
            try await stage.running(device) {
                try await stage.pass(.seconds(10))
                var delays: [Double] = []
                for _ in 0..<20 {
                    port.forget()
                    let openings = hints.openings.count
                    hints.breakStreams()
                    try await stage.pass(.seconds(60))
                    let opened = try #require(hints.openings.dropFirst(openings).first)
                    let asked = try #require(port.requests.first?.seconds)
                    #expect(port.requests.count == 1)
                    delays.append(asked - opened)
                }
                #expect(delays.allSatisfy { $0 >= 0 && $0 <= 10.001 })
                #expect((delays.max() ?? 0) - (delays.min() ?? 0) > 5)
            }
            try await device.end()
        }
    }

    @Test("I12 a server that ends each stream at once is asked ever more seldom; one that keeps it a while, soon again")
    func endedAtOnce() throws {
        try inVirtualTime { stage in
            let hints = Hinter(clock: stage.clock)
            let device = try stage.device(model(stage), hints: hints)
            try await stage.running(device) {
                hints.set(life: .milliseconds(20))
                try await stage.pass(.seconds(3_600))
                #expect(hints.openings.count < 300)
                hints.set(life: .seconds(120))
                try await stage.pass(.seconds(600))
                let openings = hints.openings.count
                try await stage.pass(.seconds(3_600))
                // One each 120 s, and a pause of a second at most.
                #expect((29...31).contains(hints.openings.count - openings))
            }
            try await device.end()
        }
    }

    @Test("NET-18 a server that was away when the run began: the first stream that opens probes, breaker or not")
    func firstOpening() throws {
        try inVirtualTime { stage in
            let hints = Hinter(clock: stage.clock)
            hints.set(open: false)
            let port = Port(model(stage), clock: stage.clock)
            let device = try stage.device(port, hints: hints)
            _ = await device.engine.syncNow()
            try await device.addBoard("b-1")
            port.otherwise = .fail(.status(503))
            try await stage.running(device) {
                try await stage.pass(.seconds(600))
                guard case .notNow? = await device.status.lastEnd else {
                    Issue.record("the breaker is not open")
                    return
                }
                port.otherwise = .pass
                hints.set(open: true)
                // The pause of the stream, and the fleet's spread.
                try await stage.pass(.seconds(71))
                #expect(try await device.store.summary().hasWork == false)
            }
            try await device.end()
        }
    }

    @Test("A hint in the last moment of a cycle, between its end and the next one's turn, is followed at once")
    func lastMoment() throws {
        for seed in 1...100 as ClosedRange<UInt64> {
            try inVirtualTime(seed: seed) { stage in
                let server = model(stage)
                let (port, hints) = (Port(server, clock: stage.clock), Hinter(clock: stage.clock))
                let (device, other) = (try stage.device(port, hints: hints), try stage.device(server, seed: 2))
                try await other.addBoard("b-1")
                try await stage.running(device) {
                    try await stage.pass(.seconds(5))
                    port.forget()
                    let events = await device.engine.events()
                    await device.engine.trigger(.foreground)
                    for await event in events {
                        guard case .cycleEnded = event else { continue }
                        hints.say(Hint(currentSyncVersion: server.head + 1))
                        break
                    }
                    _ = try await other.engine.sync(for: .seconds(1))
                    try await stage.pass(.seconds(10))
                    #expect(port.requests.count == 2, "seed \(seed)")
                    #expect(try device.rows("board").count == 1)
                }
                try await device.end()
                try await other.end()
            }
        }
    }

    @Test("A hint about roots that are not asked for wakes nobody")
    func foreignScope() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let hints = Hinter(clock: stage.clock)
            let port = Port(server.exchange, clock: stage.clock)
            let device = try stage.device(port, hints: hints)
            try await device.engine.setScopes([RecordKey("board", "b-1")])
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                port.forget()
                hints.say(Hint(currentSyncVersion: 99, scopes: ["board:b-2"]))
                try await stage.pass(.seconds(5))
                #expect(port.requests.isEmpty)
                hints.say(Hint(currentSyncVersion: 99, scopes: ["board:b-2", "board:b-1"]))
                try await stage.pass(.seconds(5))
                #expect(!port.requests.isEmpty)
            }
            try await device.end()
            try server.end()
        }
    }
}

/// Tells each new version as the server's streams do, before the answer is on its way.
private struct Telling: Exchange {
    let server: ModelServer
    let tell: @Sendable (Int64) -> Void
    init(_ server: ModelServer, _ tell: @escaping @Sendable (Int64) -> Void) {
        self.server = server
        self.tell = tell
    }
    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        let before = server.head
        let answer = try await server.exchange(request)
        if server.head > before { tell(server.head) }
        return answer
    }
    func close() async {}
}
