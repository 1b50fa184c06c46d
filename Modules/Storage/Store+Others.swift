import GRDB
public import SyncCore

extension Store {
    /// Looks whether another process has written to the file since the last look, and tells this one's listeners.
    ///
    /// SQLite counts commits of others for each connection (`PRAGMA data_version`), on every platform alike; nothing is
    /// pushed. The store looks by itself whenever the engine asks for the position or the queue's counts; an app that shows
    /// what an extension writes looks when it comes to the front, or from time to time (``watchOthers(pausing:)``).
    /// - Returns: whether somebody did.
    @discardableResult
    public func noticeOthers() throws(StoreFailure) -> Bool {
        let found: (version: Int64, sequence: Int64)
        do {
            found = try database.writeWithoutTransaction { db in
                (
                    try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA data_version")) ?? 0,
                    try ChangeRows.sequence(db)
                )
            }
        } catch {
            throw failure(error, "looking for another process's writes")
        }
        defer { others = found }
        guard let known = others, known.version != found.version else { return false }
        // What is bookkeeping only must not wake two engines by turns.
        if known.sequence != found.sequence { queueSpeakers.speak() }
        stateSpeakers.speak()
        appliedSpeakers.speak()
        noticeSpeakers.speak(AppliedNotice(origin: .otherProcess, records: []))
        return true
    }

    /// Looks for other processes' writes after each pause, until the task is cancelled or the pause throws.
    /// - Parameter pausing: waits a while; an app sleeps in it, a test returns when it wants a look.
    public func watchOthers(pausing: @Sendable () async throws -> Void) async throws {
        try noticeOthers()
        while !Task.isCancelled {
            try await pausing()
            try noticeOthers()
        }
    }

    /// What the engine changed in the app's tables, after each slice, verdict and repair; at most 100 notices wait for a
    /// listener. An app that only shows rows needs none of it: GRDB's observation sees them change.
    public nonisolated func appliedNotices() -> AsyncStream<AppliedNotice> { noticeSpeakers.stream(keeping: 100) }

    /// Tells of rows that changed.
    func tell(_ origin: AppliedNotice.Origin, _ records: [RecordKey]) {
        appliedSpeakers.speak()
        if !records.isEmpty { noticeSpeakers.speak(AppliedNotice(origin: origin, records: records)) }
    }
}
