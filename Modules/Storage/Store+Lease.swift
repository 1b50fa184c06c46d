import GRDB
public import SyncCore

extension Store {
    /// Takes the right to sync this file, or prolongs it; a holder that is silent until it runs out is taken over.
    /// - Parameter seconds: how long it stands without being prolonged; 59 minutes at most.
    /// - Returns: whether this holder has it now.
    public func lease(holder: String, seconds: Double) throws(StoreFailure) -> Bool {
        let now = now
        let (present, length) = (leaseGeneration, Lease.length(seconds: seconds))
        let generation = try perform("taking the lease") { db in
            let generation = try Lease.take(db, holder: holder, until: now + length, now: now)?
                .generation
            // Whoever had it before is not at work any more: what it had claimed is without a verdict.
            if generation != nil, generation != present { try ChangeTable.recover(db) }
            return generation
        }
        if let generation { (leaseGeneration, leaseLength) = (generation, length) }
        return generation != nil
    }

    /// The lease that this store took stands for as long again as it was taken for; one that was given back, or that somebody
    /// took over meanwhile, does not.
    public func prolongLease() throws(StoreFailure) {
        let (now, generation, length) = (now, leaseGeneration, leaseLength)
        guard generation != nil else { return }
        try perform("prolonging the lease") { db in
            try Lease.prolong(db, generation, by: length, now: now, isEarly: true)
        }
    }

    /// Whether somebody syncs this file now, in this process or another.
    ///
    /// Where nobody does, what the log has as uploading is without a request alive.
    public func isBeingSynced() throws(StoreFailure) -> Bool {
        let now = now
        return try look("looking for the lease") { db in try Lease.isTaken(db, now: now) }
    }

    /// Gives the lease back, so that another process need not wait for its end.
    public func release(holder: String) throws(StoreFailure) {
        try perform("releasing the lease") { db in try Lease.release(db, holder: holder) }
        leaseGeneration = nil
    }
}
