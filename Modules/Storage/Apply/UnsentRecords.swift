import GRDB
import SyncCore

/// The records that have entries in the queue, remembered from slice to slice: a page asks of each of its records whether
/// it is one of them.
///
/// Valid as long as no change was made (the sequence stands) and none has gone (the count stands). What a transaction saw
/// that was rolled back is forgotten with it (``forget()``). A long queue is not remembered: it is asked for each record.
/// Only the store's actor uses it.
final class UnsentRecords: @unchecked Sendable {  // guarded by the store's actor, whose transactions alone reach it
    private static let most = 2_000

    private var state: (sequence: Int64, count: Int)?
    private var records: [String: Set<String>] = [:]

    /// - Returns: whether the record has entries; `nil` where that must be asked.
    func contains(_ record: RecordKey) -> Bool? {
        state == nil ? nil : records[record.entity]?.contains(record.id) ?? false
    }

    /// Looks whether what is remembered still holds, and reads it anew where it does not.
    func refresh(_ db: Database) throws {
        let count = try ChangeRows.queued(db)
        let sequence = try ChangeRows.sequence(db)
        if let state, state == (sequence, count) { return }
        forget()
        guard count <= Self.most else { return }
        let statement = try RawStatement(db, "SELECT DISTINCT entity, id FROM sync_change")
        statement.begin()
        defer { statement.begin() }
        while try statement.step() { records[statement.text(0), default: []].insert(statement.text(1)) }
        state = (sequence, count)
    }

    func forget() {
        state = nil
        records = [:]
    }
}
