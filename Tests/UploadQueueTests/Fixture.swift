import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

/// A queue over an in-memory log, on virtual time.
struct Fixture {
    let clock = VirtualClock()
    let wall: ManualWallClock
    let log: InMemoryChangeLog
    let policy: UploadPolicy
    let queue: UploadQueue

    static let schema = [
        EntitySchema("board", fields: [.text("name"), .text("desc"), .integer("count", rule: .sum)]),
        EntitySchema("card", fields: [.parent("idBoard", "board"), .text("name")]),
    ]

    init(policy: UploadPolicy = UploadPolicy(jitter: .added(upTo: .zero)), seed: UInt64 = 1) throws {
        wall = ManualWallClock(following: clock)
        log = InMemoryChangeLog(schema: try Schema(Self.schema), wallClock: wall, ids: SeededIDs(seed: seed))
        self.policy = policy
        queue = UploadQueue(
            log: log, policy: policy, wallClock: wall, clock: clock, randomness: SeededRandomness(seed: seed))
    }

    /// Another queue over the same log, as after a restart.
    func restarted() async -> UploadQueue {
        await log.crash()
        return UploadQueue(
            log: log, policy: policy, wallClock: wall, clock: clock, randomness: SeededRandomness(seed: 9))
    }

    @discardableResult
    func board(_ id: String) async -> String {
        await log.write(.create, RecordKey("board", id), ["name": FieldDelta(old: nil, new: .string(id))]).id
    }

    /// So many boards, each a chain of its own.
    func boards(_ count: Int) async -> [String] {
        var ids: [String] = []
        for number in 0..<count { ids.append(await board("b\(number)")) }
        return ids
    }

    @discardableResult
    func rename(_ id: String, to name: String) async -> String {
        await log.write(.update, RecordKey("board", id), ["name": FieldDelta(old: "old", new: .string(name))]).id
    }

    func advance(seconds: Double) { clock.advance(by: .milliseconds(Int64(seconds * 1_000))) }

    /// Takes a batch that must be there.
    func batch(_ urgency: Urgency = .routine) async throws -> Claim {
        try #require(try await queue.take(urgency: urgency).batch)
    }

    func settle(_ claim: Claim, _ verdict: (Change) -> Verdict) async throws -> Take {
        try await queue.settle(
            claim, results: claim.changes.map { ChangeResult(changeID: $0.change.id, verdict: verdict($0.change)) },
            stamp: nil, backoffSeconds: nil, urgency: .routine)
    }

    func fail(_ claim: Claim, _ failure: ExchangeFailure) async throws -> Take {
        try await queue.settle(claim, failure: failure, urgency: .routine)
    }
}

extension Take {
    var batch: Claim? { if case .batch(let claim) = self { claim } else { nil } }
    var ids: [String] { batch?.changes.map(\.change.id) ?? [] }
    var waitsUntil: Int64? { if case .wait(let until, _, _) = self { until } else { nil } }
    var isNothing: Bool { if case .nothing = self { true } else { false } }
    var isWithoutCredentials: Bool { if case .needsCredentials = self { true } else { false } }
}

extension Claim {
    var ids: [String] { changes.map(\.change.id) }
}

extension Verdict {
    static let done = Verdict.applied(version: 1, overwrote: [:], serverID: nil)
    static func refused(_ code: Rejection.Code = .invalid, reference: String? = nil) -> Verdict {
        .rejected(Rejection(code: code, message: "no", reference: reference))
    }
}

extension ExchangeFailure {
    static func http(_ status: Int, retryAfter: Double? = nil, on target: FailureTable.Target = .exchange) -> Self {
        ExchangeFailure(
            kind: FailureTable().classify(status: status, on: target) ?? .network, status: status,
            message: "status \(status)", retryAfterSeconds: retryAfter, reachedServer: true)
    }
    static let offline = ExchangeFailure(kind: .network, message: "no connection")
    static let timeout = ExchangeFailure(kind: .network, message: "time-out", reachedServer: true)
    static let stopped = ExchangeFailure(kind: .network, message: "stopped", isCancelled: true)
}
