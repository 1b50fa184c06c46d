import GRDB
import SyncCore

/// What would go with a change: what needs its record's create, and the members of its unit.
struct Dependants {
    let schema: Schema
    /// The queue as it stands, where it was read for many questions.
    var graph: NeedGraph?

    /// The change with everything that needs it, in the queue's order.
    /// - Parameter withUnits: whether what stands in a unit with one of them goes, too.
    func closure(_ db: Database, of change: StoredChange, withUnits: Bool = true) throws -> [StoredChange] {
        var found: [Int64: StoredChange] = [change.position: change]
        var open = [change]
        let graph = try self.graph ?? (isInFront(db, of: change) ? NeedGraph(db, schema) : nil)
        // What a look from a create before them found, with all that needs them; and the units that were looked at.
        var covered: Set<Int64> = []
        var units: Set<String> = []
        while let next = open.popLast() {
            if withUnits, let unit = next.unit, units.insert(unit).inserted {
                for member in try members(db, of: unit, around: next.position) where found[member.position] == nil {
                    found[member.position] = member
                    open.append(member)
                }
            }
            guard next.operation == .create, !covered.contains(next.position) else { continue }
            for position in try positions(db, needing: next, in: graph) where covered.insert(position).inserted {
                guard found[position] == nil, let other = try ChangeRows.read(db, position: position, schema) else {
                    continue
                }
                found[position] = other
                open.append(other)
            }
        }
        return found.values.sorted { $0.position < $1.position }
    }

    /// Where that stands which needs a record's create: the later changes of the record, what refers to it, and what needs
    /// one of these; up to another create of the record, with which it begins anew.
    private func positions(
        _ db: Database, needing create: StoredChange, in graph: NeedGraph?
    ) throws -> [Int64] {
        if schema.isReferred(to: create.record.entity) {
            if let graph { return graph.positions(needing: create) }
            return try Needs(schema: schema).following(
                db, create.position, among: [create.record: create.key], withBlocked: true
            ).map(\.position)
        }
        let sql = """
            SELECT position FROM sync_change
            WHERE entity = ?1 AND id = ?2 AND position > ?3 AND state <> 4 AND position < coalesce(
              (SELECT min(position) FROM sync_change WHERE entity = ?1 AND id = ?2 AND position > ?3 AND operation = 0),
              9223372036854775807)
            ORDER BY position
            """
        return try Int64.fetchAll(
            db.cachedStatement(sql: sql), arguments: [create.record.entity, create.record.id, create.position])
    }

    /// Whether anything that was written anew may stand in front of what it names (``NeedGraph``), the change or what came after it.
    private func isInFront(_ db: Database, of change: StoredChange) throws -> Bool {
        let sql = """
            SELECT 1 FROM sync_change WHERE sequence <> position AND sequence > ? AND operation <> 2 AND state <> 4 LIMIT 1
            """
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [change.position]) != nil
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
