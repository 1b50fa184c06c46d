package import GRDB
public import SyncCore

extension Store: StateLog {
    public func counts(for record: RecordKey?) throws(StoreFailure) -> StateCounts {
        try collectIfDirty()
        return try look("counting states") { db in
            guard let record else {
                let summary = try context.changes.summary(db)
                return StateCounts(
                    failed: summary.failed, uploading: summary.inFlight, waiting: summary.pending + summary.blocked)
            }
            return try Self.counts(db, under: record, schema)
        }
    }

    /// The same of a record as a database says it.
    package static func counts(_ db: Database, under record: RecordKey, _ schema: Schema) throws -> StateCounts {
        try StateWalk(db, schema).counts(under: record)
    }

    public nonisolated func stateChanges() -> AsyncStream<Void> { stateSpeakers.stream() }
}

/// Counts the changes of a record and of all that is under it, by the parents of what waits.
///
/// The queue is short where the tables are long: ancestors are looked up when somebody asks, and not kept for each change.
private final class StateWalk {
    private let db: Database
    private let schema: Schema
    /// Whether a record is the one asked for, or under it.
    private var known: [RecordKey: Bool] = [:]

    init(_ db: Database, _ schema: Schema) {
        self.db = db
        self.schema = schema
    }

    func counts(under record: RecordKey) throws -> StateCounts {
        known[record] = true
        var counts = StateCounts()
        let sql = """
            SELECT entity, id, state, CASE operation WHEN 2 THEN fields END FROM sync_change ORDER BY position DESC
            """
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql))
        while let row = try rows.next() {
            let key = RecordKey(row[0], row[1])
            guard try isUnder(key, deleted: row[3]) else { continue }
            switch StoredChange.State(rawValue: row[2]) {
            case .failed: counts.failed += 1
            case .uploading, .uncertain: counts.uploading += 1
            case .pending, .blocked, .blockedAfterSending, nil: counts.waiting += 1
            }
        }
        return counts
    }

    /// - Parameter deleted: the fields that the delete of the record keeps; its row is gone.
    private func isUnder(_ key: RecordKey, deleted: String?) throws -> Bool {
        if let answer = known[key] { return answer }
        var from: [RecordKey: RecordKey] = [:]
        // Each place once: parents may stand in a circle.
        var seen: Set<RecordKey> = [key]
        var open = [key]
        while let place = open.popLast() {
            switch known[place] {
            case true?:
                var step: RecordKey? = place
                while let each = step {
                    known[each] = true
                    step = from[each]
                }
                return true
            case false?: continue
            case nil:
                for parent in try parents(of: place, deleted: place == key ? deleted : nil)
                where seen.insert(parent).inserted {
                    from[parent] = place
                    open.append(parent)
                }
            }
        }
        // All that is above them was looked at; before that nothing is known of one in a circle (seed 29605).
        for place in seen { known[place] = false }  // any order
        return false
    }

    private func parents(of key: RecordKey, deleted: String?) throws -> [RecordKey] {
        guard let entity = schema[key.entity] else { return [] }
        let fields = try parents(of: key, entity, deleted: deleted)
        return entity.parents(in: fields)
    }

    private func parents(
        of key: RecordKey, _ entity: EntitySchema, deleted: String?
    ) throws -> [String: FieldValue] {
        guard !entity.parents.isEmpty else { return [:] }
        let columns = entity.parents.map { RowWriter.quoted($0.column) }.joined(separator: ", ")
        let sql = """
            SELECT \(columns) FROM \(RowWriter.quoted(entity.table)) WHERE \(RowWriter.quoted(entity.keyColumn)) = ?
            """
        if let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [key.id]) {
            var fields: [String: FieldValue] = [:]
            for (index, field) in entity.parents.enumerated() {
                fields[field.name] = (row[index] as String?).map(FieldValue.string)
            }
            return fields
        }
        if let deleted { return try DeltaCodec.deltas(deleted, of: entity).compactMapValues(\.old) }
        return try deletedParents(of: key, entity)
    }

    /// A parent that was deleted here, too: its delete waits as well, or the server's word is kept.
    private func deletedParents(of key: RecordKey, _ entity: EntitySchema) throws -> [String: FieldValue] {
        let sql = """
            SELECT fields FROM sync_change WHERE entity = ? AND id = ? AND operation = 2 ORDER BY position DESC LIMIT 1
            """
        guard
            let fields = try String.fetchOne(db.cachedStatement(sql: sql), arguments: [key.entity, key.id])
        else { return [:] }
        return try DeltaCodec.deltas(fields, of: entity).compactMapValues(\.old)
    }
}
