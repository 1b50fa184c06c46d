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
        do {
            return note(try database.writeWithoutTransaction { db in try OthersMark(db) })
        } catch {
            throw failure(error, "looking for another process's writes")
        }
    }

    /// One look of the engine's, at others' writes, too; on the writing connection, which has in memory what it wrote last. A
    /// reading one must read that from the file.
    func lookHere<T>(_ doing: String, _ body: (Database) throws -> T) throws(StoreFailure) -> T {
        do {
            let (mark, result) = try reading.byWriter { db in (try OthersMark(db), try body(db)) }
            note(mark)
            return result
        } catch {
            throw failure(error, doing)
        }
    }

    /// Whether nobody, here or elsewhere, has committed anything since the file was so.
    func isStill(_ file: FileVersion) throws(StoreFailure) -> Bool {
        do {
            return try database.writeWithoutTransaction { db in
                // Any statement that reads makes the connection look at the log; this one reads no page.
                let look = try RawStatement(db, "PRAGMA data_version")
                defer { look.begin() }
                _ = try look.step()
                return FileVersion(db) == file
            }
        } catch {
            throw failure(error, "looking for another process's writes")
        }
    }

    /// - Returns: whether somebody else has written.
    @discardableResult
    func note(_ found: OthersMark) -> Bool {
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

    /// Hears each of these notices on the spot: for who judges the store, and must not wait for a task's turn.
    package nonisolated func tapNotices(_ hear: @escaping @Sendable (AppliedNotice) -> Void) {
        noticeSpeakers.tap(hear)
    }

    /// Tells that many rows may have changed, or gone.
    func tellOfMany() {
        appliedSpeakers.speak()
        noticeSpeakers.speak(AppliedNotice(origin: .fullPass, records: []))
    }

    /// Tells of rows that changed.
    func tell(_ origin: AppliedNotice.Origin, _ records: [RecordKey]) {
        appliedSpeakers.speak()
        if !records.isEmpty { noticeSpeakers.speak(AppliedNotice(origin: origin, records: records)) }
    }
}

/// How often others had committed, and the number of the last change.
struct OthersMark {
    var version: Int64
    var sequence: Int64

    init(_ db: Database) throws {
        version = try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA data_version")) ?? 0
        sequence = try ChangeRows.sequence(db)
    }
}
