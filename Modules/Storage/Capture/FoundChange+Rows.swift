import SyncCore

/// Changes that follow from whole rows.
extension FoundChange {
    /// A row that is there now, and was not.
    static func create(_ record: RecordKey, _ row: [String: FieldValue]) -> FoundChange {
        FoundChange(record: record, operation: .create, fields: row.mapValues { FieldDelta(old: nil, new: $0) })
    }

    /// What differs; it names nothing where that is nothing.
    static func update(
        _ record: RecordKey, from before: [String: FieldValue], to row: [String: FieldValue]
    ) -> FoundChange {
        var fields: [String: FieldDelta] = [:]
        for (name, value) in row {  // any order
            let old = before[name] ?? .null
            if !old.isSame(as: value) { fields[name] = FieldDelta(old: old, new: value) }
        }
        return FoundChange(record: record, operation: .update, fields: fields)
    }

    /// A row that was there, and is not.
    static func delete(_ record: RecordKey, _ row: [String: FieldValue]) -> FoundChange {
        FoundChange(record: record, operation: .delete, fields: row.mapValues { FieldDelta(old: $0, new: .null) })
    }
}
