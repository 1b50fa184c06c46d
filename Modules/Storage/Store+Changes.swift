import GRDB
public import SyncCore

extension Store: ChangeLog {
    public func settle(_ settlement: Settlement, claim: ClaimLimits?) throws(StoreFailure) -> Claim {
        let now = now
        let generation = leaseGeneration
        let (result, touched) = try performEngine("settling the queue") { db in
            // A late holder's verdicts count; what goes next is the present holder's to say.
            let mayClaim = try Lease.isHeld(db, generation)
            let settled = try context.changes.settle(db, settlement, claim: mayClaim ? claim : nil, now: now)
            return (settled.claim, settled.touched + (try retryHeld(db, now)))
        }
        if !settlement.outcomes.isEmpty || !result.changes.isEmpty { stateSpeakers.speak() }
        if !touched.isEmpty { tell(.verdict, touched) }
        return result
    }

    public func summary() throws(StoreFailure) -> QueueSummary {
        try noticeOthers()
        try collectIfDirty()
        return try look("counting the queue") { db in try context.changes.summary(db) }
    }

    public nonisolated func notices() -> AsyncStream<Void> { queueSpeakers.stream() }

    /// What was held for unsent changes, or by a row in its way, may be free now.
    private func retryHeld(_ db: Database, _ now: Int64) throws -> [RecordKey] {
        guard try !HeldRecords.isEmpty(db) else { return [] }
        return try RowWriter.applying(db) {
            let applier = try SliceApplier(db, context, now: now)
            try applier.retryHeld([.unsent, .constraint], limit: 100)
            try applier.retryOrphans()
            return applier.report.touched
        }
    }
}

extension Store: ChangeRepair {
    public func queued() throws(StoreFailure) -> [QueuedChange] {
        try collectIfDirty()
        return try look("reading the queue") { db in try context.changes.queued(db) }
    }

    public func failures() throws(StoreFailure) -> [FailedChange] {
        try collectIfDirty()
        return try look("reading what was set aside") { db in try context.changes.failures(db) }
    }

    public func dependants(of changeID: String) throws(StoreFailure) -> [String] {
        try look("reading what needs a change") { db in try context.changes.dependants(db, of: changeID) }
    }

    public func retry(_ changeID: String) throws(StoreFailure) -> String {
        let now = now
        let (key, touched) = try performEngine("retrying a change") { db in
            let retried = try context.changes.retry(db, changeID, now: now)
            return (retried.key, retried.touched)
        }
        repaired(touched)
        return key
    }

    public func discard(_ changeID: String) throws(StoreFailure) -> [String] {
        let now = now
        let (keys, touched) = try performEngine("discarding a change") { db in
            let discarded = try context.changes.discard(db, changeID, now: now)
            return (discarded.keys, discarded.touched + (try retryHeld(db, now)))
        }
        repaired(touched)
        return keys
    }

    public func cancel(_ changeID: String) throws(StoreFailure) -> CancelOutcome {
        let now = now
        let (outcome, touched) = try performEngine("cancelling a change") { db in
            let cancelled = try context.changes.cancel(db, changeID, now: now)
            return (cancelled.outcome, cancelled.touched + (try retryHeld(db, now)))
        }
        repaired(touched)
        return outcome
    }

    /// What waited for the change may be free now.
    private func repaired(_ touched: [RecordKey]) {
        queueSpeakers.speak()
        stateSpeakers.speak()
        if !touched.isEmpty { tell(.repair, touched) }
    }
}
