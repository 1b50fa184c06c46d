import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

@Suite("One request a change: run", .timeLimit(.minutes(20)))
struct RunTests {
    @Sendable private static func works() async throws(ExchangeFailure) {}

    /// Runs the queue while `body` does its part, then stops it.
    private func running(
        _ fixture: Fixture, _ sender: any ChangeSender, gate: GateSwitch = GateSwitch(),
        _ body: () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await fixture.queue.run(sender: sender, gate: gate) }
            try await body()
            group.cancelAll()
        }
    }

    /// Waits until nothing waits or flies.
    private func idle(_ fixture: Fixture) async {
        for await counts in fixture.queue.counts() where counts.waiting + counts.inFlight == 0 { return }
    }

    @Test("QUE-07 one change after another in the order made, each in a request of its own")
    func inOrder() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(20)
        let server = ScriptedSender()
        try await running(fixture, server) { await idle(fixture) }
        #expect(server.arrivals.map(\.change.id) == ids)
    }

    @Test("QUE-19 nothing sleeps through: a write at any moment wakes the queue")
    func wakes() async throws {
        let fixture = try Fixture()
        let server = ScriptedSender()
        try await running(fixture, server) { () async throws in
            for number in 1...200 {
                await fixture.board("b\(number)")
                await server.waitForArrivals(number)
            }
        }
        #expect(server.arrivals.count == 200)
    }

    @Test("QUE-19 a failure is tried again by the clock alone, with the same key")
    func retriesByClock() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(1)
        let server = ScriptedSender { _, number in number < 6 ? .fail(.offline) : .take }
        try await running(fixture, server) { () async throws in
            for number in 1...5 {
                await server.waitForArrivals(number)
                await fixture.clock.waitForSleepers(1)
                fixture.advance(seconds: 16)
            }
            await idle(fixture)
        }
        #expect(server.arrivals.map(\.change.id) == Array(repeating: ids[0], count: 6))
    }

    @Test("QUE-01 a poisoned change is set aside after its attempts, asked about by probes, and the rest goes on")
    func poison() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(3)
        let server = ScriptedSender { change, _ in change.id == ids[0] ? .fail(.http(500)) : .take }
        try await running(fixture, server) { () async throws in
            for number in 1...9 {
                await server.waitForArrivals(number)
                await fixture.clock.waitForSleepers(1)
                fixture.advance(seconds: 900)
            }
            await idle(fixture)
        }
        #expect(server.arrivals.map(\.change.id) == Array(repeating: ids[0], count: 10) + ids.dropFirst())
        #expect(server.probes == 8)
        #expect(try await fixture.queue.failures().map(\.reason.code) == ["tooManyAttempts"])
    }

    @Test("NET-16 a probe that is asked to wait is obeyed as a change's request is")
    func probesPause() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        let server = ScriptedSender { _, _ in .fail(.http(500)) }
        server.otherProbes = .fail(.http(429, retryAfter: 3_600))
        try await running(fixture, server) { () async throws in
            for number in 1...2 {
                await server.waitForArrivals(number)
                await fixture.clock.waitForSleepers(1)
                fixture.advance(seconds: 900)
            }
            await server.waitForArrivals(3)
            await fixture.clock.waitForSleepers(1)
        }
        #expect(server.probes == 1)
        let until = try await fixture.log.summary().schedule.serverNotBeforeMilliseconds
        #expect(until.map { $0 - fixture.wall.nowMilliseconds == 3_600_000 } == true)
        #expect(try await fixture.queue.take(urgency: .user).batch == nil)
    }

    @Test("NET-18 while probes fail too, no change is blamed")
    func storm() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(3)
        let server = ScriptedSender { _, number in
            number <= 30 ? .fail(.http(503)) : .take
        }
        server.otherProbes = .fail(.http(503))
        try await running(fixture, server) { () async throws in
            for number in 1...30 {
                await server.waitForArrivals(number)
                await fixture.clock.waitForSleepers(1)
                fixture.advance(seconds: 900)
            }
            await idle(fixture)
        }
        #expect(server.arrivals.map(\.change).suffix(3).map(\.id) == ids)
        #expect(try await fixture.queue.failures().isEmpty)
    }

    @Test("a refused change is set aside and a conflict sends its successor, one request each")
    func verdicts() async throws {
        let fixture = try Fixture()
        let record = RecordKey("board", "a")
        let refused = await fixture.board("x")
        await fixture.log.write(.update, record, ["count": FieldDelta(old: 1, new: 2, rule: .sum)])
        let conflict = ExchangeFailure(
            kind: .conflict, status: 412, message: "moved on", reachedServer: true,
            record: ServerRecord(key: record, version: 7, fields: ["count": 5]))
        let server = ScriptedSender { change, number in
            if change.id == refused { return .fail(.http(422, on: .change)) }
            return number == 2 ? .fail(conflict) : .take
        }
        try await running(fixture, server) { await idle(fixture) }
        let seen = server.arrivals.map(\.change)
        #expect(seen.count == 3)
        #expect(seen[2].fields["count"]?.new == 6 && seen[2].id != seen[1].id && seen[2].baseVersion == 7)
        #expect(try await fixture.queue.failures().map(\.reason.status) == [422])
    }

    @Test("QUE-18 PRC-04 a stop in flight marks nothing as sent; a new run sends the same key, then the later edit")
    func stop() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(1)
        let hanging = ClosureSender(probe: Self.works) {
            (_, _) async throws(ExchangeFailure) in
            do {
                try await fixture.clock.sleep(for: .seconds(1_000_000))
            } catch {
                throw .stopped
            }
            return []
        }
        try await running(fixture, hanging) { () async throws in
            await fixture.clock.waitForSleepers(1)
            await fixture.rename("b0", to: "later")
        }
        #expect(try await fixture.queue.queued().map(\.state) == [.uncertain, .pending])
        let server = ScriptedSender()
        try await running(fixture, server) { await idle(fixture) }
        let seen = server.arrivals.map(\.change)
        #expect(seen.map(\.id).first == ids[0] && seen.count == 2)
        #expect(seen[1].fields["name"]?.new == "later")
    }

    @Test("NET-02 a second driver gets nothing while one is at work")
    func oneDriver() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        let server = ScriptedSender { _, _ in .fail(.offline) }
        try await running(fixture, server) { () async throws in
            await server.waitForArrivals(1)
            await fixture.queue.run(sender: server, gate: GateSwitch())
            #expect(try await fixture.queue.take(urgency: .user).isNothing)
        }
        #expect(server.arrivals.count == 1)
    }

    @Test("SCH-10 a closed gate sends nothing, and is asked again even if nobody says that it opened")
    func gate() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        let gate = GateSwitch(.closed(untilMilliseconds: nil, cause: "no network"))
        let server = ScriptedSender()
        try await running(fixture, server, gate: gate) { () async throws in
            await fixture.clock.waitForSleepers(1)
            #expect(server.arrivals.isEmpty)
            gate.set(.open)
            fixture.advance(seconds: 900)
            await idle(fixture)
        }
        #expect(server.arrivals.count == 1)
    }

    @Test("a gate that closes between two changes stops the second before it is marked")
    func gateBetween() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(2)
        let gate = GateSwitch()
        let server = ClosureSender(probe: Self.works) {
            (changes, _) async throws(ExchangeFailure) in
            gate.set(.closed(untilMilliseconds: nil, cause: "paused"))
            return changes.map { ChangeResult(changeID: $0.id, verdict: .done) }
        }
        try await running(fixture, server, gate: gate) { await fixture.clock.waitForSleepers(1) }
        #expect(try await fixture.queue.queued().map(\.state) == [.pending])
    }

    @Test("a gate that closes between two changes, and says until when, is asked again then and not later")
    func gateUntil() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(2)
        let gate = GateSwitch()
        let until = fixture.wall.nowMilliseconds + 5_000
        let server = ScriptedSender()
        let closing = ClosureSender(probe: Self.works) { (changes, device) async throws(ExchangeFailure) in
            gate.set(.closed(untilMilliseconds: until, cause: "a pause"))
            return try await server.send(changes, deviceID: device)
        }
        try await running(fixture, closing, gate: gate) {
            await fixture.clock.waitForSleepers(1)
            #expect(fixture.clock.nextDeadline?.elapsed == .seconds(5))
            #expect(server.arrivals.count == 1)
            gate.set(.open)
            fixture.advance(seconds: 5)
            await idle(fixture)
        }
        #expect(server.arrivals.count == 2)
    }

    @Test("SEC-02 refused credentials freeze the queue until there are new ones")
    func credentials() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(10)
        let server = ScriptedSender { _, number in number == 5 ? .fail(.http(401)) : .take }
        let events = fixture.queue.events()
        try await running(fixture, server) { () async throws in
            for await event in events where event == .authenticationNeeded { break }
            try await fixture.queue.credentialsChanged()
            await idle(fixture)
        }
        #expect(server.arrivals.map(\.change.id) == Array(ids[...4]) + Array(ids[4...]))
    }

    @Test("PRC-06 PRC-08 a database that fails is asked again later, without spinning, and nothing is lost")
    func storeFailures() async throws {
        let fixture = try Fixture()
        let ids = await fixture.boards(1)
        for _ in 0..<3 { await fixture.log.failNext(StoreFailure(kind: .full, message: "disk full")) }
        let server = ScriptedSender()
        try await running(fixture, server) { () async throws in
            for _ in 1...3 {
                await fixture.clock.waitForSleepers(1)
                fixture.advance(seconds: 60)
            }
            await server.waitForArrivals(1)
            await idle(fixture)
        }
        #expect(server.arrivals.map(\.change.id) == ids)
    }

    @Test("OBS-06 a change that waits too long while the server is in reach is reported with the cause, once a while")
    func stuck() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        let server = ScriptedSender { _, _ in .verdict(.retry(afterSeconds: 700)) }
        let events = fixture.queue.events()
        var told: (age: Int64, cause: String)?
        try await running(fixture, server) { () async throws in
            await server.waitForArrivals(1)
            await fixture.clock.waitForSleepers(1)
            fixture.advance(seconds: 600)
            for await event in events {
                guard case .stuck(let age, let cause) = event else { continue }
                told = (age, cause)
                break
            }
        }
        #expect(told?.age == 600_000)
        #expect(told?.cause == "the server cannot decide a change now")
    }

    @Test("the user's wish goes past our own back-off in run, too")
    func hurry() async throws {
        let fixture = try Fixture()
        _ = await fixture.boards(1)
        let server = ScriptedSender { _, number in number == 1 ? .fail(.offline) : .take }
        try await running(fixture, server) { () async throws in
            await server.waitForArrivals(1)
            await fixture.clock.waitForSleepers(1)
            await fixture.queue.wake(.user)
            await idle(fixture)
        }
        #expect(server.arrivals.count == 2)
    }

    @Test("SCH-12 a thousand starts and stops leave no sleeper and no second loop, and the last start works")
    func startStop() async throws {
        let fixture = try Fixture()
        let server = ScriptedSender()
        for _ in 0..<1_000 { try await running(fixture, server) {} }
        #expect(fixture.clock.sleeperCount == 0)
        _ = await fixture.boards(1)
        try await running(fixture, server) { await idle(fixture) }
        #expect(server.arrivals.count == 1)
    }
}
