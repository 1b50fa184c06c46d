import GRDB
public import SyncCore

/// How the last cycles went, in `sync_cycle`: a ring, in the engine's own words.
extension Store {
    /// Takes the lease as ``lease(holder:seconds:)`` does, and reads what a cycle begins with, in one transaction.
    /// - Parameter pageLimit: marks that a page is asked for, as ``beginPage(limit:)`` does, which need not be called for the
    ///   first one then; ``endPage()`` must be.
    /// - Returns: `nil` where another holder's lease has not run out.
    public func beginCycle(
        holder: String, seconds: Double, pageLimit: Int? = nil
    ) throws(StoreFailure) -> CycleOpening? {
        try checkInPlace()
        let length = Lease.length(seconds: seconds)
        let until = now + length
        let (now, present) = (now, leaseGeneration)
        let rested = rested?.asked == pageLimit ? rested : nil
        var mark: OthersMark?
        defer { if let mark { note(mark) } }
        let begun = try performEngine("beginning a cycle", asLeft: rested?.file) {
            db, isAsLeft -> (generation: Int64, CycleOpening)? in
            if isAsLeft, let rested {
                // Nobody has committed anything: all is as that cycle found it and left it, the page's mark, too.
                try Lease.takeAgain(db, holder: holder, until: until)
                return (rested.generation + 1, rested.opening)
            }
            mark = try OthersMark(db)
            guard let lease = try Lease.take(db, holder: holder, until: until, now: now) else { return nil }
            if lease.generation != present { try ChangeTable.recover(db) }
            try context.changes.markWaiting(db)
            var position = try SyncPosition(db)
            if position.scopes?.values.contains(0) == true, try Self.catchUp(db, schema) {
                position = try SyncPosition(db)
            }
            var opening = CycleOpening(position: position, queue: try context.changes.summary(db))
            opening.pageLimit = try pageLimit.map {
                try PageDeaths.begin(db, limit: $0, wasAtRest: lease.wasFree)
            }
            return (lease.generation, opening)
        }
        guard case (let generation, var opening)? = begun else { return nil }
        if pageLimit != nil { pageDeaths.beginAgain() }
        (leaseGeneration, leaseLength) = (generation, length)
        // With dirty flags the queue is what is in it and what they mark.
        if !DirtyFlags.isUsed(schema), let left {
            opening.isFileKnown = true
            stood = Standing(file: left, opening: opening, generation: generation, asked: pageLimit)
        }
        return opening
    }

    /// Gives the lease back, and notes how the cycle went, in one transaction.
    /// - Parameters:
    ///   - summary: what is kept of the cycle, as JSON; `nil` keeps nothing of it.
    ///   - waiting: what is kept in its place where not everything is in step.
    ///   - keeping: how many cycles are kept; the oldest go.
    ///   - endsPage: the page that is marked came to its end, as ``endPage()`` says.
    ///   - ifStill: only where nobody has written anything since the cycle began.
    /// - Returns: how things stand then; `nil` where rows marked by a dirty flag must be looked at first, and where somebody has
    ///   written and it is to be done only if not: the lease is kept then.
    @discardableResult
    public func release(
        holder: String, noting summary: String?, whereWaiting waiting: String? = nil, at milliseconds: Int64,
        keeping: Int, endsPage: Bool = false, ifStill: Bool = false
    ) throws(StoreFailure) -> CycleClosing? {
        if endsPage { pageDeaths.end() }
        let stood = stood
        let isPageOver = stood?.asked == nil || pageDeaths.isOver
        let ended = try perform("ending a cycle", asLeft: stood?.file) {
            db, isAsLeft -> (closing: CycleClosing, isAsLeft: Bool)? in
            guard isAsLeft || !ifStill else { return nil }
            try Lease.release(db, holder: holder)
            let closing =
                if isAsLeft, let stood { stood.opening.closing } else {
                    CycleClosing(queue: try context.changes.summary(db), held: try HeldRecords.count(db))
                }
            guard let summary else { return (closing, isAsLeft) }
            let row = try RawStatement(db, "INSERT INTO sync_cycle (at, summary) VALUES (?, ?)")
            row.begin()
            row.add(milliseconds)
            row.add(closing.isInStep ? summary : waiting ?? summary)
            try row.run()
            let old = try RawStatement(db, "DELETE FROM sync_cycle WHERE number <= ?")
            old.begin()
            old.add(db.lastInsertedRowID - Int64(keeping))
            try old.run()
            return (closing, isAsLeft)
        }
        guard let (closing, isAsLeft) = ended else { return nil }
        rested = nil
        if isAsLeft, isPageOver, var resting = stood, let left, resting.generation == leaseGeneration {
            resting.file = left
            rested = resting
        }
        leaseGeneration = nil
        return DirtyFlags.isUsed(schema) ? nil : closing
    }

    /// The last cycles, newest first.
    public func cycles(limit: Int) throws(StoreFailure) -> [StoredCycle] {
        try look("reading the last cycles") { db in
            let sql = "SELECT number, at, summary FROM sync_cycle ORDER BY number DESC LIMIT ?"
            return try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [limit]).map {
                StoredCycle(number: $0[0], atMilliseconds: $0[1], summary: $0[2])
            }
        }
    }
}

/// How things stand at one state of the file.
struct Standing {
    var file: FileVersion
    var opening: CycleOpening
    /// Of the lease that the cycle took.
    var generation: Int64
    /// The most records that the cycle's page was marked for.
    var asked: Int?
}

/// Where this device stood when a cycle took the lease.
public struct CycleOpening: Sendable, Hashable {
    public var position: SyncPosition
    public var queue: QueueSummary
    /// The most records to ask for, where the first page was marked.
    public var pageLimit: Int?
    /// Whether the file alone tells that nothing was written since.
    package var isFileKnown = false

    public init(position: SyncPosition, queue: QueueSummary, pageLimit: Int? = nil) {
        self.position = position
        self.queue = queue
        self.pageLimit = pageLimit
    }

    /// The same as a cycle's end, where nothing has changed.
    var closing: CycleClosing { CycleClosing(queue: queue, held: position.held) }
}

/// How the queue stood when a cycle gave the lease back.
public struct CycleClosing: Sendable, Hashable {
    public var queue: QueueSummary
    /// Records of the server's that wait to be applied.
    public var held: Int

    public init(queue: QueueSummary, held: Int) {
        self.queue = queue
        self.held = held
    }

    /// Nothing is unsent, set aside or held.
    package var isInStep: Bool { queue.isEmpty && held == 0 }
}

/// One cycle as it was noted.
public struct StoredCycle: Sendable, Hashable {
    /// Grows by one with each cycle that is kept.
    public var number: Int64
    /// When it began.
    public var atMilliseconds: Int64
    /// JSON.
    public var summary: String
}
