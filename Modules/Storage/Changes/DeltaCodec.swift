import SyncCore

/// The deltas of one change ⇄ the JSON in `sync_change.fields`.
///
/// A trigger writes raw column values (``RowCodec/value(raw:of:)``); the engine writes the wire's form. Reading takes
/// both, so a change that was written by the engine once reads the same whatever becomes of the declared kinds.
enum DeltaCodec {
    /// Deltas are two levels inside the stored object, and a json field alone may use all that the contract allows.
    private static let depth = JSONReader.contractDepth + 8

    /// The deltas by field; a delete's have `old`, and for `new` `null`, or what an edit said that went into it.
    /// - Throws: `JSONFailure` for what is no such JSON.
    static func deltas(_ json: String, of entity: EntitySchema?) throws(JSONFailure) -> [String: FieldDelta] {
        var isRaw = false
        return try deltas(json, of: entity, isRaw: &isRaw)
    }

    /// The same.
    /// - Parameter isRaw: becomes true where a value is another without the declared kinds.
    static func deltas(
        _ json: String, of entity: EntitySchema?, isRaw: inout Bool
    ) throws(JSONFailure) -> [String: FieldDelta] {
        // About as many as there may be, so that it does not grow by doubling.
        var deltas: [String: FieldDelta] = [:]
        deltas.reserveCapacity(min(entity?.fields.count ?? 0, json.utf8.count / 32))
        var reader = JSONReader(json, maximumDepth: depth)
        try reader.beginObject()
        while let name = try reader.nextKey() {
            deltas[name] = try delta(&reader, of: entity?.field(name), &isRaw)
        }
        try reader.finish()
        return deltas
    }

    private static func delta(
        _ reader: inout JSONReader, of field: FieldSchema?, _ isRaw: inout Bool
    ) throws(JSONFailure) -> FieldDelta {
        var delta = FieldDelta(old: nil, new: .null)
        try reader.beginObject()
        while let member = try reader.nextKey() {
            switch member {
            case "old": delta.old = try value(&reader, of: field, &isRaw)
            case "new": delta.new = try value(&reader, of: field, &isRaw)
            case "rule": delta.rule = MergeRule(rawValue: try reader.readString()) ?? .lastWriter
            case "stamp": delta.stamp = Stamp(try reader.readString())
            default: try reader.skipValue()
            }
        }
        return delta
    }

    private static func value(
        _ reader: inout JSONReader, of field: FieldSchema?, _ isRaw: inout Bool
    ) throws(JSONFailure) -> FieldValue {
        let raw = try reader.readValue()
        guard let field, field.kind != .text, field.kind != .json else { return raw }
        let value = RowCodec.value(raw: raw, of: field)
        if value != raw { isRaw = true }
        return value
    }

    /// The stored JSON, in the wire's form of values and in the order of the names' bytes; a create leaves out what has
    /// no value, as ``FieldDelta/isLeftOut`` says.
    /// - Throws: `JSONFailure` for NaN and infinities.
    static func json(_ deltas: [String: FieldDelta], operation: Operation) throws(JSONFailure) -> String {
        var writer = JSONWriter(capacity: 64 * deltas.count)
        writer.beginObject()
        for (name, delta) in deltas.inByteOrder where operation != .create || !delta.isLeftOut {
            writer.key(name)
            writer.beginObject()
            if let old = delta.old {
                writer.key("old")
                try writer.value(old)
            }
            if operation != .delete || !delta.new.isNull {
                writer.key("new")
                try writer.value(delta.new)
            }
            if let stamp = delta.stamp {
                writer.key("stamp")
                writer.string(stamp.description)
            }
            if delta.rule != .lastWriter {
                writer.key("rule")
                writer.string(delta.rule.rawValue)
            }
            writer.endObject()
        }
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

extension FieldDelta {
    /// Whether a create need not name the field: absent and null are the same there, but for a null that was written
    /// later, and so has a stamp of its own.
    var isLeftOut: Bool { new.isNull && stamp == nil }
}
