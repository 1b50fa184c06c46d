import GRDB
import SyncCore

/// What would go with a change: what needs its record's create, and the members of its unit.
struct Dependants {
    let schema: Schema

    /// The change with everything that needs it, in the queue's order.
    /// - Parameter withUnits: whether what stands in a unit with one of them goes, too.
    func closure(_ db: Database, of change: StoredChange, withUnits: Bool = true) throws -> [StoredChange] {
        var found: [Int64: StoredChange] = [change.position: change]
        var open = [change]
        while let next = open.popLast() {
            var more: [StoredChange] = []
            if withUnits, let unit = next.unit { more += try members(db, of: unit, around: next.position) }
            if next.operation == .create { more += try needing(db, next) }
            for other in more where found[other.position] == nil {
                found[other.position] = other
                open.append(other)
            }
        }
        return found.values.sorted { $0.position < $1.position }
    }

    /// What needs a record's create: the later changes of the record, and what refers to it.
    private func needing(_ db: Database, _ create: StoredChange) throws -> [StoredChange] {
        let needs = Needs(schema: schema)
        let following: [Int64]
        if schema.isReferred(to: create.record.entity) {
            following = try needs.following(
                db, create.position, among: [create.record: create.key], withBlocked: true
            ).map(\.position)
        } else {
            let sql = """
                SELECT position FROM sync_change
                WHERE entity = ? AND id = ? AND position > ? AND state <> 4 ORDER BY position
                """
            following = try Int64.fetchAll(
                db.cachedStatement(sql: sql),
                arguments: [create.record.entity, create.record.id, create.position])
        }
        return try following.compactMap { try ChangeRows.read(db, position: $0, schema) }
    }

    /// The members of a unit; they were written in one transaction, so they stand together.
    func members(_ db: Database, of unit: String, around position: Int64) throws -> [StoredChange] {
        var members: [StoredChange] = []
        let before = "SELECT \(StoredChange.columns) FROM sync_change WHERE position <= ? ORDER BY position DESC"
        let after = "SELECT \(StoredChange.columns) FROM sync_change WHERE position > ? ORDER BY position"
        for sql in [before, after] {
            let rows = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: [position])
            while let row = try rows.next(), row["unit"] as String? == unit {
                members.append(StoredChange(lenient: row, schema))
            }
        }
        return members.sorted { $0.position < $1.position }
    }
}

extension Schema {
    /// Whether a declared field of any entity holds ids of this one.
    func isReferred(to entity: String) -> Bool {
        entities.contains { $0.fields.contains { $0.reference?.entity == entity } }
    }
}
