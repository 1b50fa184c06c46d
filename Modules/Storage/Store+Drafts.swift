public import GRDB
public import SyncCore

extension Store {
    /// Holds rows back as drafts: their changes are recorded and wait, with what needs them, until ``release(_:)``.
    ///
    /// What is on its way to the server already is not taken back. Other changes go on past a draft.
    /// - Throws: ``StoreFailure`` (`invalid`) for an entity that is not declared.
    public func hold(_ records: [RecordKey]) throws(StoreFailure) {
        try performEngine("holding drafts") { db in try Drafts.hold(db, records, schema) }
        stateSpeakers.speak()
    }

    /// The same inside a write of the app's, so that no claim can come between the row and its mark.
    public nonisolated func hold(_ records: [RecordKey], in db: Database) throws {
        try Drafts.hold(db, records, schema)
    }

    /// Keeps rows on this device: nothing of them is sent, and no change of theirs is recorded, until ``release(_:)``.
    ///
    /// What refers to such a row waits for it, visibly, until it is released, or deleted. A tombstone does not take it away with a parent.
    /// - Throws: ``StoreFailure`` (`invalid`) for a row that the server knows.
    public func keepLocal(_ records: [RecordKey]) throws(StoreFailure) {
        try performEngine("keeping rows local") { db in try Drafts.keepLocal(db, records, schema) }
        stateSpeakers.speak()
    }

    /// The same inside a write of the app's.
    public nonisolated func keepLocal(_ records: [RecordKey], in db: Database) throws {
        try Drafts.keepLocal(db, records, schema)
    }

    /// Lets drafts and local rows go; a local row is sent as it is now.
    public func release(_ records: [RecordKey]) throws(StoreFailure) {
        let now = now
        try performEngine("releasing drafts") { db in try Drafts.release(db, records, schema, now: now) }
        queueSpeakers.speak()
        stateSpeakers.speak()
    }

    /// The rows that do not go out; a local one only as long as it is there.
    public func drafts() throws(StoreFailure) -> [Draft] {
        try look("reading drafts") { db in
            let gone = Set(try Drafts.gone(db, schema))
            let sql = "SELECT entity, id, kind FROM sync_draft ORDER BY entity, id"
            return try Row.fetchAll(db.cachedStatement(sql: sql)).map { row in
                Draft(record: RecordKey(row[0], row[1]), isLocal: row[2] == Drafts.Kind.local.rawValue)
            }.filter { !$0.isLocal || !gone.contains($0.record) }
        }
    }
}
