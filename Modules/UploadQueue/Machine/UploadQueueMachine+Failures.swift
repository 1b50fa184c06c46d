import SyncCore

extension UploadQueueMachine {
    /// The request failed as a whole: no change got a verdict, but for one that stood alone.
    mutating func failed(
        _ claim: Claim, _ failure: ExchangeFailure, urgency: Urgency, isPaused: Bool, at now: Moment
    ) -> Plan {
        var plan = Plan()
        guard takesBack(claim) else { return late(claim, urgency, isPaused: isPaused, at: now) }
        noteUndone(claim, isTooLarge: failure.kind == .tooLarge)
        guard !failure.isCancelled else {
            // No judgement about anybody, and nothing more is claimed for who has just given up.
            plan.settlement.outcomes = unanswered(claim)
            keepSchedule(at: now, &plan)
            return plan
        }
        isOffline = failure.kind == .network && !failure.reachedServer
        floors.raise(server: failure.retryAfterSeconds, changes: nil, at: now)
        floors.raise(server: failure.backoffSeconds, changes: nil, at: now)
        let goesOnAtOnce =
            Self.standsAlone(claim.changes)
            ? failedAlone(claim, failure, at: now, &plan) : failedTogether(claim, failure, at: now, &plan)
        // What failed just now is not tried again at once, whoever wishes it; the next take may be.
        finish(goesOnAtOnce ? urgency : .routine, isPaused: isPaused, at: now, &plan)
        return plan
    }

    /// Whether a request cannot be divided: one change, or one unit.
    static func standsAlone(_ changes: [QueuedChange]) -> Bool {
        guard let first = changes.first, changes.count > 1 else { return true }
        guard let unit = first.change.unit else { return false }
        return changes.allSatisfy { $0.change.unit == unit }
    }

    /// - Returns: whether the queue goes on at once.
    private mutating func failedAlone(
        _ claim: Claim, _ failure: ExchangeFailure, at now: Moment, _ plan: inout Plan
    ) -> Bool {
        let isPossiblyOwn = Suspicion.isPossiblyOwn(failure)
        switch failure.kind {
        case .permanent: return decided(claim, Self.reason(failure), &plan)
        case .tooLarge: return decided(claim, Self.reason(failure), ofThisSendingOnly: true, &plan)
        case .conflict:
            guard let record = failure.record, let only = claim.changes.first, claim.changes.count == 1,
                record.key == only.change.record
            else { return decided(claim, Self.reason(failure), &plan) }
            let kind = conflict(only, record, status: failure.status, &plan)
            plan.settlement.outcomes = [Settlement.Outcome(changeID: only.change.id, kind: kind)]
            return answered()
        case .network, .temporary, .temporaryLonger, .unknown, .history, .authentication:
            suspicion.failedAlone(claim.changes, isPossiblyOwn: isPossiblyOwn, suspectAfter: policy.suspectAfter)
            plan.settlement.outcomes = unanswered(claim)
            wait(failure, at: now, &plan)
            return false
        }
    }

    /// - Returns: whether the queue goes on at once.
    private mutating func failedTogether(
        _ claim: Claim, _ failure: ExchangeFailure, at now: Moment, _ plan: inout Plan
    ) -> Bool {
        plan.settlement.outcomes = unanswered(claim)
        let count = claim.changes.count
        switch failure.kind {
        case .tooLarge, .unknown, .permanent, .conflict:
            // None is to blame, or all: half of them tells more. It ends with one that stands alone.
            suspicion.failedTogether(mayNeedLess: failure.kind == .unknown)
            size.halve(from: count, wasTooLarge: failure.kind == .tooLarge)
            schedule.cause = failure.description
            return true
        case .network, .temporary, .temporaryLonger, .history, .authentication:
            suspicion.failedTogether(mayNeedLess: Suspicion.mayNeedLess(failure))
            if suspicion.several >= policy.halveAfter { size.halve(from: count, wasTooLarge: false) }
            wait(failure, at: now, &plan)
            return false
        }
    }

    private mutating func wait(_ failure: ExchangeFailure, at now: Moment, _ plan: inout Plan) {
        if failure.kind == .authentication {
            schedule.needsCredentials = true
            schedule.cause = failure.description
            floors.own = nil
            plan.events.append(.authenticationNeeded)
            return
        }
        backOff(isLonger: failure.kind == .temporaryLonger, at: now, cause: failure.description)
    }

    /// The answer decided about what stood alone: it is set aside, and the queue goes on.
    ///
    /// Of a request that was too large to be looked at, nothing was done. That says nothing of an earlier sending, which
    /// may have been: a change of which that is not known stays uncertain, so that a new try keeps its key (I2).
    private mutating func decided(
        _ claim: Claim, _ reason: SetAsideReason, ofThisSendingOnly: Bool = false, _ plan: inout Plan
    ) -> Bool {
        for queued in claim.changes {
            plan.left += 1
            let isUncertain = ofThisSendingOnly && !undone.contains(queued.change.id)
            let kind = setAside(queued.change.id, reason, staysUncertain: isUncertain, &plan)
            plan.settlement.outcomes.append(Settlement.Outcome(changeID: queued.change.id, kind: kind))
        }
        return answered()
    }

    /// Remembers what was sent in requests alone that were too large to be looked at.
    private mutating func noteUndone(_ claim: Claim, isTooLarge: Bool) {
        for queued in claim.changes {
            if !isTooLarge {
                undone.remove(queued.change.id)
            } else if !queued.wasSent, queued.change.deviceID == nil {
                // A restored copy does not know what the device before it sent.
                undone.insert(queued.change.id)
            }
        }
    }

    private mutating func answered() -> Bool {
        suspicion.answered()
        schedule.failures = 0
        schedule.cause = nil
        floors.own = nil
        return true
    }

    private func unanswered(_ claim: Claim) -> [Settlement.Outcome] {
        claim.changes.map {
            Settlement.Outcome(changeID: $0.change.id, kind: .unanswered(attempts: suspicion.attempts(of: $0)))
        }
    }

    private static func reason(_ failure: ExchangeFailure) -> SetAsideReason {
        let code: String
        if let told = failure.code {
            code = told
        } else if failure.kind == .tooLarge {
            code = "tooLarge"
        } else {
            code =
                switch failure.status {
                case 400: "malformed"
                case 403: "forbidden"
                case 404: "notFound"
                case 405: "methodNotAllowed"
                case 409: "conflict"
                case 410: "gone"
                case 412: "preconditionFailed"
                case 415: "unsupportedMediaType"
                default: "invalid"
                }
        }
        return SetAsideReason(code: code, message: failure.message, status: failure.status)
    }
}
