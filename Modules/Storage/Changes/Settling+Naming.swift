import GRDB
import SyncCore

/// What else changes with a record's being named: all that names it by the server's id, and what is asked for by this device's.
extension Settling {
    /// Whether a create met a record that was there before: a copy of this file had made it, of which a page may have told since
    /// (seed 32030).
    func isKnown(_ db: Database, _ kind: Settlement.Outcome.Kind) throws -> Bool {
        guard case .applied(let version?, _, _) = kind else { return true }
        return try version <= Meta.integer(db, .highest) ?? .max
    }

    /// Whether a change in the queue refers to a record, beside those that need it as their parent.
    mutating func isReferredTo(_ db: Database, _ record: RecordKey) throws -> Bool {
        if let referredTo { return referredTo.contains(record) }
        var found: Set<RecordKey> = []
        for entity in table.schema.entities {
            for field in entity.fields {
                guard let target = field.reference, !target.isParent else { continue }
                let sql = """
                    SELECT fields ->> '$.\(field.name).new', fields ->> '$.\(field.name).old' FROM sync_change
                    WHERE entity = ? AND fields -> '$.\(field.name)' IS NOT NULL
                    """
                for row in try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [entity.name]) {
                    for id in [row[0] as String?, row[1] as String?].compactMap(\.self) {
                        found.insert(RecordKey(target.entity, id))
                    }
                }
            }
        }
        referredTo = found
        return found.contains(record)
    }

    mutating func finishNaming(_ db: Database) throws {
        try askAgain(db)
        guard !namedLate.isEmpty else { return }
        for entity in table.schema.entities {
            for field in entity.fields {
                guard let target = field.reference else { continue }
                let ids = namedLate.filter { $0.key.entity == target.entity }
                guard !ids.isEmpty else { continue }
                try rename(
                    db, entity, field, to: Dictionary(uniqueKeysWithValues: ids.map { ($0.key.id, $0.value.id) }))
            }
        }
    }

    /// A root that is asked for by an id that the server did not know was not told: it is read from its beginning (I5). One that is asked for
    /// by the server's id, as from a link, has this device's from now on (seed 1159 with `--damage --roots --server-ids`).
    private func askAgain(_ db: Database) throws {
        guard var scopes = try Scopes.read(db) else { return }
        let before = scopes
        for record in named.sorted() {
            guard let id = try IdentityMap.serverID(db, of: record) else { continue }
            scopes.rename(RecordKey(record.entity, id).scopeName, to: record.scopeName)
        }
        scopes.named(Set(named.map(\.scopeName)))  // any order
        if scopes != before { try scopes.write(db) }
    }

    /// Rows that are children were moved with the row itself.
    private mutating func rename(
        _ db: Database, _ entity: EntitySchema, _ field: FieldSchema, to names: [String: String]
    ) throws {
        let list = try FieldValue.array(names.keys.sorted().map(FieldValue.string)).jsonText()
        if field.reference?.isParent == false {
            let (key, column) = (RowWriter.quoted(entity.keyColumn), RowWriter.quoted(field.column))
            let sql = """
                SELECT \(key), \(column) FROM \(RowWriter.quoted(entity.table))
                WHERE \(column) IN (SELECT value FROM json_each(?)) ORDER BY \(key)
                """
            let rows = try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [list])
            try RowWriter.applying(db) {
                for row in rows {
                    let (id, old): (String, String) = (row[0], row[1])
                    try RowWriter(entity).update(db, id, [field.name: .string(names[old] ?? old)])
                    noteTouched([RecordKey(entity.name, id)])
                }
            }
        }
        let path = "$.fields.\(field.name)"
        for (table, json) in [("sync_record", "base"), ("sync_held", "record")] {
            let sql = """
                SELECT id, \(json) ->> '\(path)' FROM \(table)
                WHERE entity = ? AND \(json) IS NOT NULL AND \(json) ->> '\(path)' IN (SELECT value FROM json_each(?))
                """
            for row in try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [entity.name, list]) {
                let (id, old): (String, String) = (row[0], row[1])
                try db.cachedStatement(
                    sql: "UPDATE \(table) SET \(json) = json_set(\(json), '\(path)', ?) WHERE entity = ? AND id = ?"
                ).execute(arguments: [names[old] ?? old, entity.name, id])
            }
        }
    }
}
