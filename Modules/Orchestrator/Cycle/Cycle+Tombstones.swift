import Storage
import SyncCore

/// What died so long ago that the server keeps no tombstone of it: nobody tells, so a full pass has to.
extension SyncEngine {
    /// Whether a full pass that waits for the app's word, or began so long ago, has to begin anew: of what died since it brought it
    /// the tombstones are not complete any more. The server does not say so by itself, since one that is under way must go on.
    func isOutlived(_ position: SyncPosition, _ oldestVersion: Int64?) -> Bool {
        guard let oldestVersion, position.mayBeOutlived(atMilliseconds: wallClock.nowMilliseconds) else { return false }
        let checkpoints = position.scopes.map { Array($0.values) } ?? [position.checkpoint]
        return checkpoints.contains { $0 != 0 && $0 < oldestVersion }
    }

    /// Whether records that are here already, from verdicts whose page never came, may have died unheard: who begins at 0 is not
    /// told of what died before the oldest tombstone that is kept (decision 280). Roots have their own way (`Store.catchUp`).
    func mayLackTombstones(
        _ answer: ExchangeAnswer, _ position: SyncPosition
    ) async throws(StoreFailure) -> Bool {
        guard position.checkpoint == 0, position.scopes == nil, !position.isInFullPass,
            let oldest = answer.oldestVersion, oldest > 0
        else { return false }
        return try await store.holdsRecords(below: oldest)
    }

    /// Whether a repeated verdict says that something was done longer ago than tombstones are kept. The pages since began at
    /// 0, where nothing of the record was here yet, and did not say whether it has died (decision 361).
    static func isDecidedBeforeTombstones(_ answer: ExchangeAnswer, _ claim: Claim?) -> Bool {
        guard let oldest = answer.oldestVersion, oldest > 0, let claim else { return false }
        let old = answer.results.filter { result in
            guard result.isDuplicate else { return false }
            return switch result.verdict {
            case .applied(let version?, _, _): version < oldest
            case .merged(let record): record.version < oldest && record.presence == .live
            default: false
            }
        }
        guard !old.isEmpty else { return false }
        let deletes = Set(claim.changes.lazy.map(\.change).filter { $0.operation == .delete }.map(\.id))
        return old.contains { !deletes.contains($0.changeID) }
    }
}
