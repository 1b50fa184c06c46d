internal import SyncCore

/// A record as REST shows it: its fields beside `id`, `version` and, where it is kept, `dateLastActivity`.
struct FlatRecord {
    var key: RecordKey
    var version: Int64
    var isDead: Bool
    /// Milliseconds; `nil` for entities without it.
    var activity: Int64?
    /// A JSON object.
    var fields: String

    /// Writes the record, or the fields asked for; `id` is always there.
    func write(only wanted: [String]?, into writer: inout JSONWriter) throws {
        writer.beginObject()
        writer.key("id")
        writer.string(key.id)
        if wanted?.contains("version") ?? true {
            writer.key("version")
            writer.int(version)
        }
        if isDead {
            writer.key("deleted")
            writer.bool(true)
        }
        if let activity, wanted?.contains("dateLastActivity") ?? true {
            writer.key("dateLastActivity")
            writer.string(Timestamp.text(activity))
        }
        if !isDead { try fields(only: wanted, into: &writer) }
        writer.endObject()
    }

    private func fields(only wanted: [String]?, into writer: inout JSONWriter) throws {
        guard let wanted else {
            let inside = fields.utf8.dropFirst().dropLast()
            if !inside.isEmpty { writer.raw(inside) }
            return
        }
        var reader = JSONReader(fields, maximumDepth: 128)
        try reader.beginObject()
        while let name = try reader.nextKey() {
            let value = try reader.readValue()
            guard wanted.contains(name) else { continue }
            writer.key(name)
            try writer.value(value)
        }
    }
}
