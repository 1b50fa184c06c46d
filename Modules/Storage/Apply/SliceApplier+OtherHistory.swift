import GRDB
import SyncCore

/// What another history leaves of the one before (PROTOCOL.md, *Another history*).
extension SliceApplier {
    /// What stayed of another history, since something of it or under it was unsent, and comes now: what the record does not name
    /// was never written in this one, and no word of an older server's is missing (seed 59411).
    func whole(_ record: ServerRecord, _ look: RecordMarks.Look) throws -> ServerRecord {
        guard pass.isInOtherHistory, look.held?.version == 0, record.presence == .live,
            let table = try table(record.key.entity)
        else { return record }
        var whole = record
        for field in try table.writer.dispensable(db) where record.fields[field.name] == nil {
            whole.fields[field.name] = .null
        }
        return whole
    }

    /// History was replaced, and the server has other values than were in step.
    func noteLosses(_ record: ServerRecord, _ before: RecordState, _ entity: EntitySchema)
        throws
    {
        for field in entity.fields {
            let mine = before.fields[field.name] ?? .null
            let theirs = record.fields[field.name] ?? .null
            guard !mine.isSame(as: theirs) else { continue }
            try Journal.conflict(
                db, .lostByServer, change: nil, record.key, field: field.name, mine: mine, theirs: theirs,
                winner: "theirs", rule: field.rule, at: now)
        }
    }

    /// History was replaced, and the server has what this device had deleted.
    func noteLostDelete(_ record: ServerRecord) throws {
        try Journal.conflict(
            db, .lostByServer, change: nil, record.key, field: nil, mine: .null, theirs: .object(record.fields),
            winner: "theirs", rule: .lastWriter, at: now)
    }

    /// History was replaced, and the server does not have the record; told once, also of a row that stays for what is unsent.
    func noteLoss(_ key: RecordKey, _ stored: StoredRecord?, _ table: AppliedTable) throws {
        guard pass.journalsLosses, let stored, try pass.isNew(db, key), let row = try table.writer.read(db, key.id)
        else { return }
        let all = row.merging(stored.extra, uniquingKeysWith: { mine, _ in mine })
        try Journal.conflict(
            db, .lostByServer, change: nil, key, field: nil, mine: .object(all), theirs: nil,
            winner: "theirs",
            rule: .lastWriter, at: now)
    }
}
