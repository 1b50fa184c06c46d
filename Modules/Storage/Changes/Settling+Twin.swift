import GRDB
import SyncCore

/// A record that this device made, and that a page brought under the server's id before a verdict named it.
///
/// While the answer to a create is lost, its record comes with the next page as anybody's: nobody here can know whose it is.
/// The verdict says so, and the two become one: this device's id stays, with what the server says of it (NET-01, IDS-01).
extension Settling {
    /// Keeps the id under which the server holds a record.
    /// - Parameter isLate: whether it may have been told of before, as another record, beside what is noted of it here.
    /// - Returns: another record that has this id here, which cannot make way; nothing is kept then.
    mutating func keep(
        _ db: Database, _ serverID: String, of record: RecordKey, isLate: Bool
    ) throws -> RecordKey? {
        let twin = RecordKey(record.entity, serverID)
        guard twin != record else { return nil }
        if try isAtWork(db, twin) { return twin }
        let isNew = try isRepeated && pass == nil && IdentityMap.serverID(db, of: record) == nil
        if let other = try table.map(db, record, serverID) { return other }
        if try isNew && !isHere(db, twin) {
            // Whose tombstone a page brought, nobody could know.
            let stored = try StoredRecord.read(db, twin)
            if let stored, let base = stored.base, !base.isLive, !base.isAway {
                namedDead[record] = stored.version
            } else {
                namedUnseen.insert(record)
            }
        }
        named.insert(record)
        if try isLate || StoredRecord.read(db, twin) != nil { namedLate[twin] = record }
        try adopt(db, twin, as: record)
        return nil
    }

    /// Whether a record shows, or waits.
    private func isHere(_ db: Database, _ record: RecordKey) throws -> Bool {
        if try HeldRecords.find(db, record) != nil { return true }
        guard let entity = table.schema[record.entity] else { return false }
        return try RowWriter(entity).exists(db, record.id)
    }

    /// Whether changes of a record, or of what is under it, are in the queue: they name it by the id that it has now.
    private mutating func isAtWork(_ db: Database, _ record: RecordKey) throws -> Bool {
        let sql = "SELECT 1 FROM sync_change WHERE entity = ? AND id = ? LIMIT 1"
        let own = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [record.entity, record.id])
        if own != nil { return true }
        // Nearly always there is no such row, and nothing to look for.
        guard let entity = table.schema[record.entity], try RowWriter(entity).exists(db, record.id)
        else { return false }
        return try Removal.hasUnsentBelow(db, record, table.schema) || isReferredTo(db, record)
    }

    private mutating func adopt(_ db: Database, _ twin: RecordKey, as record: RecordKey) throws {
        guard let entity = table.schema[record.entity] else { return }
        try adoptHeld(db, twin, as: record)
        let writer = RowWriter(entity)
        guard let row = try writer.read(db, twin.id) else { return try StoredRecord.delete(db, twin) }
        let isHere = try writer.exists(db, record.id)
        try RowWriter.applying(db) {
            if isHere { try moveUnder(db, twin, to: record) } else { try holdUnder(db, twin, for: record) }
            try writer.delete(db, twin.id)
            noteTouched([twin])
        }
        guard var stored = try StoredRecord.read(db, twin) else { return }
        guard try stored.version > StoredRecord.read(db, record)?.version ?? 0 else {
            return try StoredRecord.delete(db, twin)
        }
        // As if the page had brought it under the id that it has here; the mark of a full pass goes with it.
        try StoredRecord.delete(db, record)
        try db.cachedStatement(sql: "UPDATE sync_record SET id = ? WHERE entity = ? AND id = ?")
            .execute(arguments: [record.id, twin.entity, twin.id])
        stored.base = RecordState(isLive: true, fields: row)
        try stored.write(db, record)
    }

    /// What stands directly under the one stands under the other.
    private mutating func moveUnder(_ db: Database, _ twin: RecordKey, to record: RecordKey) throws {
        for (child, field) in table.schema.children(of: twin.entity) {
            for id in try Removal.ids(db, child, field, twin.id) {
                let key = RecordKey(child.name, id)
                try RowWriter(child).update(db, id, [field.name: .string(record.id)])
                if var stored = try StoredRecord.read(db, key), stored.base?.fields[field.name] != nil {
                    stored.base?.fields[field.name] = .string(record.id)
                    try stored.write(db, key)
                }
                noteTouched([key])
            }
        }
    }

    /// What the answer that told the name says of other records names this one by it, as everybody does who reads an answer: by the server's
    /// word it stands under the other one, as the page will say. What only the app put under this one stays there (seeds 2000739 and 450093).
    mutating func leaveUnnamed(_ db: Database) throws {
        for entity in table.schema.entities {
            for field in entity.fields {
                let ids = unnamed.keys.filter { $0.entity == field.reference?.entity }.map(\.id).sorted()
                guard !ids.isEmpty else { continue }
                let sql = """
                    SELECT \(RowWriter.quoted(entity.keyColumn)) FROM \(RowWriter.quoted(entity.table))
                    WHERE \(RowWriter.quoted(field.column)) IN (SELECT value FROM json_each(?1))
                    UNION SELECT id FROM sync_change
                    WHERE entity = ?2 AND fields ->> '$.\(field.name).old' IN (SELECT value FROM json_each(?1)) ORDER BY 1
                    """
                let list = try FieldValue.array(ids.map(FieldValue.string)).jsonText()
                for id in try String.fetchAll(db.cachedStatement(sql: sql), arguments: [list, entity.name]) {
                    try keepBase(db, of: RecordKey(entity.name, id))
                }
            }
        }
        for record in order { works[record]?.rename(unnamed, hasRow: false) }
    }

    /// The record itself was deleted here since: what is under it waits for what becomes of that, as a page's would.
    private mutating func holdUnder(_ db: Database, _ twin: RecordKey, for record: RecordKey) throws {
        for key in try Removal.family(db, twin, table.schema).dropFirst().reversed() {
            guard let entity = table.schema[key.entity], var fields = try RowWriter(entity).read(db, key.id) else {
                continue
            }
            let stored = try StoredRecord.read(db, key)
            var awaited = record
            for parent in entity.parents {
                guard let target = parent.reference?.entity, let id = fields[parent.name]?.text else { continue }
                awaited = RecordKey(target, id)
                guard awaited == twin else { continue }
                awaited = record
                fields[parent.name] = .string(record.id)
            }
            fields.merge(stored?.extra ?? [:]) { mine, _ in mine }
            try HeldRecords.hold(
                db, ServerRecord(key: key, version: stored?.version ?? 0, fields: fields), .parent,
                detail: "\(awaited) is not here", waits: awaited)
            try RowWriter(entity).delete(db, key.id)
            try StoredRecord.delete(db, key)
            noteTouched([key])
        }
    }

    /// What is held of the one, and what waits for it, is held of the other, and waits for that.
    private func adoptHeld(_ db: Database, _ twin: RecordKey, as record: RecordKey) throws {
        for var held in try HeldRecords.waiting(db, for: twin) {
            for parent in table.schema[held.key.entity]?.parents ?? []
            where parent.reference?.entity == twin.entity && held.fields[parent.name]?.text == twin.id {
                held.fields[parent.name] = .string(record.id)
            }
            try HeldRecords.hold(db, held, .parent, detail: "\(record) is not here", waits: record)
        }
        try db.cachedStatement(sql: "UPDATE OR REPLACE sync_held SET id = ? WHERE entity = ? AND id = ?")
            .execute(arguments: [record.id, twin.entity, twin.id])
    }
}
