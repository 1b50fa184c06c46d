import SyncCore

extension UploadQueueMachine {
    /// The request was answered: each change's verdict becomes an outcome, and the next claim is decided.
    ///
    /// - Parameter sent: how many of the claim's changes went; the others were put back (``leftOut(of:sent:)``).
    mutating func verdicts(
        _ claim: Claim, _ results: [ChangeResult], sent: Int? = nil, stamp: Stamp?, backoffSeconds: Double?,
        urgency: Urgency, isPaused: Bool, at now: Moment
    ) -> Plan {
        var plan = Plan()
        let left = Set(leftOut(of: claim, sent: sent)?.changes.map(\.change.id) ?? [])
        guard takesBack(claim) else { return late(claim, urgency, isPaused: isPaused, at: now) }
        window.went(sent ?? claim.changes.count, of: claim.changes.count, most: size.current)
        // An exchange that sends nothing at all gets nowhere, and is not asked again at once.
        let isEmpty = claim.changes.isEmpty
        var claim = claim
        if !left.isEmpty { claim.changes.removeAll { left.contains($0.change.id) } }
        if !undone.isEmpty { undone.subtract(claim.changes.lazy.map(\.change.id)) }
        // Mostly in the order of the claim.
        let isInOrder =
            results.count == claim.changes.count
            && zip(claim.changes, results).allSatisfy { $0.change.id == $1.changeID }
        var byID: [String: ChangeResult] = [:]
        if !isInOrder { for result in results where byID[result.changeID] == nil { byID[result.changeID] = result } }
        var progress = false
        var pause = backoffSeconds
        var retry: Double?
        var wantsRetry = false
        plan.settlement.outcomes.reserveCapacity(claim.changes.count)
        for (index, queued) in claim.changes.enumerated() {
            let result = isInOrder ? results[index] : byID[queued.change.id]
            let outcome = outcome(of: queued, result, &plan)
            plan.settlement.outcomes.append(outcome)
            if case .unanswered = outcome.kind {} else { progress = true }
            if let seconds = result?.backoffSeconds { pause = max(pause ?? seconds, seconds) }
            if case .retry(let seconds)? = result?.verdict {
                wantsRetry = true
                if let seconds { retry = max(retry ?? seconds, seconds) }
            }
        }
        plan.settlement.stamp = stamp
        suspicion.answered()
        size.succeeded(with: claim.changes.count)
        isOffline = false
        schedule.needsCredentials = false
        if progress || isEmpty { schedule.failures = 0 }
        floors.raise(server: pause, changes: retry, at: now)
        let mustWait = (wantsRetry || !progress) && !isEmpty
        if mustWait {
            backOff(
                isLonger: false, at: now,
                cause: wantsRetry ? "the server cannot decide a change now" : "the server left every change undecided")
        } else {
            schedule.cause = nil
            floors.own = nil
        }
        // What was just told to wait does not go at once, whoever wishes it.
        finish(mustWait ? .routine : urgency, isPaused: isPaused, at: now, &plan)
        return plan
    }

    /// What of the claim that is out was claimed for the first time, and never left: it is to be put back as it was. What was sent before
    /// may have been done then.
    func leftOut(of claim: Claim, sent: Int?) -> Claim? {
        guard let sent, sent < claim.changes.count, let out, Self.areKeys(out, of: claim) else { return nil }
        var rest = claim
        rest.changes = claim.changes.dropFirst(max(0, sent)).filter { !$0.wasSent }
        return rest.changes.isEmpty ? nil : rest
    }

    /// An answer, or a failure, of a request that was given up: no effect.
    mutating func late(_ claim: Claim, _ urgency: Urgency, isPaused: Bool, at now: Moment) -> Plan {
        var plan = Plan()
        plan.events.append(.lateAnswer(claim.changes.map(\.change.id)))
        // Another claim may be out: then nothing more is claimed beside it.
        if out == nil { admit(urgency, isPaused: isPaused, at: now, &plan) }
        return plan
    }

