import GRDB
public import SyncCore

extension Store {
    /// Puts what a handler found into the queue, all of it or nothing.
    ///
    /// A handler finds a change again until it hears that it was decided: one that the queue has already is left out.
    /// - Returns: how many entries were made.
    /// - Throws: ``StoreFailure``, as ``record(_:intent:)``.
    @discardableResult
    public func recordNew(_ found: [FoundChange]) throws(StoreFailure) -> Int {
        let now = now
        return try perform("recording what a handler found") { db in
            var count = 0
            for change in found where try !Self.isQueued(db, change, schema) {
                try FoundChanges.add(db, change, schema, now: now)
                count += 1
            }
            return count
        }
    }

    /// Whether the last entry of the record says the same.
    private static func isQueued(_ db: Database, _ found: FoundChange, _ schema: Schema) throws -> Bool {
        let sql = "SELECT operation, fields FROM sync_change WHERE entity = ? AND id = ? ORDER BY position DESC LIMIT 1"
        let statement = try db.cachedStatement(sql: sql)
        guard let row = try Row.fetchOne(statement, arguments: [found.record.entity, found.record.id]) else {
            return false
        }
        let operation: Int = row[0]
        if found.operation == .delete { return operation == Operation.delete.number }
        guard operation != Operation.delete.number else { return false }
        let queued = try DeltaCodec.deltas(row[1], of: schema[found.record.entity])
        return found.fields.allSatisfy { name, delta in
            guard let new = queued[name]?.new else { return false }
            return new.isSame(as: delta.new)
        }
    }
}
