import GRDB
public import SyncCore

extension Store: ChangeLog {
    public func settle(_ settlement: Settlement, claim: ClaimLimits?) throws(StoreFailure) -> Claim {
        if let result = try settleAhead(settlement, claim: claim) {
            noteSent(result)
            stateSpeakers.speak()
            return result
        }
        return try settle(settlement, claim: claim, underWay: nil)
    }

    public func settle(
        _ settlement: Settlement, behind claim: Claim, limits: ClaimLimits?
    ) throws(StoreFailure) -> Claim {
        ahead = nil
        return try settle(settlement, claim: limits, underWay: claim)
    }

    public func putBack(_ claim: Claim) throws(StoreFailure) {
        let keys = claim.changes.map(\.change.id)
        let generation = leaseGeneration
        try performEngine("putting changes back") { db in
            // Whoever has the lease by now has counted them as sent.
            guard try Lease.isHeld(db, generation) else { return }
            try Marking.unmark(db, keys)
            // What comes later may be merged into it, so that what a handler built of it says too little.
            try Payloads.drop(db, keys)
        }
        stateSpeakers.speak()
    }

    private func settle(
        _ settlement: Settlement, claim: ClaimLimits?, underWay: Claim?
    ) throws(StoreFailure) -> Claim {
        let now = now
        let (generation, length) = (leaseGeneration, leaseLength)
        let (result, touched) = try performWithHeld("settling the queue") { db, isRetrying in
            // A late holder's verdicts count; what goes next is the present holder's to say.
            let mayClaim = try Lease.isHeld(db, generation)
            if mayClaim { try Lease.prolong(db, generation, by: length, now: now) }
            return try context.deriving(db, now: now) {
                let settled = try context.changes.settle(
                    db, settlement, claim: mayClaim ? claim : nil, behind: underWay, now: now)
                // What a repeated verdict says may be long over, and a page from 0 says nothing of what left since (seed 9099); nor is
                // the page of an answer taken that lacks one.
                if settlement.outcomes.contains(where: \.leavesPageBehind) {
                    try Self.catchUp(db, context.schema, since: settlement.outcomes.compactMap(\.repeatedVersion))
                }
                let touched = settled.touched + (isRetrying ? try retryHeld(db, now) : [])
                let told = settlement.outcomes.compactMap(\.record)
                try untold.note(db, told)
                try untold.noteLeft(db, touched + told.map(\.key), context.schema)
                return (settled.claim, touched)
            }
        }
        noteSent(result)
        if !settlement.outcomes.isEmpty || !result.changes.isEmpty { stateSpeakers.speak() }
        if !touched.isEmpty { tell(.verdict, touched) }
        return result
    }

    /// Before the changes leave: a file that does not know the last of them any more is an older copy of this one.
    private func noteSent(_ claim: Claim) {
        let last = claim.changes.lazy.filter { $0.change.deviceID == nil }.map(\.change.sequence).max()
        guard let last, let noted, last > noted else { return }
        self.noted = last
        DeviceNote(database: database.path).note(.init(device: claim.deviceID, sequence: last))
    }

    public func summary() throws(StoreFailure) -> QueueSummary {
        try collectIfDirty()
        if let stood, try isStill(stood.file) { return stood.opening.queue }
        return try lookHere("counting the queue") { db in try context.changes.summary(db) }
    }

    public nonisolated func notices() -> AsyncStream<Void> { queueSpeakers.stream() }

    /// One write transaction that tries held records again, too. A foreign key of the app's that one of them breaks shows
    /// at the commit only: then the rest is done without them, so that none of them stops the queue.
    private func performWithHeld<T>(
        _ doing: String, _ body: (Database, _ isRetrying: Bool) throws -> T
    ) throws(StoreFailure) -> T {
        do {
            return try performEngine(doing) { try body($0, true) }
        } catch let failure where failure.code == Self.foreignKeyCode {
            return try performEngine(doing) { try body($0, false) }
        }
    }

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

    /// The same part by part, for a queue that may be too long to be held at once. Each part is as the queue is when it is asked
    /// for; none of its changes is told twice, and what stays in it is not left out.
    /// - Parameters:
    ///   - place: the beginning, or what the part before gave as the next.
    ///   - limit: how many changes at most, 1 at least.
    /// - Returns: the changes, and the place where the next part begins; `nil` at the end.
    public func queued(
        from place: QueuePlace, limit: Int
    ) throws(StoreFailure) -> (changes: [QueuedChange], next: QueuePlace?) {
        try collectIfDirty()
        return try look("reading the queue") { db in try context.changes.queued(db, from: place, limit: max(1, limit)) }
    }

