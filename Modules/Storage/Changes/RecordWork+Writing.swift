import GRDB
import SyncCore

/// Base and row go back into the file.
extension RecordWork {
    /// What the server said and the rewritten deltas.
    func writeLog(_ db: Database) throws {
        for change in changes where rewritten.contains(change.position) { try ChangeRows.rewrite(db, change) }
        var next = stored
        if changes.isEmpty {
            // Without unsent changes the row says it all; a dead record has none, and is known by its version.
            next = base.isAway ? nil : next
            next?.base = base.isLive ? nil : RecordState.absent
        } else {
            // Where the server never said anything, the first change tells the base: a create, over nothing.
            if next == nil, base.isLive || changes.first?.operation != .create { next = StoredRecord(version: 0) }
            next?.base = base
        }
        guard next != before else { return }
        if let next { try next.write(db, record) } else { try StoredRecord.delete(db, record) }
    }

    /// Brings the row of a dead record, which something under it keeps, to what is known of it without what was taken back.
    /// - Returns: whether it changed.
    /// - Throws: as ``writeRow(_:)``.
    func writeKeptRow(_ db: Database) throws -> Bool {
        guard let row else { return false }
        let values = shown.fields.filter { name, value in row[name].map { !$0.isSame(as: value) } ?? false }
        guard !values.isEmpty else { return false }
        return try RowWriter.applying(db) { try RowWriter(entity).update(db, record.id, values) }
    }

    /// Brings the row to what it is to show.
    /// - Returns: whether it changed.
    /// - Throws: ``ValueMismatch``, or a constraint's `DatabaseError`: then the row is as it was.
    func writeRow(_ db: Database) throws -> Bool {
        let target = shown
        let writer = RowWriter(entity)
        guard target.isLive else {
            guard row != nil else { return false }
            return try RowWriter.applying(db) { try writer.delete(db, record.id) }
        }
        var values = target.fields.filter { name, value in
            guard let present = row?[name] else { return entity.field(name) != nil }
            return !present.isSame(as: value)
        }
        // What nothing names any more was never given: a create that names few fields, once an edit is taken back.
        for field in entity.fields where target.fields[field.name] == nil && !field.isRequired {
            if let present = row?[field.name], !present.isNull { values[field.name] = .null }
        }
        // A create that names no value of a column that must have one says nothing of it: what is there stays.
        if row != nil, before?.version ?? 0 == 0 {
            for field in entity.fields where values[field.name]?.isNull == true {
                if try writer.refusesNull(db, field) { values[field.name] = nil }
            }
        }
        guard row == nil || !values.isEmpty else { return false }
        return try RowWriter.applying(db) {
            if row == nil {
                try writer.upsert(db, record.id, values)
            } else {
                try writer.update(db, record.id, values)
            }
            return true
        }
    }
}
