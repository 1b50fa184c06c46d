import Orchestrator
import Storage
import SyncCore
import SyncTesting
import UploadQueue
import Testing

@Suite struct ScheduleScenarioTests {
    private func model(_ stage: Stage) -> ModelServer { ModelServer(schema: Device.parsed, clock: stage.wall) }

    @Test("NET-02 whatever happens during a cycle makes exactly one more, and never two requests at once")
    func oneMore() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            let device = try stage.device(port)
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                port.forget()
                port.next(.slow(.seconds(20)))
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(2))
                #expect(port.requests.count == 1)
                await withTaskGroup(of: Void.self) { group in
                    for _ in 0..<100 { group.addTask { _ = await device.engine.syncNow() } }
                    for trigger in Scheduler.Trigger.allCases {
                        group.addTask { await device.engine.trigger(trigger) }
                    }
                }
                try await stage.pass(.seconds(20))
                #expect(port.requests.count == 2)
                #expect(port.mostAtOnce == 1)
                #expect(Set(port.requests.flatMap(\.changes).map(\.id)).count == 1)
            }
            try await device.end()
        }
    }

    private func isNear(_ time: Double?, _ expected: Double) -> Bool { abs((time ?? .infinity) - expected) < 0.02 }

    @Test("In the engine: 250 ms after a write, 2 s after the first of many, 2 s apart, 30 s without anything")
    func numbers() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            let device = try stage.device(port)
            try await stage.running(device) {
                try await stage.pass(.seconds(95))
                let quiet = port.requests.map(\.seconds)
                #expect(quiet.count == 4)
                for (number, time) in quiet.enumerated() { #expect(isNear(time, Double(30 * number))) }
                // One write, then one each 100 ms.
                port.forget()
                try await device.addBoard("b-0")
                try await stage.pass(.seconds(10))
                #expect(isNear(port.requests.first?.seconds, 95.25))
                port.forget()
                for number in 1...30 {
                    try await device.addBoard("b-\(number)")
                    try await stage.pass(.milliseconds(100))
                }
                #expect(isNear(port.requests.first?.seconds, 107))
                try await stage.pass(.seconds(5))
                // Everything at once, all the time, but for the user's wish.
                port.forget()
                for number in 0..<300 {
                    for trigger in Scheduler.Trigger.allCases where trigger != .user {
                        await device.engine.trigger(trigger)
                    }
                    try await device.addBoard("x-\(number)")
                    try await stage.pass(.milliseconds(100))
                }
                let starts = port.requests.map(\.seconds)
                let gaps = zip(starts, starts.dropFirst()).map { $1 - $0 }.filter { $0 > 0 }
                #expect(gaps.allSatisfy { $0 >= 1.999 })
                #expect(gaps.count >= 13)
            }
            try await device.end()
        }
    }

    @Test("What is written while a request that finds nothing is under way goes in the same cycle")
    func writtenMeanwhile() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            let device = try stage.device(port)
            for _ in 0..<3 { _ = await device.engine.syncNow() }
            let before = try await device.engine.recentCycles().count
            for number in 1...3 {
                port.next(.slow(.seconds(5)))
                try await withThrowingTaskGroup(of: CycleReport.self) { group in
                    group.addTask { await device.engine.syncNow() }
                    try await stage.pass(.seconds(2))
                    try await device.addBoard("b-\(number)")
                    try await stage.pass(.seconds(10))
                    let report = try #require(try await group.next())
                    #expect(report.end == .complete)
                    #expect(report.requests == 2)
                    #expect(report.acknowledged == 1)
                }
                #expect(try await device.store.summary().hasWork == false)
                #expect(try await device.engine.recentCycles().first?.counts["requests"] == 2)
                #expect(await device.engine.syncNow().requests == 1)
            }
            #expect(try await device.engine.recentCycles().count == before + 6)
            try await device.end()
        }
    }

    @Test("A cancelled run ends at once, though a cycle of syncNow hangs; so does a background call at its deadline")
    func nobodyHangs() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            port.otherwise = .hang(.seconds(120))
            let device = try stage.device(port)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { _ = await device.engine.syncNow() }
                try await stage.pass(.seconds(1))
                group.addTask { try await device.engine.run() }
                group.addTask {
                    let report = await device.engine.runOnce(deadline: .seconds(3))
                    #expect(report.end == .cancelled)
                    #expect(stage.seconds < 4.5)
                }
                try await stage.pass(.seconds(5))
                await device.engine.stop()
                let before = stage.seconds
                try await group.next()
                try await group.next()
                #expect(stage.seconds - before < 1)
                try await group.waitForAll()
            }
            #expect(port.requests.count == 1)
            try await device.end()
        }
    }

    @Test("Who waits behind a run that is stopped gets a cycle of its own, not a cancelled one")
    func servedAfterStop() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            let device = try stage.device(port)
            port.next(.hang(.seconds(120)))
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await device.engine.run() }
                try await stage.pass(.seconds(1))
                group.addTask { #expect(await device.engine.syncNow().end == .complete) }
                try await stage.pass(.seconds(1))
                await device.engine.stop()
                try await group.waitForAll()
            }
            #expect(stage.seconds < 3)
            try await device.end()
        }
    }

    @Test("SCH-06 twenty flips between run and stop in a second: never two cycles at once, starts stay 2 s apart")
    func flips() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            port.otherwise = .slow(.milliseconds(30))
            let device = try stage.device(port)
            for _ in 0..<20 { try await stage.running(device) { try await stage.pass(.milliseconds(50)) } }
            #expect(port.requests.count <= 1)
            #expect(port.mostAtOnce == 1)
            try await device.end()
        }
    }

    @Test("A paused engine starts nothing by itself, does the user's wish, and goes on at once when it is resumed")
    func paused() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            let device = try stage.device(port)
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                await device.engine.pause()
                #expect(await device.status.activity == .paused)
                port.forget()
                try await device.addBoard("b-1")
                await device.engine.trigger(.hint)
                try await stage.pass(.seconds(120))
                #expect(port.requests.isEmpty)
                #expect(await device.engine.syncNow().acknowledged == 1)
                #expect(await device.status.activity == .paused)
                try await device.addBoard("b-2")
                try await stage.pass(.seconds(120))
                #expect(port.requests.count == 1)
                // The same wish by its other name.
                await device.engine.trigger(.user)
                try await stage.pass(.seconds(3))
                #expect(port.requests.count == 2)
                #expect(await device.status.activity == .paused)
                try await device.addBoard("b-3")
                await device.engine.resume()
                try await stage.pass(.seconds(1))
                #expect(try await device.store.summary().hasWork == false)
                #expect(await device.status.activity == .idle)
            }
            try await device.end()
        }
    }

    @Test("SCH-07 suspended for eight hours in a request: it is dropped, one cycle starts, no burst of missed timers")
    func suspended() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            let device = try stage.device(port)
            try await stage.running(device) {
                try await stage.pass(.seconds(5))
                port.next(.hang(.seconds(120)))
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(2))
                port.forget()
                // All of the process stands still while the time goes on.
                stage.clock.advance(by: .seconds(8 * 3_600))
                try await stage.pass(.seconds(10))
                #expect((1...3).contains(port.requests.count))
                #expect(await device.status.lastEnd == .complete)
                #expect(try await device.store.summary().hasWork == false)
            }
            try await device.end()
        }
    }

    @Test("SCH-11 time that ends in mid-upload: a clean stop on the spot, and the same key goes again")
    func deadlineInUpload() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            let device = try stage.device(port)
            _ = await device.engine.syncNow()
            try await device.addBoard("b-1")
            port.forget()
            port.next(.hang(.seconds(120)))
            let before = stage.seconds
            let report = await device.engine.runOnce(deadline: .seconds(7))
            #expect(report.end == .cancelled)
            #expect(stage.seconds - before <= 7.001)
            #expect(await device.engine.syncNow().acknowledged == 1)
            #expect(Set(port.requests.flatMap(\.changes).map(\.id)).count == 1)
            try await device.end()
        }
    }

    @Test("SCH-11 DL-04 time that ends in mid-page: what is applied stands with its checkpoint, the rest comes later")
    func deadlineInPage() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let other = try stage.device(server, seed: 2)
            for number in 0..<10 { try await other.addBoard("b-\(number)") }
            _ = try await other.engine.sync(for: .seconds(10))
            var configuration = EngineConfiguration()
            configuration.sliceRecords = 3
            let stopper = Stopper(server)
            let device = try stage.device(stopper, configuration: configuration)
            let stopped = try await withThrowingTaskGroup(of: CycleReport.self) { group in
                group.addTask { await device.engine.syncNow() }
                return try await group.next() ?? CycleReport()
            }
            #expect(stopped.end == .cancelled)
            let rows = try device.rows("board").count
            #expect(rows == 6)
            let position = try await device.store.position()
            #expect(position.checkpoint == 6)
            #expect(await device.engine.syncNow().end == .complete)
            #expect(try device.rows("board").count == 10)
            try await device.end()
            try await other.end()
        }
    }

    @Test("SCH-12 a thousand starts and stops leave one loop, and the last start works")
    func startStop() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            let device = try stage.device(port)
            for _ in 0..<1_000 { try await stage.running(device) {} }
            try await stage.pass(.seconds(5))
            port.forget()
            try await stage.running(device) {
                try await device.addBoard("b-1")
                try await stage.pass(.seconds(3))
                #expect(try await device.store.summary().hasWork == false)
                try await stage.pass(.seconds(300))
                // One loop: a period is 30 s.
                #expect(port.requests.count <= 13)
            }
            #expect(stage.clock.sleeperCount == 0)
            try await device.end()
        }
    }

    @Test("SCH-14 constant local writes: what others write comes all the same, and the reverse")
    func starvation() throws {
        try inVirtualTime { stage in
            let server = model(stage)
            let (a, b) = (try stage.device(server, seed: 1), try stage.device(server, seed: 2))
            try await stage.running(a) {
                try await stage.running(b) {
                    for number in 0..<600 {
                        try await a.addBoard("a-\(number)")
                        if number % 100 == 0 { try await b.addBoard("b-\(number)") }
                        try await stage.pass(.milliseconds(100))
                    }
                    // While the writes go on nothing is further behind than a period and two cycles.
                    let (mine, theirs) = (try a.rows("board"), try b.rows("board"))
                    #expect(mine.filter { $0.contains("id=\"b-") }.count >= 5)
                    #expect(theirs.filter { $0.contains("id=\"a-") }.count >= 200)
                }
            }
            try await a.end()
            try await b.end()
        }
    }

    @Test("SCH-10 nobody says that the link is back: an attempt is made within the longest pause all the same")
    func reachabilityLies() throws {
        try inVirtualTime { stage in
            let port = Port(model(stage), clock: stage.clock)
            port.otherwise = .fail(.unreachable)
            let device = try stage.device(port)
            try await device.addBoard("b-1")
            try await stage.running(device) {
                try await stage.pass(.seconds(3_600))
                let times = port.requests.map(\.seconds)
                let gaps = zip(times, times.dropFirst()).map { $1 - $0 }
                #expect((gaps.max() ?? .infinity) <= 32.1)
                #expect(times.count > 100 && times.count < 600)
                port.otherwise = .pass
                try await stage.pass(.seconds(33))
                #expect(try await device.store.summary().hasWork == false)
            }
            try await device.end()
        }
    }

    @Test(
        "PRC-24 a thousand concurrent calls of everything: no deadlock, nothing lost, no change twice", arguments: 1...3
    )
    func reentrancy(seed: UInt64) throws {
        try inVirtualTime(seed: seed) { stage in
            let server = model(stage)
            let port = Port(server, clock: stage.clock)
            port.otherwise = .slow(.milliseconds(20))
            let device = try stage.device(port)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<250 {
                    group.addTask { try await device.addBoard("b-\(number)") }
                    group.addTask { _ = await device.engine.syncNow() }
                    group.addTask { await device.engine.stop() }
                    group.addTask {
                        do { try await device.engine.run() } catch EngineError.alreadyRunning {
                            await device.engine.stop()
                        }
                    }
                    if number % 10 == 0 { try await stage.pass(.milliseconds(7)) }
                }
                group.addTask {
                    // Whatever run was begun last has nobody else to end it.
                    for _ in 0..<600 {
                        await device.engine.stop()
                        try await stage.pass(.milliseconds(20))
                    }
                }
                try await group.waitForAll()
            }
            _ = try await device.engine.sync(for: .seconds(60))
            #expect(try device.rows("board").count == 250)
            #expect(server.effects.count == 250)
            #expect(port.mostAtOnce == 1)
            try await device.end()
        }
    }
}

/// Cancels the task that reads the page when the second slice has been read.
private struct Stopper: Exchange {
    let inner: any Exchange
    init(_ inner: any Exchange) { self.inner = inner }
    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        var answer = try await inner.exchange(request)
        if request.lastSyncVersion == 0 { answer.page = CancellingPage(inner: answer.page) }
        return answer
    }
    func close() async {}
}

private struct CancellingPage: RecordPage {
    let inner: any RecordPage
    private let reads = Counter()
    init(inner: any RecordPage) { self.inner = inner }
    var count: Int { inner.count }
    func next(maxRecords: Int, maxBytes: Int) throws(ExchangeFailure) -> [ServerRecord] {
        if reads.next() == 2 { withUnsafeCurrentTask { $0?.cancel() } }
        return try inner.next(maxRecords: maxRecords, maxBytes: maxBytes)
    }
}
