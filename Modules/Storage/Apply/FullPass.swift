import GRDB
import SyncCore

/// A full pass into the live database (PROTOCOL.md, *Another history*).
///
/// Each record that it brings is marked with the pass's number; at the end, rows that are in step and not marked go,
/// but never more than the threshold without the app's word, and journalled first where history was replaced.
enum FullPass {
    /// More than this part of the rows in step goes only with the app's word.
    static let threshold = 0.2

    /// Begins a pass, over a history that replaced the one here where an epoch is given. One over that very history, or over the same as
    /// before, begins anew where it runs, wherever it has got to: who asks for it was told that what is here cannot
    /// be gone on from, and the next request from there would be told the same again (decisions 241, 255 and 472).
    static func begin(_ db: Database, epoch: String?, now: Int64) throws {
        let state = try PassState.read(db)
        let known = try Meta.text(db, .epoch)
        // Also under the name of the old one: a backup that was put back without a new epoch, which the checkpoint above it gave away.
        let isNewEpoch = epoch != nil && (epoch != known || !state.isOfNewEpoch)
        if state.isRunning, !isNewEpoch {
            try beginAgain(db, now: now)
            return try Scopes.restart(db)
        }
        let number = state.number + 1
        try Meta.set(db, .pass, number)
        try Meta.set(db, .passRuns, 1)
        try Meta.set(db, .passFrom, Meta.integer(db, .highest))
        try Meta.set(db, .passAwaits, 0)
        try Meta.set(db, .checkpoint, 0)
        try Meta.set(db, .openFrom, nil as Int64?)
        try noteBeginning(db, now: now)
        try Scopes.restart(db)
        // A pass that another one replaces has removed nothing: what was in step before it still counts.
        let rows = state.isRunning ? try Meta.integer(db, .passRows) ?? 0 : try inStep(db)
        try Meta.set(db, .passRows, rows)
        if isNewEpoch, let epoch {
            try Meta.set(db, .epoch, epoch)
            try Meta.set(db, .epochPass, number)
            try db.execute(sql: "UPDATE sync_record SET version = 0")
            // Nor is a version that a verdict told one of this history.
            try db.execute(
                sql: "UPDATE sync_record SET base = json_remove(base, '$.told') WHERE base ->> '$.told' IS NOT NULL")
            try Meta.set(db, .highest, 0)
            try NamedFields.forget(db)
            try Meta.set(db, .epochSequence, ChangeRows.sequence(db))
        } else if state.isRunning, state.isOfNewEpoch {
            try Meta.set(db, .epochPass, number)
        }
        try forgetHeld(db)
        try Journal.event(db, .fullPassBegan, detail: epoch ?? known, at: now)
    }

    /// The pass that runs begins anew, in the same epoch: what it brought until now counts as not brought. The roots' own
    /// checkpoints are the caller's.
    static func beginAgain(_ db: Database, now: Int64) throws {
        let state = try PassState.read(db)
        try Meta.set(db, .pass, state.number + 1)
        if state.isOfNewEpoch { try Meta.set(db, .epochPass, state.number + 1) }
        try Meta.set(db, .passAwaits, 0)
        try Meta.set(db, .checkpoint, 0)
        try Meta.set(db, .openFrom, nil as Int64?)
        try noteBeginning(db, now: now)
        try forgetHeld(db)
    }

    private static func noteBeginning(_ db: Database, now: Int64) throws {
        try Meta.set(db, .passBegan, now + (ClockOffset.known(db) ?? 0))
    }

