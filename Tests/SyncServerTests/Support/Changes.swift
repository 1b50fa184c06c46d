import SyncCore

@testable import SyncServer

extension TestServer {
    /// A change as the wire carries it.
    func change(
        _ key: String, _ sequence: Int64, _ operation: String, _ entity: String, _ id: String,
        _ fields: [String: FieldValue] = [:], at offset: Int64 = 0, _ more: [String: FieldValue] = [:]
    ) -> FieldValue {
        var change: [String: FieldValue] = [
            "changeID": .string(key), "sequence": .int(sequence), "entity": .string(entity), "id": .string(id),
            "operation": .string(operation), "schemaVersion": 1, "stamp": .string(stamp(offset)),
        ]
        if operation != "delete" { change["fields"] = .object(fields) }
        change.merge(more) { $1 }
        return .object(change)
    }

    func create(
        _ key: String, _ sequence: Int64, _ entity: String, _ id: String, _ values: [String: FieldValue] = [:],
        at offset: Int64 = 0, _ more: [String: FieldValue] = [:]
    ) -> FieldValue {
        change(key, sequence, "create", entity, id, values.mapValues { ["new": $0] }, at: offset, more)
    }

    /// `values` maps a field to its value before and after.
    func update(
        _ key: String, _ sequence: Int64, _ entity: String, _ id: String, _ values: [String: (FieldValue, FieldValue)],
        rule: String? = nil, at offset: Int64 = 0, _ more: [String: FieldValue] = [:]
    ) -> FieldValue {
        let fields = values.mapValues { old, new -> FieldValue in
            var field: [String: FieldValue] = ["old": old, "new": new]
            if let rule { field["rule"] = .string(rule) }
            return .object(field)
        }
        return change(key, sequence, "update", entity, id, fields, at: offset, more)
    }

    func delete(
        _ key: String, _ sequence: Int64, _ entity: String, _ id: String, at offset: Int64 = 0,
        _ more: [String: FieldValue] = [:]
    ) -> FieldValue {
        change(key, sequence, "delete", entity, id, at: offset, more)
    }
}
