import GRDB
import SyncCore

/// What goes with a change that is given up, and what needed it and stays, since its record has moved away from there.
///
/// A card that was made in a list, and is in another by now, needs that list's create only for the place where it was made
/// (Decision 171). What refers to the list, and is not under it, needs it only as long as it may come (Decision 250). Members of
/// a unit go together, wherever their records are by now.
struct Parting {
    /// In the queue's order; the change itself is among them.
    var going: [StoredChange]
    /// The others that needed something of it.
    var staying: [StoredChange]
    /// The records whose creates go.
    var gone: Set<RecordKey>

    /// - Parameters:
    ///   - withUnits: whether what stands in a unit with one of them goes, too.
    ///   - graph: the queue as it stands, where it was read for many questions.
    init(
        _ db: Database, of change: StoredChange, _ schema: Schema, withUnits: Bool = true, in graph: NeedGraph? = nil
    ) throws {
        let all = try Dependants(schema: schema, graph: graph).closure(db, of: change, withUnits: withUnits)
        var shown: [RecordKey: [RecordKey]] = [:]
        for record in Set(all.map(\.record)).sorted() { shown[record] = try Self.shownParents(db, record, schema) }
        // By their places: what goes brings others along until nothing more does.
        var going: Set<Int64> = [change.position]
        var gone: Set<RecordKey> = []
        var units: Set<String> = []
        var found = true
        while found {
            found = false
            for member in all {
                if !going.contains(member.position) {
                    let isOfUnit = member.unit.map(units.contains) ?? false
                    // A record without a row was deleted here, and says nothing of where it would be.
                    let isBelow = shown[member.record].map { !gone.isDisjoint(with: $0) } ?? true
                    guard isOfUnit || gone.contains(member.record) || isBelow else { continue }
                    going.insert(member.position)
                    found = true
                }
                if member.operation == .create, gone.insert(member.record).inserted { found = true }
                if withUnits, let unit = member.unit, units.insert(unit).inserted { found = true }
            }
        }
        self.gone = gone
        self.going = all.filter { going.contains($0.position) }
        staying = all.filter { !going.contains($0.position) }
    }

    /// Of what stays, the updates that say nothing but a parent that goes: with it they come to nothing, too.
    /// - Parameter isDecided: whether the server surely did nothing of what is given up; see ``Settling/giveUp(_:_:isDecided:)``.
    func emptied(_ schema: Schema, isDecided: Bool) -> [StoredChange] {
        staying.filter { change in
            guard change.operation == .update, isDecided || !change.wasSent else { return false }
            let names = schema.parents(of: change).filter { gone.contains($0.record) }.map(\.field)
            return !names.isEmpty && Set(names) == Set(change.fields.keys)
        }
    }

    /// In a restored copy the device before may have had done what goes, by a try that nobody here knows of: the user's deletes of
    /// what it made are for the server to hear (Decision 175, seed 2295).
    /// - Parameter record: whose delete goes all the same.
    mutating func keepDeletes(but record: RecordKey?) {
        let made = Set(going.lazy.filter { $0.operation == .create && $0.device != nil }.map(\.record))
        going.removeAll { $0.operation == .delete && $0.record != record && made.contains($0.record) }
    }

    /// What was written behind a delete is not of what that ends: its row may have stayed for another one under it, which is here for good,
    /// and shows on (seed 3240016 with `--drafts --bias histories`). But what was made under it before ends with all that was written of that.
    mutating func leave(behind delete: StoredChange) {
        var ending = Set(going.lazy.filter { $0.operation == .create && $0.position < delete.position }.map(\.record))
        ending.remove(delete.record)
        going.removeAll { $0.position > delete.position && !ending.contains($0.record) }
        staying.removeAll { $0.position > delete.position }
    }

    /// The same where only some of what goes is taken out of the queue.
    func only(_ changes: [StoredChange]) -> Parting {
        var parting = self
        parting.going = changes
        parting.gone = Set(changes.lazy.filter { $0.operation == .create }.map(\.record))
        return parting
    }

