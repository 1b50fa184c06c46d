import SyncCore
import SyncTesting

@testable import UploadQueue

/// Does anything at any time to a queue, and holds what it does against a model that refuses what is illegal.
struct RandomDriver {
    private let clock = VirtualClock()
    private let wall: ManualWallClock
    private let log: InMemoryChangeLog
    private let policy: UploadPolicy
    private var queue: UploadQueue
    private var random: SeededGenerator
    private var server = RandomServer()
    private var out: Claim?
    private var given: [Claim] = []
    /// Keys whose decision was recorded here: none of them may leave again.
    private var over: Set<String> = []
    /// Before this time of the monotonic clock nothing may leave: the server's word that was recorded.
    private var floor: Int64 = 0
    private var needsCredentials = false
    private var isFresh = true
    private var isPaused = false
    /// The next call of the queue meets a database that is busy.
    private var isFailing = false
    private var number = 0
    private var boards = 0
    private(set) var reached: Set<String> = []

    init(seed: UInt64) throws {
        random = SeededGenerator(seed: seed)
        wall = ManualWallClock(following: clock)
        policy = UploadPolicy(limits: ClaimLimits(maxChanges: 1 + random.below(12)))
        log = InMemoryChangeLog(schema: try Schema(Fixture.schema), wallClock: wall, ids: SeededIDs(seed: seed))
        queue = UploadQueue(
            log: log, policy: policy, wallClock: wall, clock: clock, randomness: SeededRandomness(seed: seed))
    }

    private var now: Int64 { clock.now.elapsed.milliseconds }

    mutating func step() async throws {
        number += 1
        do {
            switch random.below(20) {
            case 0...3: try await write()
            case 4...8: try await take(random.chance(0.5) ? .user : .routine)
            case 9...12: try await answer()
            case 13: try await fail()
            case 14: try await late()
            case 15: clock.advance(by: .milliseconds(random.below(random.chance(0.1) ? 2_000_000 : 20_000)))
            case 16: try await probe()
            case 17: try await repair()
            default: try await disturb()
            }
        } catch let failure as StoreFailure {
            guard isFailing else { throw failure }
            await disarm()
            reached.insert("a call that could not be recorded")
        }
        if number.isMultiple(of: 4) { try await check() }
    }

    // MARK: What may happen

    private mutating func write() async throws {
        guard try await log.summary().pending < 60 else { return }
        switch random.below(10) {
        case 0...3:
            boards += 1
            await log.write(.create, RecordKey("board", "b\(boards)"), ["name": FieldDelta(old: nil, new: 0)])
        case 4...6:
            let rule: MergeRule = random.chance(0.5) ? .check : .lastWriter
            await log.write(.update, someBoard(), ["name": FieldDelta(old: 0, new: .int(Int64(number)), rule: rule)])
        case 7:
            await log.write(.delete, someBoard())
        case 8:
            await log.write(
                .create, RecordKey("card", "c\(number)"),
                ["idBoard": FieldDelta(old: nil, new: .string(someBoard().id))])
        default:
            await log.write(
                [
                    .init(.create, RecordKey("card", "u\(number)"), [:]),
                    .init(.create, RecordKey("card", "v\(number)"), [:]),
                ],
                isUnit: true)
        }
    }

    private mutating func someBoard() -> RecordKey {
        RecordKey("board", "b\(max(1, boards - random.below(6)))")
    }

    /// Lets the database fail, if this is to be; only for calls of the queue, so that looking changes nothing.
    private func arm() async {
        if isFailing { await log.failNext(StoreFailure(kind: .busy, message: "locked")) }
    }

    private mutating func disarm() async {
        await log.stopFailing()
        isFailing = false
    }

    private mutating func take(_ urgency: Urgency) async throws {
        if let out { given.append(out) }
        out = nil
        let before = try await log.queued()
        await arm()
        let take = try await queue.take(urgency: urgency)
        await disarm()
        try accept(take, urgency, before: before, canClaim: true)
    }

