import GRDB
import SyncCore

/// Brings the app's rows to what they are to show, after verdicts or repairs moved bases and took changes away.
///
/// Rows that come or stay go first, parents before children; rows that go follow, children first. Each is written
/// within a savepoint: what the app's tables do not take is held, with its reason, and the rest stands.
struct RowsAtRest {
    let table: ChangeTable

    /// - Returns: the records whose rows changed, in the order written.
    func write(_ db: Database, _ works: [RecordWork]) throws -> [RecordKey] {
        guard !works.isEmpty else { return [] }
        let ranks = Dictionary(uniqueKeysWithValues: table.schema.entities.enumerated().map { ($1.name, $0) })
        let ordered = works.sorted { ranks[$0.record.entity, default: 0] < ranks[$1.record.entity, default: 0] }
        let hasHeld = try !HeldRecords.isEmpty(db)
        let atWork = Dictionary(uniqueKeysWithValues: works.map { ($0.record, $0) })
        var touched: [RecordKey] = []
        var open = ordered.filter(\.shown.isLive)
        while !open.isEmpty {
            // A record may have another of its own entity as its parent: what waits for one is tried again after it.
            var waiting: [RecordWork] = []
            for work in open {
                if try missingParent(db, of: work) != nil {
                    waiting.append(work)
                } else {
                    guard let hasChanged = try attempt(db, work, { try work.writeRow($0) }) else { continue }
                    if hasChanged { touched.append(work.record) }
                    if hasHeld { try forgetTaken(db, work) }
                }
            }
            if waiting.count == open.count {
                // A dead record that only an edit shows waits for that edit, not for the parent that the edit names.
                for work in waiting {
                    let reason: ChangeTable.HoldReason = try isStray(db, work) ? .strayed : .missingParent
                    try hold(db, work, work.base.isLive ? reason : .unsentUnder)
                    if work.isTaken, work.changes.isEmpty { try hide(db, work, atWork, &touched) }
                }
                break
            }
            open = waiting
        }
        for work in ordered.reversed() where !work.shown.isLive && work.row != nil {
            try remove(db, work, atWork, &touched)
        }
        if hasHeld { for work in ordered where work.isOver { try forgetOlder(db, work) } }
        return touched
    }

    /// What the row shows by now was taken from what was held, or is newer: that waits for nothing any more (seed 10769).
    private func forgetTaken(_ db: Database, _ work: RecordWork) throws {
        if work.stored != nil {
            // A word of no version, that the record is not there, is over with the verdict that made it; until then it takes
            // away what another history does not have (seed 58).
            guard let held = try HeldRecords.find(db, work.record),
                held.presence == .live || (held.version == 0 && work.version > 0 && work.base.isLive),
                !work.isBehind(held)
            else { return }
        } else if work.changes.isEmpty, let held = try HeldRecords.find(db, work.record), held.presence == .deleted {
            // Nobody knows how its create was decided, and a delete of it was taken back: it goes unless a page brings it (seed 2400 with
            // `--server-ids --roots`).
            return
        }
        try HeldRecords.forget(db, work.record)
    }

    /// A verdict said that the record is dead, and no page brings a tombstone of it here: what was held of it before waits for
    /// nothing any more (seed 1557).
    private func forgetOlder(_ db: Database, _ work: RecordWork) throws {
        guard let held = try HeldRecords.version(db, work.record), held <= work.version,
            try !RowWriter(work.entity).exists(db, work.record.id)
        else { return }
        try HeldRecords.forget(db, work.record)
    }

    /// Writes a row, or holds the record.
    /// - Returns: whether the row changed; `nil` where the record is held.
    private func attempt(
        _ db: Database, _ work: RecordWork, _ write: (Database) throws -> Bool
    ) throws -> Bool? {
        var changed: Bool?
        do {
            try db.inSavepoint {
                changed = try write(db)
                return .commit
            }
        } catch let error as ValueMismatch {
            try hold(db, work, .broken(error.description))
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            try hold(db, work, .broken(error.message ?? error.description))
        }
        return changed
    }

    /// Whether the record stands under one of which nothing is known on a device that holds chosen roots: that one left, and
    /// the record was made or changed here; or it was moved there, and no page says so where it had come to no root of this
    /// device's.
    private func isStray(_ db: Database, _ work: RecordWork) throws -> Bool {
        guard let parent = try missingParent(db, of: work), try Scopes.read(db) != nil else {
            return false
        }
        let known = """
            SELECT 1 FROM sync_record WHERE entity = ?1 AND id = ?2
            UNION ALL SELECT 1 FROM sync_change WHERE entity = ?1 AND id = ?2
            UNION ALL SELECT 1 FROM sync_held WHERE entity = ?1 AND id = ?2 LIMIT 1
            """
        return try Row.fetchOne(db.cachedStatement(sql: known), arguments: [parent.entity, parent.id]) == nil
    }

    /// A declared parent whose row is not there: its child's row would break the app's foreign key at the commit.
    func missingParent(_ db: Database, of work: RecordWork) throws -> RecordKey? {
        let fields = work.shown.fields
        for field in work.entity.parents {
            guard let target = field.reference?.entity, let parent = table.schema[target],
                case .string(let id)? = fields[field.name]
            else { continue }
            if try !RowWriter(parent).exists(db, id) { return RecordKey(target, id) }
        }
        return nil
    }

