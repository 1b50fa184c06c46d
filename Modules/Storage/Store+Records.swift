import GRDB
public import SyncCore

extension Store: RecordStore {
    public func position() throws(StoreFailure) -> SyncPosition {
        try noticeOthers()
        return try look("reading the position") { db in try SyncPosition(db) }
    }

    public func apply(_ slice: PageSlice) throws(StoreFailure) -> SliceReport {
        let report: SliceReport
        do {
            report = try apply(slice, slice.records, movesCheckpoint: true, retriesHeld: true)
        } catch let failure where failure.code == Self.foreignKeyCode {
            report = try applyWithoutHeld(slice)
        }
        if !report.wasDropped {
            checkpointer?.note(report.applied)
            tell(.page, report.touched)
            stateSpeakers.speak()
        }
        return report
    }

    /// SQLITE_CONSTRAINT_FOREIGNKEY.
    static let foreignKeyCode = 787

    /// Perhaps it was a record held from before that broke the key, and none of these.
    private func applyWithoutHeld(_ slice: PageSlice) throws(StoreFailure) -> SliceReport {
        do {
            return try apply(slice, slice.records, movesCheckpoint: true)
        } catch let failure where failure.code == Self.foreignKeyCode {
            return try applyOneByOne(slice)
        }
    }

    private func apply(
        _ slice: PageSlice, _ records: [ServerRecord], movesCheckpoint: Bool, retriesHeld: Bool = false
    ) throws(StoreFailure) -> SliceReport {
        let now = now
        return try performEngine("applying a slice") { db in
            let checkpoint = try Meta.integer(db, .checkpoint) ?? 0
            let epoch = try Meta.text(db, .epoch)
            var scopes = try Scopes.read(db)
            guard slice.scopes == nil ? slice.from <= checkpoint && scopes == nil : scopes?.covers(slice) ?? false,
                epoch == nil || epoch == slice.epoch
            else {
                return SliceReport(wasDropped: true)
            }
            try Lease.check(db, leaseGeneration)
            if epoch == nil { try Meta.set(db, .epoch, slice.epoch) }
            let report = try context.deriving(db, now: now, ahead: records.map(\.key)) {
                let report = try RowWriter.applying(db) {
                    let applier = try SliceApplier(db, context, now: now, unsent: unsentRecords)
                    try applier.apply(records)
                    if retriesHeld { try applier.retryHeld([.constraint, .unsent], limit: 100) }
                    return applier.report
                }
                return (report, report.touched)
            }
            // A late copy of an earlier page takes nothing back.
            if movesCheckpoint, scopes?.advance(to: slice.checkpoint) ?? false {
                try scopes?.write(db)
            } else if movesCheckpoint, scopes == nil, slice.checkpoint > checkpoint {
                try Meta.set(db, .checkpoint, slice.checkpoint)
            }
            try Meta.raise(db, .highest, to: records.lazy.map(\.version).max())
            try Clock.observe(db, slice.stamp)
            return report
        }
    }

    /// A foreign key of the app's that the schema does not tell of broke at the commit: each record goes alone, the one
    /// at fault is held, and the checkpoint moves when all are in.
    private func applyOneByOne(_ slice: PageSlice) throws(StoreFailure) -> SliceReport {
        var sum = SliceReport()
        for record in slice.records {
            do {
                let report = try apply(slice, [record], movesCheckpoint: false)
                if report.wasDropped { return report }
                sum.applied += report.applied
                sum.deleted += report.deleted
                sum.held += report.held
                sum.conflicts += report.conflicts
                sum.touched += report.touched
            } catch let failure where failure.code == Self.foreignKeyCode {
                let now = now
                try perform("holding a record") { db in
                    try HeldRecords.hold(db, record, .constraint, detail: failure.message)
                    try Journal.event(db, .quarantined, record.key, detail: failure.message, at: now)
                }
                sum.held += 1
            }
        }
        let end = try apply(slice, [], movesCheckpoint: true)
        return end.wasDropped ? end : sum
    }

    public func bind(dataset: String?, epoch: String) throws(StoreFailure) {
        try perform("noting the server's data set") { db in
            if let dataset {
                let known = try Meta.text(db, .dataset)
                guard known == nil || known == dataset else {
                    throw StoreFailure(
                        kind: .refused,
                        message: "The server has another data set than this database; nothing was changed.")
                }
                if known == nil { try Meta.set(db, .dataset, dataset) }
            }
            let known = try Meta.text(db, .epoch)
            guard known == nil || known == epoch else {
                throw StoreFailure(
                    kind: .refused, message: "The server's history is another one; a full pass begins it.")
            }
            if known == nil { try Meta.set(db, .epoch, epoch) }
        }
    }

    public func setClockOffset(milliseconds: Int64) throws(StoreFailure) {
        let now = now
        try perform("noting the server's time") { db in
            let shifted = try ClockOffset.set(db, milliseconds)
            guard shifted != 0 else { return }
            try Journal.event(db, .clockShifted, detail: "Stamps of unsent changes moved by \(shifted) ms.", at: now)
        }
    }

    public func beginFullPass(epoch: String?) throws(StoreFailure) {
        let now = now
        try performEngine("beginning a full pass") { db in try FullPass.begin(db, epoch: epoch, now: now) }
    }

    public func endFullPass(confirmed: Bool) throws(StoreFailure) -> FullPassEnd {
        let now = now
        let end = try performEngine("ending a full pass") { db in
            // What a pass takes away is known to the pass alone: everything derived is made anew.
            try context.derivingAll(db, now: now) {
                try RowWriter.applying(db) { try FullPass.end(db, context, confirmed: confirmed, now: now) }
            }
        }
        appliedSpeakers.speak()
        noticeSpeakers.speak(AppliedNotice(origin: .fullPass, records: []))
        stateSpeakers.speak()
        return end
    }

    // `async`, so that it is preferred to the seam's default, which is.
    public func beginPage(limit: Int) async throws(StoreFailure) -> Int {
        if pageDeaths.isOver {
            var deaths = pageDeaths
            let known = try look("looking where a page is asked for") { db in try deaths.goOn(db, limit: limit) }
            pageDeaths = deaths
            if let known { return known }
        }
        return try perform("noting that a page is asked for") { db in try PageDeaths.begin(db, limit: limit) }
    }

    public func endPage() async throws(StoreFailure) { pageDeaths.end() }

    public nonisolated func applied() -> AsyncStream<Void> { appliedSpeakers.stream() }
}
