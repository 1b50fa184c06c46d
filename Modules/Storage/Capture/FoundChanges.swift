public import GRDB
public import SyncCore

/// Entries of the change log that no trigger made: what a handler found, what the app hands over, what triggers missed.
enum FoundChanges {
    /// Adds an entry with the next sequence, stamp and key; one that says nothing, or is about a row that stays here, is left out.
    static func add(
        _ db: Database, _ found: FoundChange, _ schema: Schema, now: Int64, unit: String? = nil,
        intent: String? = nil
    ) throws {
        guard let entity = schema[found.record.entity] else {
            throw StoreFailure(kind: .invalid, message: "“\(found.record.entity)” is not declared.")
        }
        guard RecordKey.isValidID(found.record.id) else {
            throw StoreFailure(
                kind: .invalid, message: "“\(found.record.id)” is no id that a server takes.")
        }
        if found.operation == .update, found.fields.isEmpty { return }
        guard try Drafts.kind(db, of: found.record) != .local else { return }
        let sequence = try ChangeRows.nextSequence(db)
        var fields = found.fields
        for name in fields.keys where fields[name]?.rule == .lastWriter {
            fields[name]?.rule = entity.field(name)?.rule ?? .lastWriter
        }
        if let deep = fields.inByteOrder.first(where: { WireDepth.isExceeded(by: $0.value.new) }) {
            throw StoreFailure(
                kind: .invalid,
                message: "\(found.record.entity).\(deep.key) is nested deeper than \(WireDepth.value) levels")
        }
        let json: String
        do {
            json = try DeltaCodec.json(fields, operation: found.operation)
        } catch {
            throw StoreFailure(
                kind: .invalid, message: "A value of \(found.record) has no form on the wire: \(error)")
        }
        let stamp = try ChangeRows.nextStamp(db, now: now)
        let sql = """
            INSERT INTO sync_change
              (position, sequence, key, entity, id, operation, schema, stamp, madeAt, fields, "unit", intent, "offset", seen)
            SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "offset", seen FROM sync_clock WHERE one = 1
            """
        try db.cachedStatement(sql: sql).execute(arguments: [
            sequence, sequence, try Clock.key(db), found.record.entity, found.record.id,
            found.operation.number,
            entity.version, Int64(bitPattern: stamp.packed), now, json, unit, intent,
        ])
        try ChangeRows.count(db, 1)
    }

    /// The last event, before a write of which the app says what changes it makes.
    static func lastEvent(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(number) FROM sync_event")) ?? 0
    }

    /// Writes of records whose changes are handed over have passed nobody by.
    static func isHandedOver(_ db: Database, _ records: Set<RecordKey>, after last: Int64) throws {
        let told = try db.cachedStatement(
            sql: "DELETE FROM sync_event WHERE number > ? AND kind = 'passedBy' AND entity = ? AND id = ?")
        for record in records.sorted() { try told.execute(arguments: [last, record.entity, record.id]) }
    }

    /// Rows that nobody recorded when there was no trigger: each becomes a create (an app that begins to sync, or a
    /// trigger that somebody dropped). What was updated or deleted meanwhile cannot be seen.
    static func addMissed(_ db: Database, _ entity: EntitySchema, _ schema: Schema, now: Int64) throws {
        let key = RowWriter.quoted(entity.keyColumn)
        let sql = """
            SELECT \(key) FROM \(RowWriter.quoted(entity.table)) AS present
            WHERE NOT EXISTS (SELECT 1 FROM sync_record WHERE entity = ?1 AND id = present.\(key))
            AND NOT EXISTS (SELECT 1 FROM sync_change WHERE entity = ?1 AND id = present.\(key))
            AND NOT EXISTS (SELECT 1 FROM sync_draft WHERE entity = ?1 AND id = present.\(key) AND kind = 2)
            ORDER BY present.rowid
            """
        let writer = RowWriter(entity)
        for id in try String.fetchAll(db, sql: sql, arguments: [entity.name]) {
            guard let fields = try writer.read(db, id) else { continue }
            let found = FoundChange.create(RecordKey(entity.name, id), fields)
            try add(db, found, schema, now: now)
            if entity.capture == .dirtyFlag { try DirtyFlags.noteCollected(db, entity, id, 0) }
            try Journal.event(db, .missedChange, found.record, at: now)
        }
    }
}

extension Store {
    /// Writes rows and hands over what the app itself computed of it, in one transaction: for entities that are declared
    /// with `capture: .explicit`. Whatever else `body` writes is noticed as it always is.
    ///
    /// Each change that `body` hands over is in the queue at once, in that order, with the next sequence, stamp and key. What a change
    /// was worked out from is best read in `body` itself: what was read before may have been replaced by the server's since. A row that
    /// it writes and says nothing of passes by the queue, as any other plain write does, and is reported (`passedBy`).
    /// - Parameters:
    ///   - unit: the changes stand together on the server, too: all or none; at most 100 of them and 1 MiB.
    ///   - intent: the app's name for what the user did.
    /// - Throws: ``StoreFailure``, as ``record(_:intent:)``; an error of `body` comes as one. Nothing is left behind then.
    public func write<T: Sendable>(
        unit: Bool = false, intent: String? = nil,
        _ body: @Sendable (Database, _ record: (FoundChange) throws -> Void) throws -> T
    ) throws(StoreFailure) -> T {
        let now = now
        return try perform("writing") { db in
            try Self.marked(db, unit: unit, intent: intent) { name in
                let last = try FoundChanges.lastEvent(db)
                var records: Set<RecordKey> = []
                let result = try body(db) { change in
                    try FoundChanges.add(db, change, schema, now: now, unit: name, intent: intent)
                    records.insert(change.record)
                }
                try FoundChanges.isHandedOver(db, records, after: last)
                return result
            }
        }
    }

    /// Puts changes into the queue that no trigger saw: what a handler found, or an app that computes its own deltas.
    ///
    /// All of them stand or none; each gets the next sequence, stamp and key. The rows are the caller's business.
    /// - Throws: ``StoreFailure`` (`invalid`) for an entity that is not declared, an id or a value that has no form on
    ///   the wire.
    public func record(_ found: [FoundChange], intent: String? = nil) throws(StoreFailure) {
        let now = now
        try perform("recording changes") { db in
            for change in found { try FoundChanges.add(db, change, schema, now: now, intent: intent) }
        }
    }
}