    /// The parents that a record's row names; `nil` where it has no row.
    private static func shownParents(_ db: Database, _ record: RecordKey, _ schema: Schema) throws -> [RecordKey]? {
        guard let entity = schema[record.entity], let row = try RowWriter(entity).read(db, record.id) else {
            return nil
        }
        return entity.parents(in: row)
    }
}

extension Settling {
    /// Takes the changes out that go (``takeBack(_:_:)``), and lets those that stay go on without them. What is left nothing of
    /// (``Parting/emptied(_:isDecided:)``) goes, too: it is the caller's to tell of it as of what goes.
    /// - Parameter isDecided: whether the server surely did nothing of what was given up. Else what was sent over it stays as
    ///   it was sent: it may have happened, and only its own key tells.
    mutating func giveUp(_ db: Database, _ parting: Parting, isDecided: Bool) throws {
        for change in parting.staying { try moveAway(db, change, from: parting.gone, isDecided: isDecided) }
        try takeBack(db, parting.going, isDecided: isDecided)
    }

    /// The change goes on, without the records that are given up: a successor, where it names one of them as its parent. What
    /// it merely refers to may be gone, as it may be once both are on the server: it says on what the row says.
    private mutating func moveAway(
        _ db: Database, _ change: StoredChange, from gone: Set<RecordKey>, isDecided: Bool
    ) throws {
        try ChangeRows.release(db, behind: change)
        let names = table.schema.parents(of: change).filter { gone.contains($0.record) }.map(\.field)
        let undone = try ChangeRows.undone(db, by: change)
        guard !names.isEmpty, isDecided || !change.wasSent, var work = try takeWork(db, change.record) else {
            // The next claim says whether it waits for anything else.
            guard change.blockedBy != nil, undone == nil else { return }
            return try ChangeRows.setState(db, position: change.position, change.wasSent ? .uncertain : .pending)
        }
        defer { works[change.record] = work }
        var next = try successor(db, of: change)
        // An inverse that waits is known by its key, under which nothing was sent.
        if let undone {
            (next.sequence, next.key) = (change.sequence, change.key)
            (next.state, next.blockedBy) = (.blocked, undone)
        }
        if change.operation == .create {
            for name in names { next.fields[name]?.new = work.shown.fields[name] ?? .null }
            if let later = try Needs(schema: table.schema).createBehind(db, of: next) {
                // Divided or not, it waits for that create.
                _ = try UnitCircle(schema: table.schema, now: now).open(db, between: change, and: later)
                (next.state, next.blockedBy) = (.blocked, later)
            }
            work.replace(change.key, with: next)
        } else {
            for name in names { next.fields[name] = nil }
            work.takeOut(change.key)
            guard !next.fields.isEmpty else {
                try drop(db, change)
                try ChangeRows.release(db, blockedBy: change.key)
                return
            }
            work.insert(next)
        }
        try ChangeRows.replace(db, next)
        try ChangeRows.hand(db, blockedBy: change.key, to: next.key)
        try ChangeNotes.event(db, "mended", of: next, detail: change.key, now: now)
    }
}

extension Schema {
    /// Those of ``references(of:)`` that are the record's parents.
    func parents(of change: StoredChange) -> [(field: String, record: RecordKey)] {
        let parents = Set(self[change.record.entity]?.parents.map(\.name) ?? [])
        return references(of: change).filter { parents.contains($0.field) }
    }

    /// The records that a change's new values name, and by which field.
    func references(of change: StoredChange) -> [(field: String, record: RecordKey)] {
        guard change.operation != .delete, let entity = self[change.record.entity] else { return [] }
        return entity.fields.compactMap { field in
            guard let target = field.reference?.entity, case .string(let id)? = change.fields[field.name]?.new else {
                return nil
            }
            return (field.name, RecordKey(target, id))
        }
    }
}
