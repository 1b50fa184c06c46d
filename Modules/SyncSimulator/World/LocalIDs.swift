import SyncCore

/// What a device calls records, where that is not their canonical id (``CanonicalIDs``): what it did not make itself it has under
/// the server's.
struct LocalIDs: Sendable, Hashable {
    private var ids: [RecordKey: String] = [:]

    /// The device has the record under this id.
    mutating func note(_ id: String, of record: RecordKey) { ids[record] = id }

    mutating func forget(_ record: RecordKey) { ids[record] = nil }

    /// Takes over what another look found.
    mutating func merge(_ newer: LocalIDs) { ids.merge(newer.ids) { $1 } }

    func knows(_ record: RecordKey) -> Bool { ids[record] != nil }

    func key(_ record: RecordKey) -> RecordKey { RecordKey(record.entity, ids[record] ?? record.id) }

    /// The edit as the app makes it: its records, and those that it refers to, by the device's own ids.
    func edit(_ edit: LocalEdit, _ schema: Schema) -> LocalEdit {
        guard !ids.isEmpty else { return edit }
        return switch edit {
        case .insert(let record, let fields): .insert(key(record), self.fields(fields, schema[record.entity]))
        case .update(let record, let fields): .update(key(record), self.fields(fields, schema[record.entity]))
        case .delete(let record): .delete(key(record))
        }
    }

    private func fields(_ fields: [String: FieldValue], _ entity: EntitySchema?) -> [String: FieldValue] {
        var fields = fields
        for field in entity?.fields ?? [] {
            guard let target = field.reference?.entity, case .string(let id)? = fields[field.name] else { continue }
            fields[field.name] = .string(key(RecordKey(target, id)).id)
        }
        return fields
    }
}