    /// Holds what the queue gave against the model.
    private mutating func accept(
        _ take: Take, _ urgency: Urgency, before: [QueuedChange]?, canClaim: Bool
    ) throws(Violation) {
        switch take {
        case .batch(let claim):
            guard canClaim, out == nil else { throw Violation("claimed beside another claim, or after a stop") }
            guard !isPaused else { throw Violation("claimed while paused") }
            guard now >= floor else { throw Violation("claimed \(floor - now) ms before the server's time") }
            guard !needsCredentials || (isFresh && urgency == .user) else {
                throw Violation("claimed without credentials")
            }
            isFresh = false
            let units = Set(claim.changes.map { $0.change.unit })
            guard claim.changes.count <= policy.limits.maxChanges || units.count == 1 && units.first != .some(nil)
            else {
                throw Violation("claimed more than the limit")
            }
            if let again = claim.changes.first(where: { over.contains($0.change.id) }) {
                throw Violation("\(again.change.id) was decided, and goes again")
            }
            if let before {
                let order = before.map(\.change.id).filter { id in claim.changes.contains { $0.change.id == id } }
                let known = claim.changes.map(\.change.id).filter(order.contains)
                guard order == known else { throw Violation("claimed out of order") }
            }
            out = claim
        case .wait(let until, _, _):
            guard until - wall.nowMilliseconds <= 86_400_000 else { throw Violation("waits for more than a day") }
        case .nothing(let summary):
            guard !canClaim || isPaused || !summary.hasWork else { throw Violation("asleep with work to do") }
        case .needsCredentials:
            guard needsCredentials else { throw Violation("asks for credentials that nobody refused") }
        }
    }

    private mutating func answer() async throws {
        guard let claim = out else { return }
        if server.isHostile, claim.changes.contains(where: { Self.isPoisoned($0.change) }) {
            return try await fail(.http(500))
        }
        let results = try server.answer(claim, &random)
        let backoff: Double? = server.isHostile && random.chance(0.03) ? Double(random.below(50)) : nil
        out = nil
        await arm()
        let take = try await queue.settle(
            claim, results: results, stamp: nil, backoffSeconds: backoff, urgency: .routine)
        await disarm()
        let ids = Set(claim.changes.map(\.change.id))
        for result in results where ids.contains(result.changeID) {
            if result.verdict.isDecided { over.insert(result.changeID) }
            if case .retry(let seconds?) = result.verdict { floor = max(floor, now + Int64(seconds * 1_000)) }
            reached.insert("\(result.verdict)".prefix { $0 != "(" } + " verdict")
        }
        if let backoff { floor = max(floor, now + Int64(backoff * 1_000)) }
        needsCredentials = false
        let unanswered = ids.subtracting(results.map(\.changeID))
        if !unanswered.isEmpty {
            let standing = Set(try await log.queued().map(\.change.id))
            guard unanswered.isSubset(of: standing) else { throw Violation("a change without a verdict has left") }
            reached.insert("missing verdict")
        }
        try accept(take, .routine, before: nil, canClaim: true)
    }

    /// The server fails inside whenever it meets one of these.
    private static func isPoisoned(_ change: Change) -> Bool {
        change.operation == .create && change.record.id.hasPrefix("b") && change.record.id.hasSuffix("77")
    }

    private mutating func fail(_ certain: ExchangeFailure? = nil) async throws {
        guard let claim = out else { return }
        // The server may have done its work before the answer was lost.
        if certain == nil, random.chance(0.3) { _ = try server.answer(claim, &random) }
        let retryAfter: Double? = random.chance(0.3) ? Double(random.below(300)) : nil
        let failures: [ExchangeFailure] = [
            .offline, .timeout, .http(500, retryAfter: retryAfter), .http(503, retryAfter: retryAfter),
            .http(429, retryAfter: retryAfter), .http(401), .http(413), .http(400), .http(410), .stopped,
        ]
        let failure = certain ?? random.pick(failures)
        let attempts = try await log.queued().map(\.attempts).reduce(0, +)
        let setAside = try await log.failures().count
        out = nil
        await arm()
        let take = try await queue.settle(claim, failure: failure, urgency: .user)
        await disarm()
        reached.insert("\(failure.status.map(String.init) ?? failure.message)")
        if let seconds = failure.retryAfterSeconds { floor = max(floor, now + Int64(seconds * 1_000)) }
        if failure.kind == .authentication { needsCredentials = true }
        let left = try await log.failures().count - setAside
        if left > 0 {
            guard failure.kind == .tooLarge else { throw Violation("\(failure) set \(left) aside") }
            over.formUnion(claim.changes.map(\.change.id))
        } else {
            guard try await log.queued().map(\.attempts).reduce(0, +) == attempts else {
                throw Violation("\(failure) was counted against a change")
            }
        }
        try accept(take, .user, before: nil, canClaim: !failure.isCancelled)
    }

