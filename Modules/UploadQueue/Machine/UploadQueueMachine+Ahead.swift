import SyncCore

/// One request after another without a pause: the next is claimed while one is under way, and goes before its answer is
/// settled, where that answer can change nothing of it.
///
///     out ──takeAhead──▶ out, ahead ──answer is plain: goOn──▶ inFront, out ──verdicts──▶ out, ahead …
///                             └──any other answer: the shell puts `ahead` back, and settles before it claims
extension UploadQueueMachine {
    /// What may be claimed behind the claim that is out; `nil` where nothing may.
    ///
    /// As long as anything fails, one request is decided before the next is claimed.
    mutating func takeAhead(behind claim: Claim, isPaused: Bool, at now: Moment) -> Plan? {
        guard out == claim.changes.map(\.change.id), ahead == nil, inFront == nil, schedule.failures == 0 else {
            return nil
        }
        var plan = Plan()
        admit(.routine, isPaused: isPaused, at: now, &plan)
        guard plan.limits != nil else { return nil }
        plan.behind = claim
        return plan
    }

    /// The claim that is out was answered: whether the one behind it may go before that is settled. If so, it is out now.
    /// - Returns: what to tell; `nil` where it may not go.
    mutating func goOn(
        from claim: Claim, _ results: [ChangeResult], to next: Claim, isPaused: Bool, at now: Moment
    ) -> [UploadEvent]? {
        guard let keys = ahead, Self.areKeys(keys, of: next), let sent = out, Self.areKeys(sent, of: claim), !isPaused,
            !schedule.needsCredentials, floors.standing(.routine, at: now) == nil, Self.isPlain(claim, results)
        else { return nil }
        (inFront, out, ahead) = (sent, keys, nil)
        return [.sent(keys)]
    }

    /// What was claimed behind is not claimed any more.
    mutating func putBack() { ahead = nil }

    mutating func forgetClaims() { (out, ahead, inFront) = (nil, nil, nil) }

    /// Whether each change was done as it was sent, for the first time, and nothing is told beside that.
    static func isPlain(_ claim: Claim, _ results: [ChangeResult]) -> Bool {
        guard results.count == claim.changes.count, !results.isEmpty else { return false }
        // By their places: the next request waits for this, and pairs would be copies of both.
        return results.indices.allSatisfy { index in
            claim.changes[index].change.id == results[index].changeID && isPlain(results[index])
        }
    }

    /// Whether these are the keys of the claim's changes, in their order.
    static func areKeys(_ keys: [String], of claim: Claim) -> Bool {
        keys.count == claim.changes.count && keys.indices.allSatisfy { keys[$0] == claim.changes[$0].change.id }
    }

    private static func isPlain(_ result: ChangeResult) -> Bool {
        guard !result.isDuplicate, !result.isClamped, result.backoffSeconds == nil,
            case .applied(_, let overwrote, nil) = result.verdict
        else { return false }
        return overwrote.isEmpty
    }
}