    public func failures() throws(StoreFailure) -> [FailedChange] {
        try collectIfDirty()
        return try look("reading what was set aside") { db in try context.changes.failures(db) }
    }

    /// The same part by part, oldest first: what is set aside later comes behind, what was retried or discarded is left out.
    /// - Parameters:
    ///   - place: the beginning, or what the part before gave as the next.
    ///   - limit: how many changes at most, 1 at least.
    /// - Returns: the changes, and the place where the next part begins; `nil` at the end.
    public func failures(
        from place: FailurePlace, limit: Int
    ) throws(StoreFailure) -> (failures: [FailedChange], next: FailurePlace?) {
        try collectIfDirty()
        return try look("reading what was set aside") { db in
            try context.changes.failures(db, from: place, limit: max(1, limit))
        }
    }

    public func dependants(of changeID: String) throws(StoreFailure) -> [String] {
        try look("reading what needs a change") { db in try context.changes.dependants(db, of: changeID) }
    }

    /// Asynchronous as ``retry(_:)-([String])`` is.
    public func dependants(of changeIDs: [String]) async throws(StoreFailure) -> [[String]] {
        try look("reading what needs changes") { db in try context.changes.dependants(db, of: changeIDs) }
    }

    public func retry(_ changeID: String) throws(StoreFailure) -> String {
        let now = now
        let (key, touched) = try performEngine("retrying a change") { db in
            try context.deriving(db, now: now) {
                let retried = try context.changes.retry(db, changeID, now: now)
                return (retried.key, retried.touched)
            }
        }
        repaired(touched)
        return key
    }

    /// Asynchronous, as who has the store itself, and not the seam, would otherwise get the seam's own: one after another.
    public func retry(_ changeIDs: [String]) async throws(StoreFailure) -> [RetryOutcome] {
        do {
            return try retryTogether(changeIDs)
        } catch let failure where failure.code == Self.foreignKeyCode {
            // One of them breaks a foreign key of the app's, which shows at the commit only: each by itself tells which.
            var outcomes: [RetryOutcome] = []
            for id in changeIDs {
                do { outcomes.append(.retried(try retry(id))) } catch { outcomes.append(try RetryOutcome(error)) }
            }
            return outcomes
        }
    }

    private func retryTogether(_ changeIDs: [String]) throws(StoreFailure) -> [RetryOutcome] {
        let now = now
        let (outcomes, touched) = try performEngine("retrying changes") { db in
            try context.deriving(db, now: now) {
                let retried = try context.changes.retry(db, changeIDs, now: now)
                return (retried.outcomes, retried.touched)
            }
        }
        repaired(touched)
        return outcomes
    }

    public func discard(_ changeID: String) throws(StoreFailure) -> [String] {
        let now = now
        let (keys, touched) = try performWithHeld("discarding a change") { db, isRetrying in
            try context.deriving(db, now: now) {
                let discarded = try context.changes.discard(db, changeID, now: now)
                let touched = discarded.touched + (isRetrying ? try retryHeld(db, now) : [])
                try untold.noteLeft(db, touched, context.schema)
                return (discarded.keys, touched)
            }
        }
        repaired(touched)
        return keys
    }

    public func cancel(_ changeID: String) throws(StoreFailure) -> CancelOutcome {
        let now = now
        let (outcome, touched) = try performWithHeld("cancelling a change") { db, isRetrying in
            try context.deriving(db, now: now) {
                let cancelled = try context.changes.cancel(db, changeID, now: now)
                let touched = cancelled.touched + (isRetrying ? try retryHeld(db, now) : [])
                try untold.noteLeft(db, touched, context.schema)
                return (cancelled.outcome, touched)
            }
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

extension Settlement.Outcome {
    /// Whether the page beside it does not tell of what these verdicts did, at the moment when they did it.
    fileprivate var leavesPageBehind: Bool {
        if case .unanswered = kind { true } else { isRepeated }
    }

    /// The version of a verdict told once more.
    fileprivate var repeatedVersion: Int64? {
        guard isRepeated else { return nil }
        switch kind {
        case .applied(let version, _, _): return version
        case .merged(let record), .conflict(let record, _): return record.version
        default: return nil
        }
    }
}