    /// An answer to a request that was given up, or a second one to one that was settled.
    private mutating func late() async throws {
        guard let claim = given.randomElement(using: &random), claim.ids != out?.ids else { return }
        let before = try await log.queued().map(\.change.id)
        let setAside = try await log.failures().count
        let take = try await queue.settle(
            claim, results: claim.changes.map { ChangeResult(changeID: $0.change.id, verdict: .refused()) }, stamp: nil,
            backoffSeconds: nil, urgency: .routine)
        guard try await log.failures().count == setAside else { throw Violation("a late answer set changes aside") }
        reached.insert("late answer")
        if out == nil { try accept(take, .routine, before: nil, canClaim: true) }
        // A claim may merge neighbours, and nothing else may go.
        let after = try await log.queued().map(\.change.id)
        guard Set(after).isSubset(of: before) else { throw Violation("a late answer made a change") }
    }

    private mutating func probe() async throws {
        let before = try await log.failures().count
        await arm()
        let succeeded = random.chance(0.7)
        try await queue.probed(succeeded: succeeded)
        await disarm()
        if succeeded { needsCredentials = false }
        if try await log.failures().count > before { reached.insert("a suspect set aside") }
    }

    private mutating func repair() async throws {
        let failures = try await log.failures()
        if let failed = failures.randomElement(using: &random) {
            let id = failed.queued.change.id
            if random.chance(0.7) {
                let key = try await queue.retry(id)
                guard (key == id) == failed.isUncertain else { throw Violation("a retry with the wrong key") }
                over.subtract(failed.isUncertain ? [id] : [])
                reached.insert("retry")
            } else {
                _ = try await queue.discard(id)
                reached.insert("discard")
            }
        } else if let change = try await log.queued().randomElement(using: &random), random.chance(0.3) {
            let outcome = try await queue.cancel(change.change.id)
            if change.state == .uploading, outcome != .tooLate { throw Violation("cancelled in flight") }
            reached.insert("\(outcome)".prefix { $0 != "(" } + " by cancel")
        }
    }

    private mutating func disturb() async throws {
        switch random.below(12) {
        case 0:
            isPaused = true
            await queue.pause()
        case 1...3:
            isPaused = false
            await queue.resume()
        case 4...5:
            try await queue.credentialsChanged()
            needsCredentials = false
        case 6:
            await restart()
        case 7:
            isFailing = true
        default:
            clock.advance(by: .seconds(random.below(100)))
        }
    }

    private mutating func restart() async {
        await log.crash()
        if let out { given.append(out) }
        out = nil
        isPaused = false
        isFresh = true
        queue = UploadQueue(
            log: log, policy: policy, wallClock: wall, clock: clock,
            randomness: SeededRandomness(seed: random.next()))
        given = []
        reached.insert("restart")
    }

    // MARK: What must hold

    private func check() async throws {
        let (queued, failures, summary) = (try await log.queued(), try await log.failures(), try await log.summary())
        func count(_ states: QueuedChange.State...) -> Int { queued.filter { states.contains($0.state) }.count }
        guard summary.pending == count(.pending), summary.inFlight == count(.uploading, .uncertain),
            summary.blocked == count(.blocked), summary.failed == failures.count
        else { throw Violation("the figures lie: \(summary)") }
        let keys = queued.map(\.change.id) + failures.map(\.queued.change.id)
        guard Set(keys).count == keys.count else { throw Violation("one key twice") }
        let standing = Set(keys)
        for change in queued where change.blockedBy.map({ !standing.contains($0) }) ?? false {
            throw Violation("\(change.change.id) is blocked by what is gone")
        }
        for change in queued where change.attempts >= policy.maxAttempts {
            throw Violation("\(change.change.id) has \(change.attempts) attempts and goes on")
        }
    }

    // MARK: The end

    /// The faults stop: everything must leave, or be set aside for the app to decide, within a bound.
    mutating func heal() async throws {
        isFailing = false
        server.isHostile = false
        isPaused = false
        await queue.resume()
        try await queue.credentialsChanged()
        needsCredentials = false
        for _ in 0..<5_000 {
            if out == nil { try await take(.user) }
            try await answer()
            if let out { given.append(out) }
            let summary = try await log.summary()
            if summary.hasWork {
                if out == nil { clock.advance(by: .seconds(1)) }
                continue
            }
            guard let failed = try await log.failures().first else { return }
            // What is refused again for good (its parent was discarded) is given up by the app.
            if failed.reason.code == "missingReference" {
                _ = try await queue.discard(failed.queued.change.id)
            } else {
                _ = try await queue.retry(failed.queued.change.id)
                over.remove(failed.queued.change.id)
            }
        }
        throw Violation("not drained: \(try await log.summary())")
    }

    /// What is left over.
    func leftOver() async throws -> Int {
        try await log.queued().count + log.failures().count + clock.sleeperCount
    }
}