    private func outcome(
        of queued: QueuedChange, _ result: ChangeResult?, _ plan: inout Plan
    ) -> Settlement.Outcome {
        let id = queued.change.id
        func made(_ kind: Settlement.Outcome.Kind) -> Settlement.Outcome {
            Settlement.Outcome(
                changeID: id, kind: kind, isClamped: result?.isClamped ?? false,
                isRepeated: result?.isDuplicate ?? false, serverID: result?.serverID)
        }
        var unanswered: Settlement.Outcome { made(.unanswered(attempts: suspicion.attempts(of: queued))) }
        guard let result else { return unanswered }
        if result.isClamped { plan.events.append(.clamped(id)) }
        switch result.verdict {
        case .applied(let version, let overwrote, let serverID):
            plan.left += 1
            plan.events.append(.acknowledged(id, version: version))
            if !overwrote.isEmpty { plan.events.append(.overwrote(id, overwrote)) }
            return made(.applied(version: version, overwrote: overwrote, serverID: serverID))
        case .merged(let record):
            // A verdict about another record proves nothing about this one.
            guard record.key == queued.change.record else { return unanswered }
            plan.left += 1
            plan.events.append(.merged(id, record))
            return made(.merged(record))
        case .conflict(let record):
            guard record.key == queued.change.record else { return unanswered }
            return made(conflict(queued, record, status: nil, &plan))
        case .rejected(let rejection):
            return made(rejected(queued, rejection, &plan))
        case .blocked(let by):
            plan.events.append(.blocked(id, by: by))
            return unanswered
        case .retry:
            return unanswered
        }
    }

    private func rejected(
        _ queued: QueuedChange, _ rejection: Rejection, _ plan: inout Plan
    ) -> Settlement.Outcome.Kind {
        let id = queued.change.id
        plan.left += 1
        let reason = SetAsideReason(
            code: rejection.code.rawValue, message: rejection.message, field: rejection.field,
            reference: rejection.reference)
        if rejection.code == .missingReference { plan.missing[id] = queued.change.record }
        guard rejection.code.meansDecided(under: queued.change.deviceID) else { return setAside(id, reason, &plan) }
        // It was decided once: the log notes that and lets it go, and the page brings what came of it.
        plan.events.append(.expired(id))
        return .setAside(reason, staysUncertain: false)
    }

    /// A change met another state of its record: its successor, by the field's rule, a bounded number of times.
    func conflict(
        _ queued: QueuedChange, _ record: ServerRecord, status: Int?, _ plan: inout Plan
    ) -> Settlement.Outcome.Kind {
        let id = queued.change.id
        let present = queued.conflicts.saturatingAdding(1)
        guard present <= policy.maxConflicts else {
            plan.left += 1
            return setAside(
                id,
                SetAsideReason(
                    code: "conflict", message: "The record changed \(present) times in a row just before this change.",
                    status: status), &plan)
        }
        var successor: [String: FieldDelta]?
        if queued.change.operation == .delete {
            // A delete has no fields: there is something left to say as long as the record is there.
            successor = record.presence == .live ? [:] : nil
        } else {
            successor = deltas.successor(of: queued.change, over: record, conflicts: queued.conflicts)
            if present >= policy.conflictsWithCheck {
                successor = successor?.mapValues { delta in
                    var plain = delta
                    if plain.rule == .check { plain.rule = .lastWriter }
                    return plain
                }
            }
        }
        if successor == nil { plan.left += 1 }
        plan.events.append(.conflicted(id, hasSuccessor: successor != nil))
        return .conflict(record, successor: successor)
    }

    func setAside(
        _ id: String, _ reason: SetAsideReason, staysUncertain: Bool = false, _ plan: inout Plan
    ) -> Settlement.Outcome.Kind {
        plan.setAside.append(id)
        plan.events.append(.setAside(id, reason))
        return .setAside(reason, staysUncertain: staysUncertain)
    }

    /// One more failure in a row: our own floor rises.
    mutating func backOff(isLonger: Bool, at now: Moment, cause: String) {
        schedule.failures = schedule.failures.saturatingAdding(1)
        schedule.cause = cause
        floors.own = now.elapsed + policy.delay(failures: schedule.failures, isLonger: isLonger, chance: now.chance)
    }

    /// The end of every event that settles: schedule, next claim, and when it goes on.
    mutating func finish(_ urgency: Urgency, isPaused: Bool, at now: Moment, _ plan: inout Plan) {
        keepSchedule(at: now, &plan)
        if plan.settlement.schedule?.batchLimit != durable?.batchLimit, plan.settlement.schedule != nil {
            plan.events.append(.batchSize(size.limit))
        }
        admit(urgency, isPaused: isPaused, at: now, &plan)
        if case .wait(let until, let cause) = plan.refusal, plan.limits == nil {
            plan.events.append(.retrying(atMilliseconds: until, cause: cause))
        }
    }
}
