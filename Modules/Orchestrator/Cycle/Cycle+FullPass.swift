import Storage
public import SyncCore

/// The end of a full pass, and the app's word that it may wait for.
extension SyncEngine {
    /// The app's word that what a full pass did not bring, and waits with, may go from this device.
    ///
    /// The word is about what was asked, not about an answer of long ago: the next cycle repeats the pass, and what it lacks then
    /// goes if it is no more than what was asked about; where it is more, the question stays and is about that. Nothing happens where no
    /// pass waits. The word lives in this process only: if that ends before the cycle, the question stays as it was.
    /// - Returns: how many records the word is about; 0 where no pass waits, or what was missing has come by now.
    @discardableResult
    public func confirmRemoval() async throws(StoreFailure) -> Int {
        guard try await store.position().awaitsConfirmation,
            case .awaitsConfirmation(let missing, _) = try await store.endFullPass(confirmed: false)
        else { return 0 }
        confirmedLoss = missing
        isPassToRepeat = true
        trigger(.hint)
        return missing
    }

    /// Ends the pass that runs; what it lacks goes, or waits for the app's word.
    func endFullPass(
        _ position: inout SyncPosition, _ report: inout CycleReport
    ) async throws -> FullPassEnd {
        var end = try await store.endFullPass(confirmed: false)
        // A word that was given during this cycle is for the next one, which repeats the pass.
        if !isPassToRepeat {
            if case .awaitsConfirmation(let missing, _) = end, missing <= confirmedLoss {
                end = try await store.endFullPass(confirmed: true)
            }
            confirmedLoss = 0
        }
        if case .removed(let count) = end { report.removed += count }
        try await tellApplied()
        position = try await store.position()
        return end
    }

    /// What its last answer could not close while the pass ran, it closes now: what still waits for a parent waits for
    /// none of the roots asked for (decisions 191 and 266).
    /// - Returns: whether there is more to ask for.
    func closePass(
        _ end: FullPassEnd, _ position: inout SyncPosition, _ report: inout CycleReport
    ) async throws -> Bool {
        // Not where the app has chosen others since: the next answer is about these.
        guard case .removed = end, let scopes = position.scopes, let epoch = position.epoch,
            let reached = scopes.values.max(), position.lowest == reached
        else { return false }
        let done = try await store.apply(
            PageSlice(records: [], from: position.checkpoint, checkpoint: reached, epoch: epoch, scopes: scopes))
        report.removed += done.deleted
        try await tellApplied()
        if done.asksAgain { position = try await store.position() }
        return done.asksAgain
    }

    /// What was missing may have come since the pass began to wait: then nothing is left to ask about.
    /// - Returns: whether there is more to ask for.
    func lookAgainAtWaitingPass(
        _ position: inout SyncPosition, _ report: inout CycleReport
    ) async throws -> Bool {
        let end = try await endFullPass(&position, &report)
        if case .removed = end { send(.fullPassEnded(end)) }
        return try await closePass(end, &position, &report)
    }

    /// The pass that waits begins anew: what it is to take away is what the server does not have now.
    func repeatWaitingPass(_ position: SyncPosition) async throws -> SyncPosition {
        guard position.awaitsConfirmation else {
            // The question is over; the word is for no other pass.
            confirmedLoss = 0
            return position
        }
        send(.fullPassBegan)
        try await store.beginFullPass(epoch: nil)
        return try await store.position()
    }
}
