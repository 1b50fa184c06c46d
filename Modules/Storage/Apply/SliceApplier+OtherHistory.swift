import GRDB
import SyncCore

/// What another history leaves of the one before (PROTOCOL.md, *Another history*).
extension SliceApplier {
    /// What stayed of another history, since something of it or under it was unsent, and comes now: what the record does not name
    /// was never written in this one, and no word of an older server's is missing (seed 59411).
    func whole(_ record: ServerRecord, _ look: RecordMarks.Look) throws -> ServerRecord {
        guard record.presence == .live, let table = try table(record.key.entity) else { return record }
        // The row is there for what is unsent under it only: what comes is another life (seed 96306), or the first (seed 3240016 with
        // `--drafts --bias histories`).
        if hasHeld, record.fields.count < table.entity.fields.count,
            let held = try HeldRecords.find(db, record.key), held.presence == .deleted
        {
            if held.version > 0 { return try wholeOfPass(record, table) }
            if look.held == nil { return try whole(record, table) }
        }
        guard let held = look.held else { return record }
        guard pass.isInOtherHistory, held.version == 0 else {
            // A version from since the pass began is a verdict's, which may have come over another life, too (seed 54081 with
            // `--server-ids`).
            let mayBeAnother =
                pass.isRunning && !pass.journalsLosses
                && (held.version > passFrom || held.version < record.version && (held.pass ?? -1) < pass.number)
            return try mayBeAnother || isAnotherLife(record, held.version, look) ? wholeOfPass(record, table) : record
        }
        return try whole(record, table)
    }

    /// No value for what the record does not name.
    private func whole(_ record: ServerRecord, _ table: AppliedTable) throws -> ServerRecord {
        var whole = record
        table.hasFilled = true
        for field in try table.writer.dispensable(db) where record.fields[field.name] == nil {
            whole.fields[field.name] = .null
        }
        return whole
    }

    /// Whether it was dead when anything was said of it last: what stayed when a full pass did not bring it, since changes of it
    /// are unsent, and was made anew since (seed 32421).
    private func isAnotherLife(_ record: ServerRecord, _ version: Int64, _ look: RecordMarks.Look) throws -> Bool {
        guard look.isUnsent, version < record.version, let base = try look.base.map(StoredRecord.decode) else {
            return false
        }
        return !base.isLive && !base.isAway
    }

    /// A full pass tells of no dead: what comes newer than it was here may have died since, and have been made anew. A value that it does
    /// not name was the life's before (seeds 33849, 35793, 44871), if the server knows the field: other records have named it
    /// (DAT-21, Decision 469). It stays in the journal all the same.
    private func wholeOfPass(_ record: ServerRecord, _ table: AppliedTable) throws -> ServerRecord {
        let unnamed = table.entity.fields.filter { record.fields[$0.name] == nil && !$0.isRequired }
        guard !unnamed.isEmpty else { return record }
        let known = try NamedFields.read(db)
        let here = table.namedFields
        let lacking = unnamed.filter { here.contains($0.name) || known.contains($0.name, of: table.entity.name) }
        guard !lacking.isEmpty else { return record }
        let before = Base.state(
            stored: try StoredRecord.read(db, record.key),
            changes: try hasQueue ? Base.remaining(db, of: record.key, context.schema) : [],
            row: try table.writer.read(db, record.key.id), entity: table.entity)
        var whole = record
        for field in lacking {
            guard let mine = before.fields[field.name], !mine.isNull, try !table.writer.refusesNull(db, field) else {
                continue
            }
            whole.fields[field.name] = .null
            guard before.isLive else { continue }
            try Journal.conflict(
                db, .leftOut, change: nil, record.key, field: field.name, mine: mine, theirs: nil, winner: "theirs",
                rule: field.rule, at: now)
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
        try noteLoss(key, row, stored)
    }

    /// The whole record is one entry, from which it is made again.
    func noteLoss(_ key: RecordKey, _ fields: [String: FieldValue], _ stored: StoredRecord?) throws {
        let all = fields.merging(stored?.extra ?? [:]) { mine, _ in mine }
        try Journal.conflict(
            db, .lostByServer, change: nil, key, field: nil, mine: .object(all), theirs: nil, winner: "theirs",
            rule: .lastWriter, at: now)
    }
}
