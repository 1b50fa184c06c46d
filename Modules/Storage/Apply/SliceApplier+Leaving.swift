import GRDB
import SyncCore

extension SliceApplier {
    /// A record left all roots that are asked for: what of it was never sent is set aside, and the rows may go.
    /// - Returns: why it must wait, if it must.
    func leaves(_ key: RecordKey) throws -> Taken? {
        if hasQueue {
            let family = try Removal.family(db, key, context.schema)
            if try Removal.hasLocal(db, key, context.schema) {
                return .held(.unsent, "something under it stays on this device")
            }
            // What was sent may have been done: its verdict comes to a record that is here (Decision 195).
            if try family.contains(where: { try Removal.hasUndecided(db, $0) }) {
                return .held(.unsent, "changes of it, or under it, were sent and are not decided")
            }
            for member in try withoutMovedIn(family) { try context.setAsideGone(db, member, now) }
        }
        try Journal.event(db, .gone, key, at: now)
        return nil
    }

    /// What stands under the record here by a move alone that never left the device, the server has elsewhere, and it left
    /// nothing: the move is set aside, and the row goes back, with all that is under it (Decision 235).
    /// - Parameter family: the record with all rows under it.
    /// - Returns: those that are left of them.
    private func withoutMovedIn(_ family: [RecordKey]) throws -> [RecordKey] {
        var family = family
        // Each once: what has no row to go back to, since its own parent is not here, goes with the others, and waits.
        var seen: Set<RecordKey> = [family[0]]
        while true {
            let members = Set(family)
            let moved = try family.filter { try !seen.contains($0) && isMovedIn($0, members) }
            guard !moved.isEmpty else { return family }
            for record in moved {
                seen.insert(record)
                report.touched += try context.setMovesAside(db, record, under: members, now)
            }
            hasHeld = try !HeldRecords.isEmpty(db)
            // What is under those, too, and what the user moved from there.
            family = try Removal.family(db, family[0], context.schema)
        }
    }

    /// Whether the server has the record, and under none of these.
    private func isMovedIn(_ record: RecordKey, _ members: Set<RecordKey>) throws -> Bool {
        let changes = try Base.remaining(db, of: record, context.schema)
        guard !changes.isEmpty, let table = try table(record.entity) else { return false }
        let base = Base.state(
            stored: try StoredRecord.read(db, record), changes: changes, row: try table.writer.read(db, record.id),
            entity: table.entity)
        return base.isLive && members.isDisjoint(with: table.entity.parents(in: base.fields))
    }
}

extension SliceApplier {
    /// Whether any of these stands under a record here. What a later record of the slice says to live was moved away before the one
    /// above it left, and takes along what is under it (Decision 360).
    func stand(_ living: Set<RecordKey>, under key: RecordKey) throws -> Bool {
        try Removal.family(db, key, context.schema).dropFirst().contains(where: living.contains)
    }

    /// What stands under a record that leaves, and is not said to leave itself, as the server acknowledged it.
    func acknowledged(under key: RecordKey) throws -> [ServerRecord] {
        try Removal.family(db, key, context.schema).dropFirst().compactMap { child in
            guard !dead.contains(child), let table = try table(child.entity),
                let stored = try StoredRecord.read(db, child), stored.version > 0, try !pass.isNew(db, child),
                try HeldRecords.version(db, child) ?? 0 < stored.version
            else { return nil }
            let state = Base.state(
                stored: stored, changes: try Base.remaining(db, of: child, context.schema),
                row: try table.writer.read(db, child.id), entity: table.entity)
            guard state.isLive else { return nil }
            return ServerRecord(
                key: child, version: stored.version,
                fields: state.fields.merging(stored.extra) { declared, _ in declared })
        }
    }

    /// Those of them that the server does not have under a record that leaves: a create made here of an id that the server has
    /// elsewhere shows them there (seeds 69941, 95423, 47593).
    func elsewhere(_ below: [ServerRecord], than key: RecordKey) -> [ServerRecord] {
        var going: Set<RecordKey> = [key]
        var rest = below
        while true {
            let next = rest.filter { record in
                let parents = context.schema[record.key.entity]?.parents(in: record.fields) ?? []
                return going.isDisjoint(with: parents)
            }
            guard next.count < rest.count else { return rest }
            going.formUnion(Set(rest.map(\.key)).subtracting(next.map(\.key)))
            rest = next
        }
    }

    func isHere(_ key: RecordKey) throws -> Bool { try table(key.entity)?.writer.exists(db, key.id) ?? false }
}

extension EntitySchema {
    /// The records that these fields name as parents.
    func parents(in fields: [String: FieldValue]) -> [RecordKey] {
        parents.compactMap { field in
            guard let target = field.reference?.entity, case .string(let id)? = fields[field.name] else { return nil }
            return RecordKey(target, id)
        }
    }
}