    /// Takes a row away with what is under it, unless something there has unsent changes.
    private func remove(
        _ db: Database, _ work: RecordWork, _ atWork: [RecordKey: RecordWork], _ touched: inout [RecordKey]
    ) throws {
        let family = Family(schema: table.schema)
        guard try !family.hasUnsent(db, under: work.record) else {
            // The row stays for them, and shows nothing that was taken back (seed 50668).
            if try missingParent(db, of: work) == nil, try attempt(db, work, { try work.writeKeptRow($0) }) == true {
                touched.append(work.record)
            }
            return try hold(db, work, .unsentUnder)
        }
        let below = try family.known(db, under: work.record, atWork: atWork)
        try RowWriter.applying(db) { touched += try family.removeRows(db, under: work.record) }
        if try work.writeRow(db) { touched.append(work.record) }
        // Nobody said that these are dead: each waits for its own tombstone, or for its parent to come back.
        for record in below { try table.hold(db, record, .missingParent) }
    }

    /// The create that the row shows was given up, and the server's record of that id does not show before its parent is here.
    private func hide(
        _ db: Database, _ work: RecordWork, _ atWork: [RecordKey: RecordWork], _ touched: inout [RecordKey]
    ) throws {
        let family = Family(schema: table.schema)
        guard try !family.hasUnsent(db, under: work.record) else { return }
        let below = try family.known(db, under: work.record, atWork: atWork)
        try RowWriter.applying(db) {
            touched += try family.removeRows(db, under: work.record)
            if try RowWriter(work.entity).delete(db, work.record.id) { touched.append(work.record) }
        }
        for record in below { try table.hold(db, record, .missingParent) }
    }

    private func hold(_ db: Database, _ work: RecordWork, _ reason: ChangeTable.HoldReason) throws {
        // What the server is known to have comes with its page, if no version of it is held yet. A record that only its unsent
        // changes make is held, too: what is in the way of its row may go, and nothing else would look for it then.
        guard work.version > 0 || !work.shown.isLive || !work.base.isLive else { return }
        // Nor does what the base was before that came take its place; that the record is not there is the last word of a pass over
        // another history (seed 81660).
        if work.base.isLive, let held = try HeldRecords.find(db, work.record) {
            if work.isBehind(held) || (held.presence == .deleted && held.version == work.version) { return }
        }
        let server = ServerRecord(
            key: work.record, version: work.version, presence: work.base.isLive ? .live : .deleted,
            fields: work.base.fields.merging(work.stored?.extra ?? [:]) { declared, _ in declared })
        try table.hold(db, server, reason)
    }
}

/// A record and everything under it, by the declared parents.
struct Family {
    let schema: Schema

    /// Whether anything under the record has changes that are not decided, or were set aside with the row showing them.
    func hasUnsent(_ db: Database, under record: RecordKey) throws -> Bool {
        var seen: Set<RecordKey> = [record]
        var open = [record]
        while let next = open.popLast() {
            for child in try children(db, of: next) where seen.insert(child).inserted {
                if try Base.hasRemaining(db, child) || Drafts.kind(db, of: child) == .local { return true }
                open.append(child)
            }
        }
        return false
    }

    /// What the server acknowledged of the records under this one, as their rows show it, parents first.
    ///
    /// What a full pass has not brought yet is none of it: it comes again, or is not there any more. Nor is what is held already: that
    /// is the server's word, and the row may still show a change that was given up (seed 2798).
    /// - Parameter atWork: of these, rows say nothing yet: the base does (seed 2600118).
    func known(
        _ db: Database, under record: RecordKey, but others: Set<RecordKey> = [],
        atWork: [RecordKey: RecordWork] = [:]
    ) throws -> [ServerRecord] {
        let below = try below(db, record)
        guard !below.isEmpty else { return [] }
        let pass = try PassState.read(db)
        let hasHeld = try !HeldRecords.isEmpty(db)
        return try below.compactMap { child in
            guard !others.contains(child), let entity = schema[child.entity],
                let stored = try StoredRecord.read(db, child), stored.version > 0, stored.base?.isLive != false,
                try !pass.isNew(db, child), try !hasHeld || HeldRecords.version(db, child) ?? 0 < stored.version,
                let fields = try atWork[child]?.base.fields ?? RowWriter(entity).read(db, child.id)
            else { return nil }
            return ServerRecord(
                key: child, version: stored.version, fields: fields.merging(stored.extra) { declared, _ in declared })
        }
    }

    /// Takes the rows under the record away, the deepest first.
    /// - Returns: the records whose rows went.
    func removeRows(_ db: Database, under record: RecordKey) throws -> [RecordKey] {
        var removed: [RecordKey] = []
        for child in try below(db, record).reversed() {
            guard let entity = schema[child.entity] else { continue }
            if try RowWriter(entity).delete(db, child.id) { removed.append(child) }
        }
        return removed
    }

    /// Every record under this one, parents first.
    private func below(_ db: Database, _ record: RecordKey) throws -> [RecordKey] {
        Array(try FamilyOrder.parentsFirst(record) { try children(db, of: $0) }.dropFirst())
    }

    /// The rows that name the record as a parent.
    func children(_ db: Database, of record: RecordKey) throws -> [RecordKey] {
        var found: [RecordKey] = []
        for (entity, field) in schema.children(of: record.entity) {
            let sql = """
                SELECT \(RowWriter.quoted(entity.keyColumn)) FROM \(RowWriter.quoted(entity.table)) \
                WHERE \(RowWriter.quoted(field.column)) = ?
                """
            found += try String.fetchAll(db.cachedStatement(sql: sql), arguments: [record.id])
                .map { RecordKey(entity.name, $0) }
        }
        return found
    }
}
