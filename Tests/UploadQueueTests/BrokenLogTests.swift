import SyncCore
import SyncTesting
import Testing

@Suite("The change log's contract finds what is broken", .timeLimit(.minutes(20)))
struct BrokenLogTests {
    @Test("a mistake in what goes behind a claim, in looking ahead, and in the rest, is found by these rules")
    func found() async throws {
        for bug in BrokenLog.Bug.allCases {
            var names: [String] = []
            for rule in ChangeLogContract.rules {
                let log = InMemoryChangeLog(
                    schema: try Schema(ChangeLogContract.entities), wallClock: ManualWallClock(),
                    ids: SeededIDs(seed: 1))
                var subject = log.subject()
                subject.log = BrokenLog(inner: log, bug: bug)
                do { try await rule.check(subject) } catch { names.append(rule.name) }
            }
            #expect(names.contains { $0.hasPrefix(bug.rawValue) }, "\(bug): \(names)")
        }
    }
}

/// A change log with one mistake, named by the beginning of the rule that must find it.
private final class BrokenLog: ChangeLog, ChangeRepair {
    enum Bug: String, CaseIterable {
        case claimsAnythingBehind = "behind a claim under way"
        case forgetsOutcomes = "without limits nothing"
        case goesBesideFailures = "nothing goes behind"
        case losesWhatIsPutBack = "what was claimed and never left"
        case failsToPutBackTheGone = "putting back what has left"
        case claimsAhead = "looking ahead"
        case forgetsSchedule = "without limits nothing is claimed behind, and"
        case renames = "what is not there"
    }
    let inner: InMemoryChangeLog
    let bug: Bug

    init(inner: InMemoryChangeLog, bug: Bug) {
        self.inner = inner
        self.bug = bug
    }

    func settle(_ settlement: Settlement, claim: ClaimLimits?) async throws(StoreFailure) -> Claim {
        try await inner.settle(settlement, claim: claim)
    }

    func prepare(after claim: Claim, limits: ClaimLimits) async {
        if bug == .claimsAhead { _ = try? await inner.settle(Settlement(), claim: limits) }
    }

    func settle(
        _ settlement: Settlement, behind claim: Claim, limits: ClaimLimits?
    ) async throws(StoreFailure) -> Claim {
        switch bug {
        case .claimsAnythingBehind, .goesBesideFailures: return try await inner.settle(settlement, claim: limits)
        case .forgetsOutcomes: return try await inner.settle(Settlement(schedule: settlement.schedule), claim: nil)
        case .forgetsSchedule: return try await inner.settle(Settlement(outcomes: settlement.outcomes), claim: nil)
        default: return try await inner.settle(settlement, behind: claim, limits: limits)
        }
    }

    func putBack(_ claim: Claim) async throws(StoreFailure) {
        switch bug {
        case .losesWhatIsPutBack:
            let outcomes = claim.changes.map { Settlement.Outcome(changeID: $0.change.id, kind: .done) }
            _ = try await inner.settle(Settlement(outcomes: outcomes), claim: nil)
        case .failsToPutBackTheGone: throw StoreFailure(kind: .notFound, message: "no such change")
        default: try await inner.putBack(claim)
        }
    }

    func summary() async throws(StoreFailure) -> QueueSummary { try await inner.summary() }
    func notices() -> AsyncStream<Void> { inner.notices() }
    func queued() async throws(StoreFailure) -> [QueuedChange] { try await inner.queued() }
    func failures() async throws(StoreFailure) -> [FailedChange] { try await inner.failures() }
    func dependants(of changeID: String) async throws(StoreFailure) -> [String] {
        try await inner.dependants(of: changeID)
    }
    func retry(_ changeID: String) async throws(StoreFailure) -> String {
        bug == .renames ? changeID : try await inner.retry(changeID)
    }
    func discard(_ changeID: String) async throws(StoreFailure) -> [String] { try await inner.discard(changeID) }
    func cancel(_ changeID: String) async throws(StoreFailure) -> CancelOutcome { try await inner.cancel(changeID) }
}

extension Settlement.Outcome.Kind {
    fileprivate static let done = Settlement.Outcome.Kind.applied(version: nil, overwrote: [:], serverID: nil)
}
