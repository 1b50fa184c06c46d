import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing

@Suite struct EngineTests {
    private let server = ModelServer(schema: Device.parsed, clock: ManualWallClock())
    private let insertBoard = "INSERT INTO board (id, name) VALUES ('b-1', 'Garden')"

    @Test("A change made on one device arrives on another, and nothing is left to do")
    func twoDevices() async throws {
        let (a, b) = (try Device(server, seed: 1), try Device(server, seed: 2))
        try await a.write(insertBoard)
        try await a.write("INSERT INTO list (id, name, idBoard) VALUES ('l-1', 'Sowing', 'b-1')")
        try await a.write("INSERT INTO card (id, name, pos, idList) VALUES ('c-1', 'Peas', 1.5, 'l-1')")
        let pushed = try await a.engine.sync(for: .seconds(10))
        #expect(pushed.isInStep)
        #expect(pushed.report.acknowledged == 3)
        let pulled = try await b.engine.sync(for: .seconds(10))
        #expect(pulled.isInStep)
        #expect(pulled.report.received == 3)
        for entity in ["board", "list", "card"] { #expect(try a.rows(entity) == b.rows(entity)) }
        try await a.end()
        try await b.end()
    }

    @Test("A cycle with nothing to do costs one request")
    func nothingToDo() async throws {
        let device = try Device(server)
        _ = try await device.engine.sync(for: .seconds(10))
        let idle = await device.engine.syncNow()
        #expect(idle.requests == 1)
        #expect(idle.end == .complete)
        try await device.end()
    }

    @Test("NET-01 an answer lost after the commit leaves one effect, and the retry is answered from memory")
    func lostAnswer() async throws {
        let losing = LosingExchange(server)
        let device = try Device(losing)
        _ = await device.engine.syncNow()
        try await device.write(insertBoard)
        await losing.loseNext()
        let lost = await device.engine.syncNow()
        #expect(lost.end != .complete)
        let waiting = try await device.store.summary()
        #expect(waiting.inFlight == 1)
        let again = await device.engine.syncNow()
        #expect(again.end == .complete)
        #expect(server.effects.count == 1)
        let left = try await device.store.summary()
        #expect(!left.hasWork)
        try await device.end()
    }

    @Test("DAT-02 edits of different fields of one record on two devices both survive on both")
    func differentFields() async throws {
        let (a, b) = (try Device(server, seed: 1), try Device(server, seed: 2))
        try await a.write(insertBoard)
        for device in [a, b] { _ = try await device.engine.sync(for: .seconds(10)) }
        try await a.write("UPDATE board SET name = 'Allotment' WHERE id = 'b-1'")
        try await b.write("UPDATE board SET desc = 'behind the house' WHERE id = 'b-1'")
        for device in [a, b, a] { #expect(try await device.engine.sync(for: .seconds(10)).isInStep) }
        #expect(try a.rows("board") == b.rows("board"))
        let row = try a.rows("board").first ?? ""
        #expect(row.contains("Allotment") && row.contains("behind the house"))
        try await a.end()
        try await b.end()
    }

    @Test("DAT-04 a device whose clock is an hour fast does not win over an edit made after its own")
    func fastClock() async throws {
        let now = ManualWallClock.usualStart
        let fast = try Device(server, seed: 1, wall: ManualWallClock(now + 3_600_000))
        let right = try Device(server, seed: 2, wall: ManualWallClock(now))
        try await right.write(insertBoard)
        _ = try await right.engine.sync(for: .seconds(10))
        _ = try await fast.engine.sync(for: .seconds(10))
        try await fast.write("UPDATE board SET name = 'first' WHERE id = 'b-1'")
        right.wall.advance(milliseconds: 5_000)
        try await right.write("UPDATE board SET name = 'last' WHERE id = 'b-1'")
        for device in [fast, right, fast] { _ = try await device.engine.sync(for: .seconds(10)) }
        #expect(try fast.rows("board") == right.rows("board"))
        #expect(try fast.rows("board").first?.contains("last") == true)
        try await fast.end()
        try await right.end()
    }

    @Test(
        "DAT-04 clocks set an hour ahead and five minutes back between two syncs: the last edit in real time wins, and who has seen a value and edits it wins over it"
    )
    func clocksSetWrong() throws {
        try inVirtualTime { stage in
            let server = try RealServer(stage)
            let walls = [1, 2].map { _ in ManualWallClock(following: stage.clock) }
            let devices = try walls.enumerated().map { index, wall in
                try Device(
                    server.exchange, seed: UInt64(index + 1), wall: wall, clock: stage.clock,
                    executor: stage.executor.lane("store \(index)"))
            }
            let (fast, slow) = (devices[0], devices[1])
            func name() throws -> Set<String> {
                try Set(devices.map { try $0.rows("board").first ?? "" }.map { $0.contains("last") ? "last" : $0 })
            }
            try await slow.addBoard("b-1")
            for device in [slow, fast] { #expect(try await device.engine.sync(for: .seconds(10)).isInStep) }
            walls[0].advance(milliseconds: 3_600_000)
            walls[1].advance(milliseconds: -300_000)
            try await fast.write("UPDATE board SET name = 'early' WHERE id = 'b-1'")
            try await stage.pass(.seconds(5))
            try await slow.write("UPDATE board SET name = 'last' WHERE id = 'b-1'")
            for device in [fast, slow, fast] { #expect(try await device.engine.sync(for: .seconds(10)).isInStep) }
            #expect(try name() == ["last"])
            // The other way round: the one that is behind goes first.
            try await slow.write("UPDATE board SET name = 'early' WHERE id = 'b-1'")
            try await stage.pass(.seconds(5))
            try await fast.write("UPDATE board SET name = 'the last' WHERE id = 'b-1'")
            for device in [fast, slow, fast] { #expect(try await device.engine.sync(for: .seconds(10)).isInStep) }
            #expect(try name() == ["last"])
            // It was five minutes back again when it saw that value and edited it.
            walls[1].advance(milliseconds: -300_000)
            try await slow.write("UPDATE board SET name = 'seen, the last' WHERE id = 'b-1'")
            for device in [slow, fast] { #expect(try await device.engine.sync(for: .seconds(10)).isInStep) }
            #expect(try fast.rows("board") == slow.rows("board"))
            #expect(try fast.rows("board").first?.contains("seen, the last") == true)
            for device in devices { try await device.end() }
            try server.end()
        }
    }

    @Test("NET-22 another data set under the same address: nothing is sent or taken, and the engine says so")
    func otherDataset() async throws {
        let device = try Device(ScriptedExchange([.failure(.status(409, code: "otherDataset"))]))
        try await device.write(insertBoard)
        #expect(await device.engine.syncNow().end == .otherDataset)
        let kept = try await device.store.summary()
        #expect(kept.pending == 1)
        try await device.end()
    }

    @Test("NET-16 a pause that the server asked for before it saw a change binds the next cycle, the user's too")
    func pauseWithoutChanges() async throws {
        let scripted = ScriptedExchange([.failure(.status(503, retryAfter: 100))])
        let device = try Device(scripted)
        _ = await device.engine.syncNow()
        _ = await device.engine.syncNow()
        #expect(scripted.requests.count == 1)
        device.wall.advance(milliseconds: 101_000)
        device.clock.advance(by: .seconds(101))
        _ = await device.engine.syncNow()
        #expect(scripted.requests.count == 2)
        try await device.end()
    }

    @Test("SCH-06 a hundred wishes at once make one cycle and exactly one more, and each gets a report of it")
    func manyWishes() throws {
        try inVirtualTime { stage in
            let port = Port(ModelServer(schema: Device.parsed, clock: stage.wall), clock: stage.clock)
            port.otherwise = .slow(.seconds(1))
            let device = try stage.device(port)
            let ends = await withTaskGroup(of: CycleEnd.self) { group in
                for _ in 0..<100 { group.addTask { await device.engine.syncNow().end } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(ends == Array(repeating: .complete, count: 100))
            #expect(port.requests.count == 2)
            #expect(port.mostAtOnce == 1)
            try await device.end()
        }
    }

    @Test("Whoever asks from many threads at once, there is never more than one request")
    func manyThreads() async throws {
        let counting = CountingExchange(server)
        let device = try Device(counting)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<100 { group.addTask { _ = await device.engine.syncNow() } }
        }
        #expect(await counting.mostAtOnce == 1)
        try await device.end()
    }

    @Test("Starting twice is a named error, by either name, and stop ends the run")
    func runTwice() async throws {
        let device = try Device(server)
        let engine = device.engine
        await withTaskGroup(of: Void.self) { group in
            group.addTask { do { try await engine.start() } catch { Issue.record(error) } }
            var statuses = await engine.statuses().makeAsyncIterator()
            while await statuses.next()?.lastEnd != .complete {}
            do throws(EngineError) {
                try await engine.run()
                Issue.record("the second run must be refused")
            } catch {
                #expect(error == EngineError.alreadyRunning)
            }
            await #expect(throws: EngineError.alreadyRunning) { try await engine.start() }
            await engine.stop()
        }
        try await device.end()
    }
}

/// Passes everything on, and loses the answer that it was told to lose after the server has done its work.
private actor LosingExchange: Exchange {
    private let inner: any Exchange
    private var isLosing = false
    init(_ inner: any Exchange) { self.inner = inner }
    func loseNext() { isLosing = true }
    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        let answer = try await inner.exchange(request)
        guard isLosing else { return answer }
        isLosing = false
        throw ExchangeFailure(kind: .network, message: "the connection was lost", reachedServer: true)
    }
    func close() async {}
}

/// Counts requests, and how many there were at once.
private actor CountingExchange: Exchange {
    private let inner: any Exchange
    private(set) var requests = 0
    private(set) var mostAtOnce = 0
    private var now = 0
    init(_ inner: any Exchange) { self.inner = inner }
    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        requests += 1
        now += 1
        mostAtOnce = max(mostAtOnce, now)
        defer { now -= 1 }
        await Task.yield()
        return try await inner.exchange(request)
    }
    func close() async {}
}
