package import SyncCore

/// For a driver whose requests follow one another without a pause (`SyncEngine`).
extension UploadQueue {
    /// Claims what stands behind the claim that is under way, and marks it durably; `nil` where nothing does, or where
    /// it must wait for the answer.
    /// - Throws: ``StoreFailure``; then nothing was claimed.
    package func takeAhead(behind claim: Claim) async throws(StoreFailure) -> Claim? {
        await enter()
        defer { leave() }
        guard !isRunning else { return nil }
        let now = moment()
        var next = machine
        guard let plan = next.takeAhead(behind: claim, isPaused: isPaused, at: now) else { return nil }
        return try await perform(plan, next, at: now).batch
    }

    /// Whether the claim behind may be sent before this answer is settled: each change was done as it was sent. From then on
    /// it is the one that is out, and ``settle(_:results:stamp:behind:)`` follows for the one in front.
    package func goesOn(from claim: Claim, results: [ChangeResult], to next: Claim) async -> Bool {
        await enter()
        defer { leave() }
        guard let events = machine.goOn(from: claim, results, to: next, isPaused: isPaused, at: moment()) else {
            return false
        }
        for event in events { streams.events.send(event) }
        return true
    }

    /// Records the verdicts of the claim in front of the one that is under way, and claims what stands behind that one in the
    /// same transaction.
    /// - Throws: ``StoreFailure``; then nothing was recorded, and the changes are sent again with the same keys.
    package func settle(
        _ claim: Claim, results: [ChangeResult], stamp: Stamp?, behind underWay: Claim
    ) async throws(StoreFailure) -> Claim? {
        await enter()
        defer { leave() }
        let now = moment()
        var next = machine
        var plan = next.verdicts(
            claim, results, stamp: stamp, backoffSeconds: nil, urgency: .routine, isPaused: isPaused, at: now)
        plan.behind = underWay
        return try await perform(plan, next, at: now).batch
    }

    /// A claim that was given does not go now, and certainly has not: what was never sent is as it was, and what was sent before
    /// stays that.
    /// - Throws: ``StoreFailure``; then its changes count as sent without an answer.
    package func giveBack(_ claim: Claim) async throws(StoreFailure) {
        await enter()
        defer { leave() }
        guard machine.takesBack(claim) else { return }
        var (fresh, sent) = (claim, claim)
        fresh.changes.removeAll(where: \.wasSent)
        sent.changes.removeAll { !$0.wasSent }
        if !fresh.changes.isEmpty { try await log.putBack(fresh) }
        if !sent.changes.isEmpty { try await log.countAsSent(sent) }
    }

    /// The claim behind does not go now: its changes are as they were.
    /// - Throws: ``StoreFailure``; then they count as sent without an answer.
    package func putBack(_ claim: Claim) async throws(StoreFailure) {
        await enter()
        defer { leave() }
        machine.putBack()
        try await log.putBack(claim)
    }
}

extension Take {
    fileprivate var batch: Claim? {
        if case .batch(let claim) = self { claim } else { nil }
    }
}