    /// All of it comes again, or is not there any more, but for what only unsent changes make.
    ///
    /// A row that only what is unsent under it keeps goes with that, whatever the pass brings: nothing else would say so (seed 63495).
    private static func forgetHeld(_ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE sync_held SET version = 0
                WHERE version > 0 AND reason = ? AND json_extract(record, '$.deleted')
                AND NOT EXISTS (SELECT 1 FROM sync_record WHERE entity = sync_held.entity AND id = sync_held.id)
                """, arguments: [HeldRecord.Reason.unsent.rawValue])
        try db.execute(
            sql: """
                DELETE FROM sync_held WHERE version > 0
                OR EXISTS (SELECT 1 FROM sync_record WHERE entity = sync_held.entity AND id = sync_held.id)
                """)
    }

    static func end(_ db: Database, _ context: ApplyContext, confirmed: Bool, now: Int64) throws -> FullPassEnd {
        let state = try PassState.read(db)
        guard state.isRunning else { return .removed(0) }
        let missing = try missing(db, state.number)
        let free = try Self.missing(db, state.number, isAlive: true).filter { try !Base.hasRemaining(db, $0.key) }
        let rows = Int(try Meta.integer(db, .passRows) ?? 0)
        let brought = "SELECT 1 FROM sync_record WHERE pass = ? LIMIT 1"
        let isEmpty = try Row.fetchOne(db, sql: brought, arguments: [state.number]) == nil
        let isTooMany = Double(free.count) > threshold * Double(max(rows, 1))
        if !confirmed, !free.isEmpty, isEmpty || isTooMany {
            if try Meta.integer(db, .passAwaits) != 1 {
                try Meta.set(db, .passAwaits, 1)
                try Journal.event(db, .fullPassAwaits, detail: "\(free.count) of \(rows)", at: now)
            }
            return .awaitsConfirmation(missing: free.count, of: rows)
        }
        let removed = try sweep(db, context, missing, state, now: now)
        if try Scopes.read(db) != nil {
            try StayedRows.noteKept(
                db, missing.map(\.key).filter { try Base.hasRemaining(db, $0) }, pass: state.number)
        }
        try Meta.set(db, .passRuns, 0)
        try Meta.set(db, .passAwaits, 0)
        try Journal.event(db, .fullPassEnded, detail: "\(removed) removed", at: now)
        return .removed(removed)
    }

    /// Each missing record is treated as if a tombstone of the version held had come: what is unsent on it or under it
    /// holds it up.
    private static func sweep(
        _ db: Database, _ context: ApplyContext, _ missing: [(key: RecordKey, version: Int64)], _ state: PassState,
        now: Int64
    ) throws -> Int {
        let order = Dictionary(
            uniqueKeysWithValues: context.schema.entities.enumerated().map { ($1.name, $0) })
        let childrenFirst = missing.sorted { a, b in
            let (x, y) = (order[a.key.entity] ?? -1, order[b.key.entity] ?? -1)
            return x == y ? a.key < b.key : x > y
        }
        let applier = try SliceApplier(db, context, now: now, isOfRoots: false)
        try applier.apply(childrenFirst.map { ServerRecord(key: $0.key, version: $0.version, presence: .deleted) })
        return applier.report.deleted
    }

    /// Writes what history lost as if the user did it now; the entries are done then. What cannot be written now stays in the journal,
    /// and keeps nothing else from it: what refers to something that is not here, and a field that was written over since.
    static func restore(_ db: Database, _ context: ApplyContext, now: Int64) throws -> Int {
        var records: Set<RecordKey> = []
        // Parents come first: a child's row needs its parent's.
        let ranks = Dictionary(uniqueKeysWithValues: context.schema.entities.enumerated().map { ($1.name, $0) })
        var left = try lost(db).sorted {
            (ranks[$0.key.entity] ?? 0, $0.number) < (ranks[$1.key.entity] ?? 0, $1.number)
        }
        var before = Int.max
        // What refers to one of its own kind, or to a later one, may go once that is there.
        while left.count < before {
            before = left.count
            left = try left.filter { entry in
                guard try restore(db, entry, context, now: now) else { return true }
                records.insert(entry.key)
                try db.execute(
                    sql: "UPDATE sync_conflict SET kind = 'restored' WHERE number = ?", arguments: [entry.number])
                return false
            }
        }
        return records.count
    }

    /// - Returns: whether it was written.
    private static func restore(_ db: Database, _ entry: Lost, _ context: ApplyContext, now: Int64) throws -> Bool {
        guard let entity = context.schema[entry.key.entity] else { return false }
        let fields = try IdentityMap.local(db, entry.fields.filter { entity.field($0.key) != nil }, entity)
        for field in entity.fields {
            guard let target = field.reference.flatMap({ context.schema[$0.entity] }),
                case .string(let id)? = fields[field.name]
            else { continue }
            if try !RowWriter(target).exists(db, id) { return false }
        }
        let row = try RowWriter(entity).read(db, entry.key.id)
        if entry.isWhole {
            // The user has deleted it since.
            if row == nil, try Base.hasRemaining(db, entry.key) { return false }
        } else {
            guard let row, fields.keys.allSatisfy({ (row[$0] ?? .null).isSame(as: entry.theirs) }) else { return false }
            // The user has written it, and be it what the server has (seed 2798 of those with derived data).
            let unsent = try Base.remaining(db, of: entry.key, context.schema)
            if unsent.contains(where: { change in fields.keys.contains { change.fields[$0] != nil } }) { return false }
        }
        // The user has edited it since (seed 146 with the reference server).
        if entry.isDelete, try Base.hasRemaining(db, entry.key) { return false }
        var isDone = false
        do {
            try db.inSavepoint {
                isDone =
                    if entry.isDelete {
                        try deleteAgain(db, entry.key, context, now: now)
                    } else if entry.isWhole {
                        try makeAgain(db, entry.key, fields, context.schema, now: now)
                    } else {
                        try UserWriter(entity: entity, schema: context.schema, now: now).update(
                            db, entry.key.id, fields)
                    }
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            // kept: the app's tables do not take it now; the journal has it still.
            return false
        }
        return isDone
    }

    /// Makes a record again that is not on the server any more: a row as if the user wrote it now; or, where the row stays for what is
    /// unsent under it, a create of what it was, and of what waits of it since.
    /// - Returns: whether anything was written; not where the record is there, or its create waits already.
    static func makeAgain(
        _ db: Database, _ key: RecordKey, _ fields: [String: FieldValue], _ schema: Schema, now: Int64
    ) throws -> Bool {
        guard let entity = schema[key.entity] else { return false }
        guard let row = try RowWriter(entity).read(db, key.id) else {
            try UserWriter(entity: entity, schema: schema, now: now).upsert(db, key.id, fields)
            return true
        }
        guard let held = try HeldRecords.find(db, key), held.presence == .deleted else { return false }
        let create = "SELECT 1 FROM sync_change WHERE entity = ? AND id = ? AND operation = 0 LIMIT 1"
        guard try Row.fetchOne(db.cachedStatement(sql: create), arguments: [key.entity, key.id]) == nil else {
            return false
        }
        // The row may show what was given up since, and of the rest nothing (seed 11608).
        let waiting = Set(try Base.remaining(db, of: key, schema).flatMap(\.fields.keys))
        let lost = fields.filter { !waiting.contains($0.key) }
        try RowWriter.applying(db) { _ = try RowWriter(entity).update(db, key.id, lost) }
        // It is made anew: nothing of what the server said before is its base.
        try HeldRecords.forget(db, key)
        try StoredRecord.delete(db, key)
        try FoundChanges.add(db, .create(key, row.merging(lost) { $1 }), schema, now: now)
        return true
    }

    /// Deletes a record again as if the user did it now: one change, and what is under it goes out of sight.
    /// - Returns: whether it was there, and nothing under it is unsent.
    static func deleteAgain(_ db: Database, _ key: RecordKey, _ context: ApplyContext, now: Int64) throws -> Bool {
        let family = Family(schema: context.schema)
        guard let entity = context.schema[key.entity], try RowWriter(entity).exists(db, key.id),
            try !family.hasUnsent(db, under: key)
        else { return false }
        let below = try family.known(db, under: key)
        _ = try RowWriter.applying(db) { try family.removeRows(db, under: key) }
        let writer = UserWriter(entity: entity, schema: context.schema, now: now)
        guard try writer.delete(db, key.id) else { return false }
        for record in below { try context.changes.hold(db, record, .missingParent) }
        return true
    }

    /// One entry of the journal about what history lost.
    private struct Lost {
        var number: Int64
        var key: RecordKey
        var fields: [String: FieldValue]
        /// What the server has of a field.
        var theirs: FieldValue = .null
        /// The whole record is meant, not a field.
        var isWhole: Bool
        /// It was deleted here, and the server has it.
        var isDelete = false
    }

    private static func lost(_ db: Database) throws -> [Lost] {
        let sql = "SELECT number, entity, id, field, mine, theirs FROM sync_conflict WHERE kind = 'lostByServer'"
        return try Row.fetchAll(db, sql: sql).compactMap { row in
            guard let json = row[4] as String? else { return nil }
            let key = try IdentityMap.present(db, RecordKey(row[1], row[2]))
            let mine = try FieldValue(json: json, maximumDepth: 80)
            if let field = row[3] as String? {
                let theirs = try (row[5] as String?).map { try FieldValue(json: $0, maximumDepth: 80) }
                return Lost(
                    number: row[0], key: key, fields: [field: mine], theirs: theirs ?? .null, isWhole: false)
            }
            if mine.isNull { return Lost(number: row[0], key: key, fields: [:], isWhole: true, isDelete: true) }
            guard case .object(let fields) = mine else { return nil }
            return Lost(number: row[0], key: key, fields: fields, isWhole: true)
        }
    }

    /// Rows in step: the server knows them, and nothing of theirs is unsent.
    private static func inStep(_ db: Database) throws -> Int64 {
        // A base is kept apart only for what has unsent changes, and for what is dead.
        try Int64.fetchOne(db, sql: "SELECT count(*) FROM sync_record WHERE base IS NULL") ?? 0
    }

    /// Records that the pass did not bring; those that are known to be dead have no row to lose.
    private static func missing(
        _ db: Database, _ pass: Int64, isAlive: Bool = false
    ) throws -> [(key: RecordKey, version: Int64)] {
        let alive = isAlive ? "AND base IS NULL" : ""
        let sql = "SELECT entity, id, version FROM sync_record WHERE (pass IS NULL OR pass < ?) \(alive)"
        return try Row.fetchAll(db, sql: sql, arguments: [pass]).map { (RecordKey($0[0], $0[1]), $0[2]) }
    }
}
