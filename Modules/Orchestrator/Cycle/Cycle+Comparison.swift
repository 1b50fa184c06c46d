import Logging
import Storage
import SyncCore

/// Contents are compared with the server's now and then, at the same checkpoint (PROTOCOL.md, *Records*, `checksum`).
extension SyncEngine {
    /// Whether a request without changes should ask for the server's checksum.
    func wantsComparison(_ position: SyncPosition) async throws(StoreFailure) -> Bool {
        guard position.epoch != nil, !position.isInFullPass else { return false }
        if isComparisonWanted { return try await store.mayCompareContents() }
        guard let interval = configuration.comparison?.milliseconds else { return false }
        let now = wallClock.nowMilliseconds
        if comparedMilliseconds == nil { comparedMilliseconds = try await store.contentsComparedMilliseconds() }
        guard let last = comparedMilliseconds, last <= now else {
            // The first time, or the clock was set back: it counts from now.
            try await noteComparison(now)
            return false
        }
        guard now - last >= interval else { return false }
        // What the answer could not be held against is not asked for, as long as a draft waits here, or for a refused create.
        return try await store.mayCompareContents()
    }

    /// Whether the server holds other contents at this checkpoint. What is unsent here keeps the two from being compared.
    func hasDiverged(_ answer: ExchangeAnswer) async throws(StoreFailure) -> Bool {
        guard let theirs = answer.checksum, !answer.hasMore else { return false }
        guard let mine = try await store.contentChecksum(at: answer.currentSyncVersion) else { return false }
        isComparisonWanted = false
        try await noteComparison(wallClock.nowMilliseconds)
        guard mine != theirs else { return false }
        logger.warning("contents differ from the server's", metadata: ["mine": "\(mine)", "theirs": "\(theirs)"])
        try await store.noteDivergence(mine: mine, theirs: theirs)
        send(.diverged)
        return true
    }

    private func noteComparison(_ now: Int64) async throws(StoreFailure) {
        comparedMilliseconds = now
        try await store.setContentsCompared(milliseconds: now)
    }
}
