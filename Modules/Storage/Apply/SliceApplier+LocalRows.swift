import GRDB
import SyncCore

/// Rows that stay on this device, and what a page says of records of their ids.
extension SliceApplier {
    /// Whether the record is of such an id, and dead or elsewhere: nobody else has the row, whatever became of another of its id.
    func staysHere(_ record: ServerRecord) throws -> Bool {
        guard localRows.contains(record.key) else { return false }
        try HeldRecords.forget(db, record.key)
        return true
    }

    /// The server has a record under the id of a row that stays here, as of an app whose ids are names: what was written of that on was
    /// nobody's to send, so the row would be two things at once (seed 31 with `--drafts`). It is everybody's; what it said is journalled.
    func takeOver(_ record: ServerRecord, _ table: AppliedTable) throws {
        let row = try table.writer.read(db, record.key.id) ?? [:]
        if row.contains(where: { !(record.fields[$0.key] ?? .null).isSame(as: $0.value) }) {
            try Journal.conflict(
                db, .localRow, change: nil, record.key, field: nil, mine: .object(row.filter { !$0.value.isNull }),
                theirs: .object(record.fields), winner: "theirs", rule: .lastWriter, at: now)
        }
        // The page says everything of it (seed 40).
        let absent = try table.writer.dispensable(db).map(\.name).filter { record.fields[$0] == nil }
        try table.writer.update(
            db, record.key.id, Dictionary(uniqueKeysWithValues: absent.map { ($0, FieldValue.null) }))
        try Drafts.isTaken(db, record.key)
        localRows.remove(record.key)
    }
}
