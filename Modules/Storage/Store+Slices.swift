import GRDB
public import SyncCore

extension Store {
    /// Applies the slice, in as many transactions as its time asks for (``StoreConfiguration/longestSlice``): each has the
    /// checkpoint at its last version, and the app's own writes come in between.
    public func apply(_ slice: PageSlice) throws(StoreFailure) -> SliceReport {
        var sum = SliceReport()
        var rest = slice
        while true {
            let part = try applyPart(rest)
            sum.add(part.report)
            if part.report.wasDropped { return sum }
            checkpointer?.logGrew()
            tell(.page, part.report.touched)
            stateSpeakers.speak()
            if part.isLast { return sum }
            rest.records.removeFirst(part.taken)
        }
    }

    /// Reads the next records of a page, and applies them: nothing else of this store's comes between the two. What is read is named as
    /// on this device by then, and a verdict that named one of the records after that would find no row to give the name to (seed 43326
    /// with `--single --conditions`).
    /// - Parameter slice: what so many records are of the page.
    /// - Returns: what was applied, and what that did; `nil` where the page has no more.
    /// - Throws: as ``apply(_:)``; `ExchangeFailure` of a page that cannot be read.
    public func apply(
        nextOf page: any RecordPage, maxRecords: Int, maxBytes: Int, as slice: @Sendable ([ServerRecord]) -> PageSlice
    ) throws -> (slice: PageSlice, report: SliceReport)? {
        let records = try page.next(maxRecords: maxRecords, maxBytes: maxBytes)
        guard !records.isEmpty else { return nil }
        let slice = slice(records)
        return (slice, try apply(slice))
    }

    /// What one transaction did of a slice.
    private struct Part {
        var report: SliceReport
        /// So many of its records.
        var taken = 0
        /// All of them, and what was held was tried again.
        var isLast = true
    }

    /// SQLITE_CONSTRAINT_FOREIGNKEY.
    static let foreignKeyCode = 787

    private func applyPart(_ slice: PageSlice) throws(StoreFailure) -> Part {
        do {
            return try transact(slice, retriesHeld: true)
        } catch let failure where failure.code == Self.foreignKeyCode {
            // Perhaps it was a record held from before that broke the key, and none of these.
            do {
                return try transact(slice)
            } catch let failure where failure.code == Self.foreignKeyCode {
                return Part(report: try applyOneByOne(slice))
            }
        }
    }

    /// One transaction of a slice: as many of its records as there is time for.
    private func transact(_ slice: PageSlice, retriesHeld: Bool = false) throws(StoreFailure) -> Part {
        let records = slicePace.first(of: slice.records)
        // What is out of order goes as a whole: a checkpoint stands above all that came before it.
        let isDivisible = zip(records, records.dropFirst()).allSatisfy { $0.version <= $1.version }
        var budget: SliceBudget?
        let part = try transact(slice, records, movesCheckpoint: true) { db, applier in
            // From here on others wait.
            let time = SliceBudget(configuration.monotonicClock, most: configuration.longestSlice)
            budget = time
            let taken = try applier.apply(records, until: isDivisible ? { time.isSpent } : nil)
            guard taken == slice.records.count else { return (taken, false) }
            guard retriesHeld, applier.hasHeld else { return (taken, true) }
            guard taken == 0 || !time.isSpent else { return (taken, false) }
            try applier.retryHeld([.constraint, .unsent], limit: 100)
            return (taken, true)
        }
        if let budget { slicePace.note(part.taken, took: budget.used) }
        return part
    }

