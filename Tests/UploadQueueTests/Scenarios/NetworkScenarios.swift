import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

/// FAILURES.md's situations of the network that concern a change, each on both logs.
@Suite("What goes wrong on the way", .timeLimit(.minutes(20)))
struct NetworkScenarios {
    @Test(
        "NET-01 PRC-03 the answer is lost after the server's commit: same key, same content, one effect",
        arguments: LogKind.allCases)
    func lostAnswer(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(1)
        try await scene.send(try await scene.batch(), .lostAnswer)
        try await scene.restart()
        try await scene.drain()
        #expect(scene.sent.count == 2 && scene.sent[0] == scene.sent[1])
        #expect(scene.server.effects.count == 1)
        try await scene.expectNothingLeft()
    }

    @Test(
        "NET-02 two drains at once: of two claims the newer counts, and no change has two effects",
        arguments: LogKind.allCases)
    func twoDrains(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(3)
        let first = try await scene.batch()
        try await scene.write(.board("late"))
        let second = try await scene.batch()
        #expect(second.changes.map(\.change).prefix(3) == first.changes.map(\.change)[...])
        // The older request is answered first, then the newer one: both reached the server.
        #expect(try await scene.send(first).batch == nil)
        #expect(try await scene.states() == [.uploading, .uploading, .uploading, .uploading])
        try await scene.send(second)
        #expect(scene.server.effects.count == 4)
        try await scene.expectNothingLeft()
    }

