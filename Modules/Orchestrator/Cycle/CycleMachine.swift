public import SyncCore

/// What one cycle does next: a pure value that turns what happened into one instruction.
///
/// ```
///            begin ──► request ──► answered ──► settle ──► slices ──► request | endFullPass | finish
///                        ▲  │
///                        │  └► failed ──► settle as failed ──► request without changes (once) | fullPass | finish
///                        └──────────────────────────────────────────────┘
/// ```
/// Push goes before pull in one request. A push that failed never keeps the pull away: one request without changes
/// follows it, which is also the probe that PROTOCOL.md's *suspect* rule wants.
struct CycleMachine: Sendable {
    /// What the shell must do.
    enum Step: Sendable, Equatable {
        /// Ask the queue what may go now.
        case take
        /// Send one request, with the batch that was taken if `withChanges`.
        case request(withChanges: Bool)
        /// Begin a full pass, over the history of this epoch that replaced the one here; `nil` where it is the same.
        case beginFullPass(epoch: String?)
        /// The page without `hasMore` of a full pass is applied: end it.
        case endFullPass
        /// Nothing is left to do in this cycle.
        case finish(CycleEnd)
    }

    /// Where the pull stands.
    private enum Pull: Sendable { case wanted, complete, failed(CycleEnd) }

    private var pull: Pull = .wanted
    /// Whether the batch at hand may go; a failed push does not go again in the cycle that saw it fail.
    private var pushFailed: CycleEnd?
    private var fullPasses = 0
    /// Answers of this cycle that lacked a verdict.
    private var incomplete = 0
    /// A server that answers for ever must not hold a cycle for ever.
    private var requestsLeft: Int

    /// - Parameter isPulled: everything is here already; only what is to be sent makes a request.
    init(mostRequests: Int = 1_000_000, isPulled: Bool = false) {
        requestsLeft = mostRequests
        if isPulled { pull = .complete }
    }

    /// Whether what is left of the push keeps to its own pauses in this cycle, whoever wishes it: it failed, or verdicts were
    /// missing again where they had been asked for again.
    var mustPushWait: Bool { pushFailed != nil || incomplete > 1 }

    /// Whether a push that failed there, or was too slow, may have kept the pull away; without a network neither would have worked.
    private(set) var hasPushKeptAway = false

    /// Whether a full pass was begun, or gone on with, in this cycle.
    var hasBegunPass: Bool { fullPasses > 0 }

    /// The first step after the queue was asked.
    mutating func begin(hasBatch: Bool) -> Step { next(hasBatch: hasBatch) }

    /// A request was answered, its verdicts are settled and its page is applied.
    mutating func applied(hasMore: Bool, inFullPass: Bool, hasBatch: Bool) -> Step {
        pull = hasMore ? .wanted : .complete
        if !hasMore, inFullPass { return .endFullPass }
        return next(hasBatch: hasBatch)
    }

    /// A request was answered without every change's verdict: its page may lack records, and is asked for again.
    mutating func lacked(hasBatch: Bool) -> Step {
        incomplete += 1
        return applied(hasMore: true, inFullPass: false, hasBatch: hasBatch)
    }

    /// The full pass ended, or waits for the app.
    mutating func fullPassEnded(_ end: FullPassEnd, hasBatch: Bool) -> Step {
        if case .awaitsConfirmation = end { pull = .failed(.awaitsConfirmation) }
        return next(hasBatch: hasBatch)
    }

    /// Contents differ at the same checkpoint, or would without anybody's saying so: a full pass, once in a cycle.
    mutating func diverged(hasBatch: Bool) -> Step {
        fullPasses += 1
        guard fullPasses == 1 else { return next(hasBatch: hasBatch) }
        pull = .wanted
        return .beginFullPass(epoch: nil)
    }

    /// A page could not be kept: the database's failure, not the server's.
    mutating func couldNotApply(_ failure: StoreFailure) -> Step { .finish(.store(failure)) }

    /// A request failed as a whole.
    mutating func failed(_ failure: ExchangeFailure, hadChanges: Bool, hasBatch: Bool) -> Step {
        hasPushKeptAway = hasPushKeptAway || (hadChanges && (failure.reachedServer || failure.isCancelled))
        if failure.isCancelled { return .finish(.cancelled) }
        if failure.kind == .history {
            if failure.code == "otherDataset" { return .finish(.otherDataset) }
            // A server that changes its history again and again within one cycle is asked again in the next one.
            fullPasses += 1
            guard fullPasses <= 3 else { return .finish(.exchange(failure)) }
            return .beginFullPass(epoch: failure.code == "checkpointExpired" ? nil : failure.epoch)
        }
        if failure.kind == .authentication { return .finish(.needsCredentials) }
        guard hadChanges else {
            pull = .failed(.exchange(failure))
            return .finish(.exchange(failure))
        }
        // The server's word binds every request.
        if max(failure.retryAfterSeconds ?? 0, failure.backoffSeconds ?? 0) > 0 { return .finish(.exchange(failure)) }
        // Too large and unknown failures halve the batch: the smaller one goes at once, and nothing has failed before that does.
        // What is too large alone is set aside.
        if failure.kind == .tooLarge || (failure.kind == .unknown && hasBatch) { return next(hasBatch: hasBatch) }
        pushFailed = .exchange(failure)
        if failure.kind == .unknown { return next(hasBatch: false) }
        // Without a network a second request would fail like the first. One that was too slow, or was cut off, says
        // nothing about a small one.
        if failure.kind == .network, !failure.reachedServer { return .finish(.exchange(failure)) }
        return request(withChanges: false)
    }

    private mutating func next(hasBatch: Bool) -> Step {
        if hasBatch { return request(withChanges: true) }
        switch pull {
        case .wanted: return request(withChanges: false)
        case .complete: return .finish(pushFailed ?? .complete)
        case .failed(let end): return .finish(end)
        }
    }

    private mutating func request(withChanges: Bool) -> Step {
        requestsLeft -= 1
        return requestsLeft < 0 ? .finish(.tooLong) : .request(withChanges: withChanges)
    }
}

/// How a cycle ended.
public enum CycleEnd: Sendable, Hashable {
    /// Everything that may go was sent, and everything up to the server's present version is here.
    case complete
    /// A request failed; the queue knows when to try again.
    case exchange(ExchangeFailure)
    /// The local database failed.
    case store(StoreFailure)
    /// The server asks for credentials that the app does not have.
    case needsCredentials
    /// Another deployment answers under this address: nothing was sent or taken (PROTOCOL.md, *Another history*).
    case otherDataset
    /// A full pass would remove so much that the app must say so first.
    case awaitsConfirmation
    /// Another process syncs this file.
    case leaseHeld
    /// The gate is closed, with the cause.
    case notNow(untilMilliseconds: Int64?, cause: String)
    /// The cycle was stopped from this side.
    case cancelled
    /// More requests than a cycle may make.
    case tooLong

    /// A sentence for people; `nil` for a complete cycle.
    public var cause: String? {
        switch self {
        case .complete: nil
        case .exchange(let failure): failure.description
        case .store(let failure): failure.message
        case .needsCredentials: "the server refused the credentials; sign in again, nothing is lost"
        case .otherDataset:
            "another data set answers under this address than the one known here; nothing was sent or taken"
        case .awaitsConfirmation:
            "the server lacks a large part of the records that were in step; nothing is removed before you say so"
        case .leaseHeld: "another process is syncing this database"
        case .notNow(_, let cause): cause
        case .cancelled: "stopped before the end"
        case .tooLong: "the server kept answering without an end"
        }
    }
}
