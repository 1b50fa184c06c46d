import GRDB
import SyncCore

/// Writes a row as if the user did it now: it is captured as the entity's writes are, and foreign keys are checked at once.
///
/// Where triggers or flags notice what the app writes, they notice this, too; where only the app's word makes a change, nobody
/// else would say it.
struct UserWriter {
    let entity: EntitySchema
    let schema: Schema
    /// Milliseconds since 1970.
    let now: Int64

    private var writer: RowWriter { RowWriter(entity, asUser: true) }

    /// As ``RowWriter/upsert(_:_:_:)``.
    func upsert(_ db: Database, _ id: String, _ values: [String: FieldValue]) throws {
        try captured(db, id) { try writer.upsert(db, id, values) }
    }

    /// As ``RowWriter/update(_:_:_:)``.
    func update(_ db: Database, _ id: String, _ values: [String: FieldValue]) throws -> Bool {
        try captured(db, id) { try writer.update(db, id, values) }
    }

    /// As ``RowWriter/delete(_:_:)``; nothing may stand under the row.
    func delete(_ db: Database, _ id: String) throws -> Bool {
        try captured(db, id) { try writer.delete(db, id) }
    }

    private func captured<T>(_ db: Database, _ id: String, _ body: () throws -> T) throws -> T {
        guard entity.capture == .explicit else { return try body() }
        let record = RecordKey(entity.name, id)
        let (last, before) = (try FoundChanges.lastEvent(db), try writer.read(db, id))
        let result = try body()
        try FoundChanges.isHandedOver(db, [record], after: last)
        if let change = Self.change(of: record, from: before, to: try writer.read(db, id)) {
            try FoundChanges.add(db, change, schema, now: now)
        }
        return result
    }

    /// What a row became, as a change; `nil` where nothing did.
    private static func change(
        of record: RecordKey, from before: [String: FieldValue]?, to after: [String: FieldValue]?
    ) -> FoundChange? {
        switch (before, after) {
        case (nil, nil): nil
        case (nil, let row?): .create(record, row)
        case (let row?, nil): .delete(record, row)
        // One that names nothing is left out.
        case (let old?, let new?): .update(record, from: old, to: new)
        }
    }
}
