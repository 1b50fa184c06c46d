import GRDB
import SyncCore

/// One write of an app that computes its own changes of some entities (`capture: .explicit`): the row, and what is handed over of it.
///
/// All is read in the write's own transaction, and what a delete takes along is handed over, too; others of it are noticed.
struct ExplicitEdit {
    let db: Database
    let schema: Schema

    /// - Parameters:
    ///   - names: what the device calls the records.
    ///   - record: takes what is handed over.
    func perform(_ edit: LocalEdit, _ names: LocalIDs, _ record: (FoundChange) throws -> Void) throws {
        func hand(_ key: RecordKey, _ operation: Operation, _ fields: [String: FieldDelta]) throws {
            guard schema[key.entity]?.capture == .explicit else { return }
            try record(FoundChange(record: key, operation: operation, fields: fields))
        }
        // By the device's own names from here on.
        let edit = names.edit(edit, schema)
        let before = try family(of: edit)
        try edit.perform(db, schema)
        switch edit {
        case .insert(let key, let fields):
            try hand(key, .create, fields.filter { !$0.value.isNull }.mapValues { FieldDelta(old: nil, new: $0) })
        case .update(let key, let fields):
            guard let row = before.first?.row else { return }
            let changed = fields.filter { !$0.value.isSame(as: row[$0.key] ?? .null) }
            var deltas: [String: FieldDelta] = [:]
            for (name, value) in changed {  // any order
                deltas[name] = FieldDelta(old: row[name] ?? .null, new: value)
            }
            if !deltas.isEmpty { try hand(key, .update, deltas) }
        case .delete:
            for (key, row) in before {
                try hand(key, .delete, row.filter { !$0.value.isNull }.mapValues { FieldDelta(old: $0, new: .null) })
            }
        }
    }

    /// The row as it stands, and where it is to go, those that go with it, before it.
    private func family(of edit: LocalEdit) throws -> [(key: RecordKey, row: [String: FieldValue])] {
        switch edit {
        case .insert: return []
        case .update(let key, _): return try row(key).map { [(key, $0)] } ?? []
        case .delete(let key):
            var (found, seen): ([(key: RecordKey, row: [String: FieldValue])], Set<RecordKey>) = ([], [])
            func add(_ key: RecordKey) throws {
                guard seen.insert(key).inserted, let row = try row(key) else { return }
                for child in try children(of: key) { try add(child) }
                found.append((key, row))
            }
            try add(key)
            return found
        }
    }

    private func children(of key: RecordKey) throws -> [RecordKey] {
        var keys: [RecordKey] = []
        for entity in schema.entities {
            for field in entity.parents where field.reference?.entity == key.entity {
                let sql = """
                    SELECT "\(entity.keyColumn)" FROM "\(entity.table)" WHERE "\(field.column)" = ? ORDER BY rowid
                    """
                try PlainRows(db, sql, key.id).forEach { keys.append(RecordKey(entity.name, $0.text(0))) }
            }
        }
        return keys
    }

    private func row(_ key: RecordKey) throws -> [String: FieldValue]? {
        guard let entity = schema[key.entity] else { return nil }
        let columns = entity.fields.map { "\"\($0.column)\"" } + ["1"]
        let sql = """
            SELECT \(columns.joined(separator: ", ")) FROM "\(entity.table)" WHERE "\(entity.keyColumn)" = ?
            """
        var found: [String: FieldValue]?
        var parsed: [String: FieldValue] = [:]
        try PlainRows(db, sql, key.id).forEach { row in
            var fields: [String: FieldValue] = [:]
            for (place, field) in entity.fields.enumerated() {
                fields[field.name] = try row.field(CInt(place), kind: field.kind, &parsed)
            }
            found = fields
        }
        return found
    }
}
