import GRDB
import SyncCore

/// Units that would wait for themselves ([Decision 473](../../../Docs/Decisions/0473-a-unit-that-waits-for-itself-is-divided.md)).
///
/// A successor keeps its place, and may name what was made behind it, in a unit: it waits for that one's create. Where a member
/// of that unit needs the successor in its turn, neither would ever go.
struct UnitCircle {
    let schema: Schema
    let now: Int64

    /// Divides the units by which a create would wait for the change that waits for it; its members then go one by one, in
    /// their order. What was sent as a unit stays one.
    /// - Parameter create: the key of the create.
    /// - Returns: whether any was divided.
    func open(_ db: Database, between change: StoredChange, and create: String) throws -> Bool {
        guard try !waiting(db, for: change, withUnits: false).contains(where: { $0.key == create }) else {
            return false
        }
        var isDivided = false
        while true {
            let waiting = try waiting(db, for: change, withUnits: true)
            guard let own = waiting.first(where: { $0.key == create }) else { return isDivided }
            // It may be in none, and need something of one.
            let units = own.unit.map { [$0] } ?? Set(waiting.compactMap(\.unit)).sorted()
            let free = try units.filter { try !isSent(db, $0) }
            guard !free.isEmpty else { return isDivided }
            for unit in free {
                try db.cachedStatement(sql: "UPDATE sync_change SET \"unit\" = NULL WHERE \"unit\" = ?")
                    .execute(arguments: [unit])
                try ChangeNotes.event(db, "unitDivided", of: own, detail: unit, now: now)
            }
            isDivided = true
        }
    }

    /// What cannot go before the change.
    private func waiting(_ db: Database, for change: StoredChange, withUnits: Bool) throws -> [StoredChange] {
        let dependants = Dependants(schema: schema)
        if change.operation == .create { return try dependants.closure(db, of: change, withUnits: withUnits) }
        let sql = """
            SELECT position FROM sync_change WHERE entity = ? AND id = ? AND position > ? AND state <> 4 ORDER BY position
            """
        let later = try Int64.fetchAll(
            db.cachedStatement(sql: sql), arguments: [change.record.entity, change.record.id, change.position])
        return try later.flatMap { position in
            try ChangeRows.read(db, position: position, schema).map {
                try dependants.closure(db, of: $0, withUnits: withUnits)
            } ?? []
        }
    }

    private func isSent(_ db: Database, _ unit: String) throws -> Bool {
        let sql = "SELECT 1 FROM sync_change WHERE \"unit\" = ? AND state IN (1, 2, 5) LIMIT 1"
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [unit]) != nil
    }
}
