import GRDB
import SyncCore

/// Verdicts that say what was decided once: much may have come of it since.
extension Settling {
    /// Whether a change that was decided once was decided of a record that is gone by now, and its tombstone forgotten.
    ///
    /// The pages up to the checkpoint told of everything that lives; of this record they told nothing, and after a full pass a
    /// tombstone may be missing, too (seeds 42172, 2032, 3984). So may that of a record which was not known yet, when the page came, to
    /// be this one (Decision 475): it died. And of what a damaged file alone had known, pages from 0 told nothing at all (seed 3360018 with
    /// `--damage --server-ids --bias histories`). Where roots are asked for, it may only be out of them.
    func isForgotten(
        _ db: Database, _ change: StoredChange, _ version: Int64, _ work: RecordWork
    ) throws -> Bool {
        guard isRepeated, !work.base.isLive, pass == nil, change.operation != .create || work.version < version else {
            return false
        }
        if namedDead[change.record] != nil { return true }
        // One that waits for its parent a page told of (seed 2288 with `--damage --server-ids`).
        if hasHeld, let held = try HeldRecords.find(db, change.record), held.presence == .live, held.version >= version
        {
            return false
        }
        guard try (Meta.integer(db, .checkpoint) ?? 0) >= version, try Scopes.read(db) == nil else { return false }
        return try namedUnseen.contains(change.record) || PassState.read(db).number > 0
            || change.operation != .create
                && (work.version == 0 || IdentityMap.serverID(db, of: change.record) != nil)
    }

    /// Whether a create that was done once made a record of which no page has told.
    func isUntold(_ change: StoredChange, _ work: RecordWork) -> Bool {
        isRepeated && change.operation == .create && work.version == 0 && pass == nil
    }
}
