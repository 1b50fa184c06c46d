import SyncCore

/// Records as `show` prints them: a line of canonical JSON each, sorted by entity and id.
///
/// A line holds `entity`, `id` and every declared field, `null` where there is no value, and nothing that is of one
/// device only: two devices in sync print the same bytes.
enum Canonical {
    /// The line of one record, without its end.
    static func line(_ record: LocalRecord, of entity: EntitySchema) -> String {
        var members: [String: FieldValue] = ["entity": .string(record.key.entity), "id": .string(record.key.id)]
        for field in entity.fields { members[field.name] = record.fields[field.name] ?? .null }
        return JSONText.text(.object(members))
    }

    /// The lines of all these records, each with its end, sorted by the bytes of entity and id.
    static func lines(_ records: [LocalRecord], schema: Schema) -> String {
        let sorted = records.sorted { a, b in
            a.key.entity == b.key.entity
                ? a.key.id.utf8.lexicographicallyPrecedes(b.key.id.utf8)
                : a.key.entity.utf8.lexicographicallyPrecedes(b.key.entity.utf8)
        }
        var text = ""
        for record in sorted {
            guard let entity = schema[record.key.entity] else { continue }
            text += line(record, of: entity) + "\n"
        }
        return text
    }
}

/// A record of the local database: its name and its declared fields.
struct LocalRecord: Sendable, Hashable {
    var key: RecordKey
    var fields: [String: FieldValue]

    init(_ key: RecordKey, _ fields: [String: FieldValue]) {
        self.key = key
        self.fields = fields
    }
}
