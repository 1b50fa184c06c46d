import GRDB
import SyncCore

/// One row of `sync_record`: the server's word about a record, as far as it is kept apart from the app's row.
struct StoredRecord: Hashable {
    /// The version held.
    var version: Int64
    /// The server's state where it is not what row and unsent changes say (see ``Base``); may name some fields only.
    var base: RecordState?
    /// Fields of a newer server that are not declared here, given back untouched.
    var extra: [String: FieldValue] = [:]

    /// The row of a record, or `nil` where the server never said anything about it.
    static func read(_ db: Database, _ record: RecordKey) throws -> StoredRecord? {
        let sql = "SELECT version, base, extra FROM sync_record WHERE entity = ? AND id = ?"
        let statement = try db.cachedStatement(sql: sql)
        guard let row = try Row.fetchOne(statement, arguments: [record.entity, record.id]) else { return nil }
        var stored = StoredRecord(version: row[0])
        if let base = row[1] as String? { stored.base = try decode(base) }
        if let extra = row[2] as String?, case .object(let fields) = try FieldValue(json: extra) {
            stored.extra = fields
        }
        return stored
    }

    /// Puts the row in place of the one there is; the mark of a full pass stays.
    func write(_ db: Database, _ record: RecordKey) throws {
        let sql = """
            INSERT INTO sync_record (entity, id, version, base, extra) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT (entity, id) DO UPDATE SET version = excluded.version, base = excluded.base, extra = excluded.extra
            """
        try db.cachedStatement(sql: sql).execute(arguments: [
            record.entity, record.id, version, base.map(Self.encode),
            extra.isEmpty ? nil : FieldValue.object(extra).jsonText(),
        ])
    }

    /// Takes the row away.
    static func delete(_ db: Database, _ record: RecordKey) throws {
        try db.cachedStatement(sql: "DELETE FROM sync_record WHERE entity = ? AND id = ?")
            .execute(arguments: [record.entity, record.id])
    }

    /// `{"deleted":true,"away":true,"told":7,"death":"…","died":7,"fields":{…},"stamps":{…}}`, values in the wire's form.
    static func encode(_ state: RecordState) throws -> String {
        var writer = JSONWriter()
        writer.beginObject()
        if !state.isLive {
            writer.key("deleted")
            writer.bool(true)
        }
        if state.isAway {
            writer.key("away")
            writer.bool(true)
        }
        if state.told > 0 {
            writer.key("told")
            writer.int(state.told)
        }
        if let death = state.death {
            writer.key("death")
            writer.string(death.stamp.description)
            if death.version > 0 {
                writer.key("died")
                writer.int(death.version)
            }
        }
        writer.key("fields")
        try writer.members(state.fields)
        if !state.stamps.isEmpty {
            writer.key("stamps")
            try writer.members(state.stamps.mapValues { .string($0.description) })
        }
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    static func decode(_ json: String) throws -> RecordState {
        var reader = JSONReader(json, maximumDepth: JSONReader.contractDepth + 8)
        var state = RecordState(isLive: true, fields: [:])
        try reader.beginObject()
        while let member = try reader.nextKey() {
            switch member {
            case "deleted": state.isLive = try !reader.readBool()
            case "away": state.isAway = try reader.readBool()
            case "told": if case .int(let version) = try reader.readValue() { state.told = version }
            case "death": state.death = try Stamp(reader.readString()).map { .init(stamp: $0, version: 0) }
            case "died": if case .int(let version) = try reader.readValue() { state.death?.version = version }
            case "fields": if case .object(let fields) = try reader.readValue() { state.fields = fields }
            case "stamps":
                if case .object(let stamps) = try reader.readValue() {
                    state.stamps = stamps.compactMapValues { $0.text.flatMap { Stamp($0) } }
                }
            default: try reader.skipValue()
            }
        }
        try reader.finish()
        return state
    }
}