    /// - Parameter apply: says how many of the records it took, and whether that was all there was to do.
    private func transact(
        _ slice: PageSlice, _ records: [ServerRecord], movesCheckpoint: Bool,
        _ apply: (Database, SliceApplier) throws -> (taken: Int, isLast: Bool)
    ) throws(StoreFailure) -> Part {
        let now = now
        let part = try performEngine("applying a slice") { db -> Part in
            let waiting = try QueueFigures.Waiting(db)
            let known = try Meta.texts(db, [.checkpoint, .epoch, .scopes, .openFrom])
            let checkpoint = known[.checkpoint].flatMap { Int64($0) } ?? 0
            let epoch = known[.epoch]
            let stored = try Scopes(json: known[.scopes])
            var scopes = stored
            guard slice.scopes == nil ? slice.from <= checkpoint && scopes == nil : scopes?.covers(slice) ?? false,
                epoch == nil || epoch == slice.epoch
            else {
                return Part(report: SliceReport(wasDropped: true))
            }
            try Lease.check(db, leaseGeneration)
            try Lease.prolong(db, leaseGeneration, by: leaseLength, now: now)
            if epoch == nil { try Meta.set(db, .epoch, slice.epoch) }
            let passRuns = try scopes != nil && PassState.read(db).isRunning
            // Nothing is to come that is asked for: what still waits for a parent waits for none of it (Decision 191). What
            // left the roots that come back is to come; and what a pass did not bring goes at its end.
            let isSwept =
                movesCheckpoint && !slice.hasMore && !passRuns
                && (scopes.map { !$0.asksAgain(at: slice.checkpoint) && $0.isWhole(at: slice.checkpoint) } ?? false)
            var part = try context.deriving(db, now: now) {
                try RowWriter.applying(db) {
                    let applier = try SliceApplier(
                        db, context, now: now, unsent: unsentRecords, isOfRoots: scopes != nil)
                    let (taken, isLast) = try apply(db, applier)
                    for record in records.prefix(taken) {
                        scopes?.doubted.remove(record.key.scopeName)
                        if passRuns { scopes?.stayed.remove(record.key.scopeName) }
                    }
                    if isSwept, isLast, let present = scopes, !present.doubted.isEmpty {
                        let missing = try StayedRows.missing(db, present, context.schema)
                        scopes?.doubted = []
                        let leaving = missing.map {
                            ServerRecord(key: $0, version: slice.checkpoint, presence: .gone)
                        }
                        try applier.apply(leaving)
                        try untold.note(db, leaving)
                    }
                    var part = Part(report: applier.report, taken: taken, isLast: isLast)
                    if isSwept, isLast, try !HeldRecords.isEmpty(db) {
                        let removed = try untold.noting(db, .gone) { try Eviction.evictStrays(db, context.changes) }
                        part.report.deleted += removed.count
                        part.report.touched += removed
                    }
                    return part
                }
            }
            let isWhole = part.taken == slice.records.count
            let reached = isWhole ? slice.checkpoint : records[part.taken - 1].version
            let isEnd = part.isLast && !slice.hasMore
            if movesCheckpoint, var next = scopes {
                next.advance(to: reached)
                if isEnd, scopes?.isWhole(at: slice.checkpoint) ?? false {
                    part.report.asksAgain = next.close(at: slice.checkpoint, passRuns: passRuns)
                    if isSwept, !next.stayed.isEmpty, try StayedRows.find(db, &next, context.schema) {
                        part.report.asksAgain = true
                    }
                }
                if next != stored { try next.write(db) }
            } else if movesCheckpoint {
                try Self.advance(db, from: checkpoint, to: reached, isEnd: isEnd, open: known[.openFrom] != nil)
            }
            try untold.note(db, records.prefix(part.taken))
            try untold.noteLeft(db, part.report.touched, context.schema)
            try Meta.raise(db, .highest, to: records.prefix(part.taken).lazy.map(\.version).max())
            try Clock.observe(db, slice.stamp)
            try tellFreed(db, since: waiting)
            return part
        }
        return part
    }

    /// Everything is asked for. A late copy of an earlier page takes nothing back.
    private static func advance(
        _ db: Database, from checkpoint: Int64, to reached: Int64, isEnd: Bool, open: Bool
    ) throws {
        if reached > checkpoint { try Meta.set(db, .checkpoint, reached) }
        if isEnd, open, reached >= checkpoint { try Meta.set(db, .openFrom, nil as Int64?) }
        if !isEnd, !open, reached > checkpoint { try Meta.set(db, .openFrom, checkpoint) }
    }

    /// A foreign key of the app's that the schema does not tell of broke at the commit: each record goes alone, the one
    /// at fault is held, and the checkpoint moves when all are in.
    private func applyOneByOne(_ slice: PageSlice) throws(StoreFailure) -> SliceReport {
        var sum = SliceReport()
        for record in slice.records {
            do {
                let part = try transact(slice, [record], movesCheckpoint: false) { _, applier in
                    (try applier.apply([record]), true)
                }
                if part.report.wasDropped { return part.report }
                sum.add(part.report)
            } catch let failure where failure.code == Self.foreignKeyCode {
                let now = now
                try perform("holding a record") { db in
                    try HeldRecords.hold(db, record, .constraint, detail: failure.message)
                    try Journal.event(db, .quarantined, record.key, detail: failure.message, at: now)
                    try untold.note(db, [record])
                }
                sum.held += 1
            }
        }
        var end = slice
        end.records = []
        let report = try transact(end, [], movesCheckpoint: true) { _, _ in (0, true) }.report
        return report.wasDropped ? report : sum
    }
}

extension SliceReport {
    /// What one more transaction did.
    fileprivate mutating func add(_ more: SliceReport) {
        applied += more.applied
        deleted += more.deleted
        held += more.held
        conflicts += more.conflicts
        wasDropped = wasDropped || more.wasDropped
        asksAgain = asksAgain || more.asksAgain
        touched += more.touched
    }
}
