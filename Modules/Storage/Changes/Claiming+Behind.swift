import GRDB
import SyncCore

extension Claiming {
    /// A claim that is under way while what stands behind it is claimed.
    struct Behind {
        /// The place of its last change.
        var position: Int64
        /// Those that its verdicts will say something of: what was written of them later waits for that.
        var records: Set<RecordKey>

        /// The claim, if nothing stands in the queue that asks for more than order: everything up to its end is its own, and
        /// nothing is set aside, waits, was sent before, is held, or belongs to a full pass.
        init?(_ db: Database, _ claim: Claim) throws {
            guard let last = claim.changes.last?.change.id, try Drafts.isEmpty(db), try HeldRecords.isEmpty(db),
                try !PassState.read(db).isRunning
            else { return nil }
            let sql = """
                SELECT (SELECT count(*) FROM sync_change WHERE state <> 0 AND state <> 1),
                  (SELECT count(*) FROM sync_change WHERE position > 0 AND position <= last.position), last.position,
                  (SELECT key FROM sync_change WHERE position = last.position)
                FROM (SELECT max(position) AS position FROM sync_change WHERE state <> 0 AND state = 1) AS last
                """
            guard let row = try Row.fetchOne(db.cachedStatement(sql: sql)), row[0] == 0,
                row[1] == claim.changes.count, row[3] == last
            else { return nil }
            position = row[2]
            records = Set(claim.changes.lazy.map(\.change.record))
        }
    }
}
