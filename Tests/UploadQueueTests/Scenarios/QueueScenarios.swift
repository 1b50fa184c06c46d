import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

/// FAILURES.md's situations of the queue, each on both logs.
@Suite("What goes wrong with a queue", .timeLimit(.minutes(20)))
struct QueueScenarios {
    @Test(
        "QUE-01 a poison item at the head: set aside after its verdict, and only what needs it waits",
        arguments: LogKind.allCases)
    func poison(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(100)
        try await scene.write(.card("c0", on: "b0"))
        scene.server.refuse { $0.record.id == "b0" }
        try await scene.drain()
        let failures = try await scene.log.failures()
        #expect(failures.map(\.queued.change.record.id) == ["b0"])
        #expect(scene.server.liveRecords.count == 99)
        #expect(try await scene.states() == [.blocked])
        #expect(try await scene.log.queued().map(\.blockedBy) == failures.map(\.queued.change.id))
    }

    @Test(
        "QUE-02 SEC-04 OBS-03 a refusal is not a deletion: the record and the reason stay; an update goes back, its values are kept",
        arguments: LogKind.allCases)
    func refusal(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.write(.board("a", name: "old"))
        try await scene.drain()
        try await scene.write(.rename("a", to: "new"), .board("b"))
        scene.server.refuse(.forbidden) { _ in true }
        try await scene.drain()
        try await scene.restart()
        let failures = try await scene.queue.failures()
        #expect(failures.map(\.reason.code) == ["forbidden", "forbidden"])
        #expect(failures.map(\.queued.change.fields["name"]?.new) == ["new", "b"])
        if kind == .sqlite {
            #expect(try await scene.shownName("a") == "old")
            #expect(try await scene.shownName("b") == "b")
        }
        scene.server.refuseNothing()
        let keys = try await scene.queue.retryAll()
        #expect(Set(keys).isDisjoint(with: failures.map(\.queued.change.id)))
        try await scene.drain()
        #expect(scene.serverNames == ["board a": "new", "board b": "b"])
        try await scene.expectNothingLeft()
    }

