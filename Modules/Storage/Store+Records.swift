import GRDB
public import SyncCore

extension Store: RecordStore {
    public func position() throws(StoreFailure) -> SyncPosition {
        try lookHere("reading the position") { db in try SyncPosition(db) }
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
        try performEngine("beginning a full pass") { db in
            try tellingFreed(db) { try untold.noting(db, .gone) { try FullPass.begin(db, epoch: epoch, now: now) } }
        }
    }

    public func endFullPass(confirmed: Bool) throws(StoreFailure) -> FullPassEnd {
        let now = now
        let end = try performEngine("ending a full pass") { db in
            // What a pass takes away is known to the pass alone: everything derived is made anew.
            try tellingFreed(db) {
                try context.derivingAll(db, now: now) {
                    try untold.noting(db, .deleted) {
                        try RowWriter.applying(db) { try FullPass.end(db, context, confirmed: confirmed, now: now) }
                    }
                }
            }
        }
        tellOfMany()
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