    @Test("NET-02 while one drain is at work, a second one and a cycle get nothing", arguments: LogKind.allCases)
    func secondDriver(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(1)
        let queue = scene.queue
        let server = ScriptedSender { _, number in number == 1 ? .fail(.offline) : .take }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await queue.run(sender: server, gate: GateSwitch()) }
            await server.waitForArrivals(1)
            await scene.clock.waitForSleepers(1)
            await queue.run(sender: server, gate: GateSwitch())
            let cycle = try await queue.take(urgency: .user)
            #expect(cycle.isNothing)
            #expect(server.arrivals.count == 1)
            await queue.wake(.user)
            for await counts in queue.counts() where counts.waiting + counts.inFlight == 0 { break }
            group.cancelAll()
        }
        try await scene.expectNothingLeft()
    }

    @Test(
        "NET-03 PRC-05 the HTTP stack sends a body twice: one effect, and the answer to a request given up has none here",
        arguments: LogKind.allCases)
    func replayed(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(2)
        let claim = try await scene.batch()
        _ = try scene.server.answer(scene.request(claim))
        try await scene.restart()
        let again = try await scene.batch()
        try await scene.send(again)
        // The first process's answer comes after all, and says that everything was refused.
        let refused = claim.changes.map { ChangeResult(changeID: $0.change.id, verdict: .refused()) }
        _ = try await scene.queue.settle(
            claim, results: refused, stamp: nil, backoffSeconds: nil, urgency: .routine)
        #expect(scene.server.effects.count == 2)
        try await scene.expectNothingLeft()
    }

    private static let nothings: [(String, ExchangeFailure)] = [
        ("NET-05 half-open connection", .timeout),
        ("NET-07 truncated body", .foreign("the body ended early", status: 200)),
        ("NET-10 malformed JSON", .foreign("no JSON", status: 200)),
        ("NET-11 wrong content-type", .foreign("text/html with JSON in it", status: 200)),
        ("NET-12 captive portal", .foreign("a page that asks to log in", status: 200)),
        ("NET-12 redirect to a portal", .foreign("a redirect", status: 302)),
        ("NET-19 odd success", .foreign("a status of 206", status: 206)),
        ("NET-19 the network wants a login", .http(511)),
        (
            "NET-21 untrusted certificate",
            ExchangeFailure(kind: .network, message: "TLS", isSecureConnectionFailure: true)
        ),
    ]

    @Test(
        "what is no answer decides nothing, counts nothing, and is followed by a time; afterwards all goes, once",
        arguments: LogKind.allCases, nothings.indices)
    func noAnswer(kind: LogKind, index: Int) async throws {
        let (name, failure) = Self.nothings[index]
        let scene = try Scene(kind)
        try await scene.boards(3)
        for _ in 0..<20 {
            let take = try await scene.send(try await scene.batch(), .fails(failure))
            let until = try #require(take.waitsUntil, "\(name)")
            #expect(until > scene.wall.nowMilliseconds && until <= scene.wall.nowMilliseconds + 900_000, "\(name)")
            // What else is asked fares no better.
            try await scene.queue.probed(succeeded: false)
        }
        let queued = try await scene.log.queued()
        #expect(queued.count == 3 && queued.allSatisfy { $0.attempts == 0 && $0.state != .failed }, "\(name)")
        #expect(try await scene.log.summary().schedule.cause == failure.description, "\(name)")
        #expect(scene.server.effects.isEmpty)
        try await scene.drain()
        #expect(scene.server.effects.count == 3)
        try await scene.expectNothingLeft()
    }

    @Test(
        "NET-14 a proxy answers 404 or 503 to everything for long: no change is decided, no row goes",
        arguments: LogKind.allCases, [404, 503])
    func maintenance(kind: LogKind, status: Int) async throws {
        let scene = try Scene(kind)
        try await scene.boards(2)
        for _ in 0..<60 {
            guard let claim = try await scene.queue.take(urgency: .user).batch else { continue }
            try await scene.send(claim, .fails(.http(status)))
            // What else is asked gets the same page.
            try await scene.queue.probed(succeeded: false)
        }
        #expect(try await scene.log.failures().isEmpty)
        if kind == .sqlite { #expect(try await scene.shownName("b1") == "b1") }
        try await scene.drain()
        #expect(scene.server.effects.count == 2)
        try await scene.expectNothingLeft()
    }

    @Test(
        "NET-16 429 with Retry-After: waited in full, for the user and after a restart too; shown; at most a day",
        arguments: LogKind.allCases, [0, 7, 86_400, 1e9])
    func retryAfter(kind: LogKind, seconds: Double) async throws {
        let scene = try Scene(kind)
        try await scene.boards(1)
        try await scene.send(try await scene.batch(), .fails(.http(429, retryAfter: seconds)))
        let until = scene.wall.nowMilliseconds + Int64(min(seconds, 86_400) * 1_000)
        if seconds > 0 {
            for _ in 0..<2 {
                #expect(try await scene.queue.take(urgency: .user).waitsUntil == until)
                #expect(try await scene.log.summary().schedule.serverNotBeforeMilliseconds == until)
                try await scene.restart()
            }
            scene.clock.advance(by: .milliseconds(until - scene.wall.nowMilliseconds - 1))
            #expect(try await scene.queue.take(urgency: .user).waitsUntil == until)
            scene.clock.advance(by: .milliseconds(1))
        }
        try await scene.send(try await scene.batch(.user))
        #expect(scene.server.effects.count == 1)
        try await scene.expectNothingLeft()
    }

    @Test(
        "NET-16 a pause asked for with a good answer holds for the next request, by REST too",
        arguments: LogKind.allCases)
    func backoff(kind: LogKind) async throws {
        let scene = try Scene(kind, policy: UploadPolicy(limits: ClaimLimits(maxChanges: 1)))
        try await scene.boards(2)
        let claim = try await scene.batch()
        let result = ChangeResult(changeID: claim.changes[0].change.id, verdict: .done, backoffSeconds: 30)
        let take = try await scene.queue.settle(
            claim, results: [result], stamp: nil, backoffSeconds: nil, urgency: .user)
        #expect(take.waitsUntil == scene.wall.nowMilliseconds + 30_000)
        #expect(try await scene.queue.take(urgency: .user).batch == nil)
        scene.advance(seconds: 30)
        try await scene.send(try await scene.batch())
        try await scene.expectNothingLeft()
    }

    @Test(
        "NET-18 a storm of 503 for 20 minutes over 50 changes: none parked, none counted, all drain in order",
        arguments: LogKind.allCases)
    func storm(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(50)
        let order = try await scene.keys()
        while scene.clock.now.elapsed < .seconds(1_200) {
            if let claim = try await scene.queue.take(urgency: .routine).batch {
                try await scene.send(claim, .fails(.http(503)))
                try await scene.queue.probed(succeeded: false)
            }
            scene.advance(seconds: 5)
        }
        #expect(try await scene.log.queued().map(\.attempts).allSatisfy { $0 == 0 })
        #expect(scene.sent.count < 30, "a hot loop")
        try await scene.drain()
        #expect(scene.server.effects.map(\.change.id) == order)
        try await scene.expectNothingLeft()
    }

    @Test(
        "NET-19 odd statuses are temporary: the change stays, under its key", arguments: LogKind.allCases,
        [408, 425, 499, 502, 504, 520, 521, 522, 523, 524, 525, 526, 530])
    func oddStatus(kind: LogKind, status: Int) async throws {
        let scene = try Scene(kind)
        try await scene.boards(1)
        let take = try await scene.send(try await scene.batch(), .fails(.http(status, on: .change)))
        #expect(take.waitsUntil == scene.wall.nowMilliseconds + 1_000)
        try await scene.drain()
        #expect(scene.sent.count == 2 && scene.sent[0] == scene.sent[1])
        try await scene.expectNothingLeft()
    }

    @Test(
        "NET-20 half of everything is lost for an hour: each change has one effect, in order, within four requests a change",
        arguments: LogKind.allCases)
    func loss(kind: LogKind) async throws {
        var dice = SeededGenerator(seed: 20)
        let scene = try Scene(kind, policy: UploadPolicy(limits: ClaimLimits(maxChanges: 1), jitter: .full))
        var progress = scene.queue.progress().makeAsyncIterator()
        var last = UploadProgress()
        for number in 0..<60 {
            try await scene.write(.board("b\(number)"))
            let minute = Duration.seconds(60 * (number + 1))
            while scene.clock.now.elapsed < minute {
                switch try await scene.queue.take(urgency: .routine) {
                case .batch(let claim):
                    try await scene.send(claim, dice.pick([.works, .works, .lostRequest, .lostAnswer]))
                    let step = try #require(await progress.next())
                    #expect(step.done >= last.done && step.total >= last.total && step.fraction >= last.fraction)
                    last = step
                    // The stream ends with the drain.
                    guard step.fraction == 1 else { continue }
                    let end = await progress.next()
                    #expect(end == nil)
                    (progress, last) = (scene.queue.progress().makeAsyncIterator(), UploadProgress())
                case .wait(let until, _, _):
                    scene.clock.advance(by: .milliseconds(max(1, until - scene.wall.nowMilliseconds)))
                case .nothing, .needsCredentials: scene.clock.advance(to: .init(minute))
                }
            }
        }
        try await scene.drain()
        #expect(scene.server.deeds == (0..<60).map { "create board b\($0)" })
        #expect(scene.sent.count <= 60 * 4)
        try await scene.expectNothingLeft()
    }

    @Test(
        "NET-22 another deployment answers with its own data set: nothing is decided, everything is kept",
        arguments: LogKind.allCases)
    func wrongServer(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(3)
        let keys = try await scene.keys()
        let failure = ExchangeFailure(
            kind: .history, status: 409, code: "otherDataset", message: "another data set", reachedServer: true)
        for _ in 0..<20 {
            let take = try await scene.send(try await scene.batch(), .fails(failure))
            #expect(take.waitsUntil != nil)
        }
        #expect(try await scene.keys() == keys)
        #expect(try await scene.log.queued().allSatisfy { $0.attempts == 0 })
        try await scene.drain()
        try await scene.expectNothingLeft()
    }

    @Test(
        "NET-24 the interface changes in the middle of an upload: one more request, with the same key",
        arguments: LogKind.allCases)
    func interface(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(1)
        let queue = scene.queue
        let server = ScriptedSender { _, number in number == 1 ? .fail(.timeout) : .take }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await queue.run(sender: server, gate: GateSwitch()) }
            await server.waitForArrivals(1)
            await scene.clock.waitForSleepers(1)
            // The new interface is up: everybody says so at once.
            for _ in 0..<20 { await queue.wake(.user) }
            for await counts in queue.counts() where counts.waiting + counts.inFlight == 0 { break }
            group.cancelAll()
        }
        let seen = server.arrivals.map(\.change)
        #expect(seen.count == 2 && seen[0] == seen[1])
        try await scene.expectNothingLeft()
    }
}

extension ExchangeFailure {
    /// An answer that is nobody's word.
    fileprivate static func foreign(_ message: String, status: Int) -> ExchangeFailure {
        ExchangeFailure(kind: .network, status: status, message: message)
    }
}