    @Test(
        "QUE-03 what needs a parked create is blocked by it, uses no attempts, and goes in order after the retry",
        arguments: LogKind.allCases)
    func cascade(kind: LogKind) async throws {
        let scene = try Scene(kind)
        let cardRenamed = LocalWrite(.update, RecordKey("card", "c"), ["name": "d"])
        try await scene.write(.board("a"), .card("c", on: "a"), .rename("a", to: "b"), cardRenamed)
        scene.server.refuse { $0.record.entity == "board" }
        try await scene.drain()
        let create = try #require(try await scene.log.failures().first).queued.change.id
        let waiting = try await scene.log.queued()
        #expect(waiting.map(\.state) == [.blocked, .blocked, .blocked])
        #expect(waiting.allSatisfy { $0.blockedBy == create && $0.attempts == 0 })
        #expect(try await scene.queue.dependants(of: create) == waiting.map(\.change.id))
        #expect(try await scene.queue.take(urgency: .user).isNothing)
        scene.server.refuseNothing()
        try await scene.queue.retry(create)
        try await scene.drain()
        #expect(
            scene.server.deeds == ["create board a", "create card c", "update board a", "update card c"])
        #expect(scene.serverNames == ["board a": "b", "card c": "d"])
        try await scene.expectNothingLeft()
    }

    @Test(
        "QUE-03 what would go with a parked create is listed before it is discarded, and goes with it",
        arguments: LogKind.allCases)
    func discardTogether(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.write(.board("a"), .card("c", on: "a"), .board("b"))
        scene.server.refuse { $0.record.id == "a" }
        try await scene.drain()
        let create = try #require(try await scene.log.failures().first).queued.change.id
        let listed = try await scene.queue.dependants(of: create)
        #expect(listed.count == 1)
        #expect(Set(try await scene.queue.discard(create)) == Set(listed + [create]))
        if kind == .sqlite { #expect(try await scene.shownName("a") == nil) }
        #expect(scene.serverNames == ["board b": "b"])
        try await scene.expectNothingLeft()
    }

    @Test(
        "QUE-04 cancelling while in flight is too late; what is uncertain is undone under a new key",
        arguments: LogKind.allCases, [true, false])
    func cancel(kind: LogKind, isDone: Bool) async throws {
        let scene = try Scene(kind)
        try await scene.write(.board("a", name: "old"))
        try await scene.drain()
        try await scene.write(.rename("a", to: "new"), .board("b"))
        let keys = try await scene.keys()
        let claim = try await scene.batch()
        for key in keys { #expect(try await scene.queue.cancel(key) == .tooLate) }
        try await scene.send(claim, isDone ? .lostAnswer : .lostRequest)
        for key in keys {
            guard case .inverse(let inverse) = try await scene.queue.cancel(key) else {
                Issue.record("expected an inverse")
                continue
            }
            #expect(!keys.contains(inverse))
        }
        try await scene.drain()
        #expect(scene.serverNames == ["board a": "old"])
        try await scene.expectNothingLeft()
    }

    @Test(
        "QUE-05 cancelling a never-sent create takes its queued children along, and nothing of them leaves",
        arguments: LogKind.allCases)
    func cancelUnsent(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.write(.board("a"), .card("c", on: "a"))
        let keys = try await scene.keys()
        guard case .cancelled(let gone) = try await scene.queue.cancel(keys[0]) else {
            Issue.record("expected a cancellation")
            return
        }
        #expect(Set(gone) == Set(keys))
        #expect(try await scene.queue.take(urgency: .user).isNothing && scene.sent.isEmpty)
        try await scene.expectNothingLeft()
    }

    @Test(
        "QUE-06 only a change's own failures are counted; at the limit it is set aside, across restarts, and order stays",
        arguments: LogKind.allCases)
    func attempts(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(3)
        // The server's and the network's troubles first: none of them counts, however often.
        for _ in 0..<12 {
            for failure in [ExchangeFailure.offline, .http(401), .http(429), .http(503), .http(500)] {
                try await scene.send(try await scene.batch(), .fails(failure))
                try await scene.queue.credentialsChanged()
                try await scene.queue.probed(succeeded: false)
            }
        }
        #expect(try await scene.log.queued().allSatisfy { $0.attempts == 0 })
        // Now one change fails inside the server while everything else works.
        for round in 0..<200 {
            guard let claim = try await scene.queue.take(urgency: .user).batch else { break }
            let isPoisoned = claim.changes.contains { $0.change.record.id == "b1" }
            try await scene.send(claim, isPoisoned ? .fails(.http(500)) : .works)
            try await scene.queue.probed(succeeded: true)
            if round == 6 { try await scene.restart() }
        }
        let failed = try #require(try await scene.log.failures().first)
        #expect(failed.reason.code == "tooManyAttempts" && failed.isUncertain && failed.queued.attempts == 10)
        #expect(failed.queued.change.record.id == "b1")
        #expect(scene.server.deeds == ["create board b0", "create board b2"])
        // Trying it again keeps its key: it may have had its effect.
        #expect(try await scene.queue.retry(failed.queued.change.id) == failed.queued.change.id)
        try await scene.drain()
        try await scene.expectNothingLeft()
    }

    @Test(
        "QUE-07 the server never sees a child before its parent, whatever is lost and tried again",
        arguments: LogKind.allCases, [1, 2, 3] as [UInt64])
    func order(kind: LogKind, seed: UInt64) async throws {
        var dice = SeededGenerator(seed: seed)
        let policy = UploadPolicy(limits: ClaimLimits(maxChanges: 1 + Int(seed)), jitter: .full)
        let scene = try Scene(kind, policy: policy, seed: seed)
        for number in 0..<30 {
            try await scene.write(.board("b\(number)"))
            try await scene.write(.card("c\(number)", on: "b\(number)"))
            try await scene.write(.rename("b\(number)", to: "later"))
        }
        let order = try await scene.log.queued().map { "\($0.change.operation.rawValue) \($0.change.record)" }
        try await scene.drain { round in
            if round > 500 { return .works }
            return dice.pick([.works, .lostRequest, .lostAnswer, .fails(.http(503))])
        }
        #expect(scene.server.deeds == order)
        try await scene.expectNothingLeft()
    }

    private static let pairs: [(String, [LocalWrite], [LocalWrite])] = [
        ("create, update", [.board("a")], [.rename("a", to: "z")]),
        ("update, update", [.rename("k", to: "y")], [.rename("k", to: "z")]),
        ("update, delete", [.rename("k", to: "y")], [.delete("k")]),
        ("create, delete", [.board("a")], [.delete("a")]),
        ("delete, create", [.delete("k")], [.board("k", name: "z")]),
    ]

    @Test(
        "QUE-09 QUE-10 the coalescing table: elision only of what was never sent, and the server ends as without it",
        arguments: LogKind.allCases, pairs.indices)
    func coalescing(kind: LogKind, index: Int) async throws {
        let (name, first, second) = Self.pairs[index]
        for isUncertain in [false, true] {
            var ends: [[String: FieldValue?]] = []
            for merges in [false, true] {
                let limits = ClaimLimits(merges: merges)
                let scene = try Scene(kind, policy: UploadPolicy(limits: limits, jitter: .added(upTo: .zero)))
                try await scene.write(.board("k"))
                try await scene.drain()
                try await scene.write(first)
                var uncertain: Change?
                if isUncertain {
                    let claim = try await scene.batch()
                    uncertain = claim.changes[0].change
                    try await scene.send(claim, .lostAnswer)
                }
                try await scene.write(second)
                if let uncertain {
                    let again = try await scene.batch()
                    #expect(again.changes.count == 2 && again.changes[0].change == uncertain, "\(name)")
                    try await scene.send(again)
                } else if merges, name != "delete, create" {
                    #expect(try await scene.queue.take(urgency: .user).ids.count <= 1, "\(name)")
                }
                try await scene.drain()
                ends.append(scene.serverNames)
                try await scene.expectNothingLeft()
            }
            #expect(ends[0] == ends[1], "\(name), the first one \(isUncertain ? "uncertain" : "pending")")
        }
    }

    @Test(
        "QUE-11 merging does not move an edit across a change that needs it to come first", arguments: LogKind.allCases)
    func noMoving(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.write(.board("a"))
        try await scene.write(.card("c", on: "a"))
        try await scene.write(.rename("a", to: "b"))
        try await scene.drain()
        #expect(scene.server.deeds == ["create board a", "create card c", "update board a"])
        try await scene.expectNothingLeft()
    }

    @Test(
        "QUE-14 5,000 changes go in order, 1,000 a request, each once, and the queue is empty after as many requests",
        arguments: LogKind.allCases)
    func long(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(5_000)
        var take = try await scene.queue.take(urgency: .routine)
        var requests = 0
        var next = 0
        while let claim = take.batch {
            requests += 1
            for queued in claim.changes where queued.change.record.id == "b\(next)" { next += 1 }
            take = try await scene.queue.settle(
                claim, results: claim.changes.map { ChangeResult(changeID: $0.change.id, verdict: .done) }, stamp: nil,
                backoffSeconds: nil, urgency: .routine)
        }
        #expect(next == 5_000 && requests == 5)
        try await scene.expectNothingLeft()
    }

    @Test(
        "QUE-15 a batch too large is halved until it passes, the one that never does is set aside, the size is remembered",
        arguments: LogKind.allCases)
    func tooLarge(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(20)
        var take = try await scene.queue.take(urgency: .routine)
        var sizes: [Int] = []
        for _ in 0..<100 {
            guard let claim = take.batch else { break }
            sizes.append(claim.changes.count)
            let isTooLarge = claim.changes.count > 3 || claim.changes.contains { $0.change.record.id == "b7" }
            take = try await scene.send(claim, isTooLarge ? .fails(.http(413)) : .works)
            if sizes.count == 4 {
                try await scene.restart()
                take = try await scene.queue.take(urgency: .routine)
                #expect(take.ids.count == 2, "the size was forgotten")
            }
        }
        #expect(sizes.prefix(4) == [20, 10, 5, 2])
        #expect(try await scene.log.failures().map(\.queued.change.record.id) == ["b7"])
        #expect(try await scene.log.failures().map(\.reason.code) == ["tooLarge"])
        #expect(scene.server.liveRecords.count == 19)
        #expect(try await scene.keys().isEmpty)
    }

    @Test(
        "QUE-07 QUE-09 NET-02 what is written or taken back while a request is under way counts for the next one",
        arguments: LogKind.allCases, 0..<8 as Range<UInt64>)
    func meanwhile(kind: LogKind, seed: UInt64) async throws {
        let scene = try Scene(kind)
        try await scene.boards(12)
        let busy = BusySender(scene, seed: seed)
        await withTaskGroup(of: Void.self) { group in
            let queue = scene.queue
            group.addTask { await queue.run(sender: busy, gate: GateSwitch()) }
            for await counts in queue.counts() where counts.waiting + counts.inFlight == 0 { break }
            group.cancelAll()
        }
        #expect(busy.faults.isEmpty)
        // Each key went once, and had one effect; nothing was sent that had been taken back before.
        #expect(Set(busy.seen).count == busy.seen.count)
        #expect(scene.server.effects.map(\.change.id) == busy.seen)
        #expect(busy.taken.isDisjoint(with: busy.seen))
        for (id, name) in busy.names { #expect(scene.serverNames["board \(id)"] ?? nil == .string(name)) }
        for (id, name) in busy.names where kind == .sqlite { #expect(try await scene.shownName(id) == name) }
        try await scene.expectNothingLeft()
    }

    @Test("QUE-18 a pause or a stop while a request is out marks nothing as sent", arguments: LogKind.allCases)
    func pause(kind: LogKind) async throws {
        let scene = try Scene(kind, policy: UploadPolicy(limits: ClaimLimits(maxChanges: 1)))
        try await scene.boards(2)
        let claim = try await scene.batch()
        await scene.queue.pause()
        #expect(try await scene.send(claim, .fails(.stopped)).isNothing)
        #expect(try await scene.states() == [.uncertain, .pending])
        #expect(try await scene.queue.take(urgency: .user).isNothing)
        try await scene.restart()
        #expect(try await scene.states() == [.uncertain, .pending])
        try await scene.drain()
        #expect(scene.server.deeds == ["create board b0", "create board b1"])
        try await scene.expectNothingLeft()
    }

    @Test(
        "QUE-19 an upload that failed once is tried again by the clock alone; a write at any moment wakes the queue",
        arguments: LogKind.allCases)
    func rescheduled(kind: LogKind) async throws {
        let scene = try Scene(kind)
        let (queue, clock) = (scene.queue, scene.clock)
        let server = ScriptedSender { _, number in number == 1 ? .fail(.offline) : .take }
        try await scene.boards(1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await queue.run(sender: server, gate: GateSwitch()) }
            await server.waitForArrivals(1)
            await clock.waitForSleepers(1)
            // Nothing else happens: no write, no restart, no word of the app.
            clock.advance(by: .seconds(1))
            await server.waitForArrivals(2)
            for number in 0..<100 {
                try await scene.write(.board("later\(number)"))
                await server.waitForArrivals(number + 3)
            }
            for await counts in queue.counts() where counts.waiting + counts.inFlight == 0 { break }
            group.cancelAll()
        }
        let seen = server.arrivals.map(\.change)
        #expect(seen.count == 102 && seen[0].id == seen[1].id)
        try await scene.expectNothingLeft()
    }

    @Test(
        "QUE-21 the app no longer knows the entity of a queued change: it is sent, or set aside visibly",
        arguments: LogKind.allCases)
    func unknownEntity(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.write(.board("a"), .card("c", on: "a"))
        try await scene.restart(entities: [Scene.entities[0]])
        scene.server.refuse(.unknownEntity) { $0.record.entity == "card" }
        try await scene.drain()
        #expect(scene.serverNames == ["board a": "a"])
        let failures = try await scene.log.failures()
        #expect(failures.map(\.queued.change.record) == [RecordKey("card", "c")])
        #expect(failures.map(\.reason.code) == ["unknownEntity"])
        #expect(try await scene.log.queued().isEmpty)
    }

    @Test("QUE-22 PRC-02 nothing expires: a change 60 days old is still queued, and goes", arguments: LogKind.allCases)
    func noExpiry(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(1)
        let keys = try await scene.keys()
        scene.advance(seconds: 60 * 86_400)
        try await scene.restart()
        #expect(try await scene.keys() == keys)
        try await scene.drain()
        #expect(scene.sent.map { $0.map(\.id) } == [keys])
        try await scene.expectNothingLeft()
    }

    @Test(
        "QUE-23 counters survive a restart, and do not overflow at a million, nor at the greatest number",
        arguments: LogKind.allCases, [1_000_000, Int.max])
    func counters(kind: LogKind, count: Int) async throws {
        let scene = try Scene(kind, policy: UploadPolicy(jitter: .added(upTo: .zero), maxAttempts: .max))
        try await scene.boards(1)
        let claim = try await scene.batch()
        let outcome = Settlement.Outcome(
            changeID: claim.changes[0].change.id, kind: .unanswered(attempts: count - 1))
        _ = try await scene.log.settle(
            Settlement(outcomes: [outcome], schedule: QueueSchedule(failures: count)), claim: nil)
        try await scene.restart()
        #expect(try await scene.log.queued().map(\.attempts) == [count - 1])
        #expect(try await scene.log.summary().schedule.failures == count)
        for _ in 0..<3 {
            let take = try await scene.send(try await scene.batch(), .fails(.http(500)))
            let until = try #require(take.waitsUntil)
            #expect(until == scene.wall.nowMilliseconds + 900_000)
        }
        try await scene.queue.probed(succeeded: true)
        // At the greatest number there is, it can only be set aside.
        let attempts = try await scene.log.queued().map(\.attempts) + scene.log.failures().map(\.queued.attempts)
        #expect(attempts == [count == .max ? .max : count + 2])
    }

    @Test(
        "where changes go by a sender alone, a cycle is given none, also before that is at work",
        arguments: LogKind.allCases)
    func goesBySender(kind: LogKind) async throws {
        for isAlone in [false, true] {
            let scene = try Scene(kind, policy: UploadPolicy(goesBySender: isAlone))
            try await scene.boards(1)
            #expect(try await scene.queue.take(urgency: .user).batch?.changes.count == (isAlone ? nil : 1))
        }
    }
}

/// A server under whose requests an app goes on working: it writes and takes back, before or after anybody looked ahead.
private final class BusySender: ChangeSender, @unchecked Sendable {
    // Sendable: `run` sends one request after another, and the test looks when it is over.
    private let scene: Scene
    private var chance: SeededGenerator
    private var left = 40
    private(set) var seen: [String] = []
    /// The keys that were taken back.
    private(set) var taken: Set<String> = []
    /// What the boards are called at the end.
    private(set) var names: [String: String] = [:]
    private(set) var faults: [any Error] = []

    init(_ scene: Scene, seed: UInt64) {
        self.scene = scene
        chance = SeededGenerator(seed: seed)
        for number in 0..<12 { names["b\(number)"] = "b\(number)" }
    }

    func probe() async throws(ExchangeFailure) {}

    func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
        seen += changes.map(\.id)
        do {
            // Time for a look ahead, or none.
            for _ in 0..<Int.random(in: 0..<4, using: &chance) { _ = try await scene.log.summary() }
            if left > 0, Int.random(in: 0..<3, using: &chance) > 0 { try await work() }
            let request = ExchangeRequest(
                cycleID: "cycle-\(seen.count)", deviceID: deviceID, settled: 0, limit: 1, isStrict: false,
                changes: changes)
            return try scene.server.answer(request).results
        } catch {
            faults.append(error)
            return []
        }
    }

    private func work() async throws {
        left -= 1
        let waiting = try await scene.log.queued().filter { $0.state == .pending }
        let id = "b\(Int.random(in: 0..<12, using: &chance))"
        switch Int.random(in: 0..<4, using: &chance) {
        case 0:
            names["n\(left)"] = "n\(left)"
            try await scene.write(.board("n\(left)"))
        case 1:
            // The next one, or one behind it: a rename, so that the board stays.
            guard let queued = waiting.first(where: { $0.change.operation == .update }) else { return }
            guard case .cancelled(let keys) = try await scene.queue.cancel(queued.change.id) else { return }
            taken.formUnion(keys)
            names[queued.change.record.id] = nil
        default:
            guard names[id] != nil else { return }
            names[id] = "\(id) renamed \(left)"
            try await scene.write(.rename(id, to: "\(id) renamed \(left)"))
        }
    }
}
