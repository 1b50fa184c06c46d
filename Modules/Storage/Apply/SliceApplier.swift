import GRDB
import SyncCore

/// Applies the records of one slice inside one transaction (DESIGN.md, *The way of a change*, 6).
///
/// 1. A record below the version held is left out; one that cannot be applied is held, with its reason.
/// 2. A record that refers to one that is not here waits until the slice's others are applied; those that refer to each
///    other only, of this slice or held since earlier ones, are applied together; the rest is held.
/// 3. A record with unsent changes becomes their base, and they are replayed on top (I6).
/// 4. Records that waited for one that came are applied, too.
final class SliceApplier {
    let db: Database
    let context: ApplyContext
    let pass: PassState
    let now: Int64
    var report = SliceReport()
    let marks: RecordMarks
    let batches = RowBatches()
    /// Records of the slice that are dead, or left.
    var dead: Set<RecordKey> = []
    /// Whether what stands under a record that leaves waits for its own leave, or its parent: somebody sweeps (Decision 360).
    let isOfRoots: Bool
    /// Records with unsent changes that came already.
    private var replayed: Set<RecordKey> = []
    /// Asks for the changes of one.
    var remaining: RawStatement?
    private(set) var tables: [String: AppliedTable] = [:]
    let hasQueue: Bool
    var hasHeld: Bool
    /// The highest version that had been seen when the full pass began that runs.
    let passFrom: Int64
    /// Rows that stay on this device.
    var localRows: Set<RecordKey>
    /// Fields (`card.desc`) that the server's records are known to lack.
    private var missingFields: Set<String> = []

    /// - Parameters:
    ///   - unsent: what is remembered of the queue, where this is a slice of a page.
    ///   - isOfRoots: whether what this takes is of chosen roots, and the end of a pull is still to come; by default whether any
    ///     are chosen.
    init(
        _ db: Database, _ context: ApplyContext, now: Int64, unsent: UnsentRecords? = nil, isOfRoots: Bool? = nil
    ) throws {
        self.db = db
        self.isOfRoots = try isOfRoots ?? (Scopes.read(db) != nil)
        self.context = context
        self.now = now
        pass = try PassState.read(db)
        passFrom = try pass.isRunning ? Meta.integer(db, .passFrom) ?? .max : .max
        // A row that stays on this device counts like one that waits.
        let hasDrafts = try !Drafts.isEmpty(db)
        localRows = hasDrafts ? Set(try Drafts.localRoots(db).keys) : []
        hasQueue =
            try hasDrafts || Row.fetchOne(db.cachedStatement(sql: "SELECT 1 FROM sync_change LIMIT 1")) != nil
        hasHeld = try !HeldRecords.isEmpty(db)
        marks = RecordMarks(db, pass, hasQueue: hasQueue, unsent)
    }

    /// What became of one record.
    enum Taken {
        case done
        case waits(RecordKey)
        case held(HeldRecord.Reason, String)
    }

    /// Applies the records in their order.
    /// - Parameter isOver: whether the time for it has run out; asked now and then, never before the first was applied.
    /// - Returns: how many were looked at; those after them are not touched.
    @discardableResult
    func apply(_ records: [ServerRecord], until isOver: (() -> Bool)? = nil) throws -> Int {
        dead = Set(records.lazy.filter { $0.presence != .live }.map(\.key)).subtracting(localRows)
        let looks = try marks.look(at: records)
        let living = records.contains { $0.presence == .gone } ? Set(records.lazy.map(\.key)).subtracting(dead) : []
        var leaving: [ServerRecord] = []
        var waiting: [(record: ServerRecord, missing: RecordKey)] = []
        // A record that stands twice in a slice must not meet what was known before the slice.
        var highest = Int64.min
        var taken = 0
        for (each, look) in zip(records, looks) {
            let record = try whole(each, look)
            // Records of one version are never parted: a checkpoint stands at it.
            if taken > 0, taken % 4 == 0, record.version > highest, let isOver, isOver() { break }
            taken += 1
            let isNext = record.version > highest
            highest = max(highest, record.version)
            if record.presence == .gone, !living.isEmpty {
                try writeBatches(&waiting)
                if try stand(living, under: record.key) {
                    leaving.append(record)
                    continue
                }
            }
            if isNext, try goesWithOthers(record, look, &waiting) { continue }
            let isFirst = look.isUnsent && replayed.insert(record.key).inserted
            if isNext, isFirst, try replaysWithOthers(record, look, &waiting) { continue }
            // What is replayed over an unsent edit has nothing to do with the rows that wait, unless it may refer to them.
            let standsAlone = try isNext && isFirst && !hasHeld && record.presence == .live && !refers(record)
            if !standsAlone { try writeBatches(&waiting) }
            try takeOne(record, &waiting)
        }
        try writeBatches(&waiting)
        waiting = try settleWaiting(waiting)
        for record in leaving { try takeOne(record, &waiting) }
        for (record, missing) in waiting {
            try hold(record, .parent, "\(missing) is not here", waits: missing)
        }
        try marks.flush()
        try NamedFields.note(db, tables.values)
        try Lapsed.forget(db, shownBy: records.prefix(taken))
        return taken
    }

    func takeOne(_ record: ServerRecord, _ waiting: inout [(record: ServerRecord, missing: RecordKey)]) throws {
        switch try take(record) {
        case .done: try release(record.key)
        case .waits(let missing): waiting.append((record, missing))
        case .held(let reason, let detail): try hold(record, reason, detail)
        }
    }

    /// Tries again what is held for other reasons than a parent.
    func retryHeld(_ reasons: [HeldRecord.Reason], limit: Int) throws {
        guard hasHeld else { return }
        var waiting = try HeldRecords.held(db, for: reasons, limit: limit)
        while !waiting.isEmpty {
            var hasGone = false
            for record in waiting {
                switch try take(record) {
                case .done:
                    try noteReleased(record)
                    try release(record.key)
                    hasGone = hasGone || record.presence != .live
                case .waits(let missing): try hold(record, .parent, "\(missing) is not here", waits: missing)
                case .held: break
                }
            }
            guard hasGone else { break }
            // One above it may have been looked at first, and waits for nothing else any more (seed 27555).
            waiting = try HeldRecords.held(db, for: [.unsent], limit: limit).filter { $0.presence != .live }
        }
        try marks.flush()
    }

    /// Tries those that wait for a parent that is here by now.
    func retryOrphans() throws {
        guard hasHeld else { return }
        let keys = try Row.fetchAll(
            db.cachedStatement(
                sql: "SELECT DISTINCT waitsEntity, waitsID FROM sync_held WHERE waitsEntity IS NOT NULL"))
        for row in keys {
            let key = RecordKey(row[0], row[1])
            guard let table = try table(key.entity), try table.writer.exists(db, key.id) else { continue }
            try release(key)
        }
        if !context.circular.isEmpty { try closeCircles(among: HeldRecords.waitingForHeld(db)) }
        try marks.flush()
    }

    // MARK: - Waiting for others

    /// Applies what can be applied now that the others are here, then what refers to each other only; returns the rest.
    private func settleWaiting(
        _ waiting: [(record: ServerRecord, missing: RecordKey)]
    ) throws -> [(record: ServerRecord, missing: RecordKey)] {
        var waiting = waiting
        var hasMoved = true
        while hasMoved, !waiting.isEmpty {
            hasMoved = false
            var rest: [(record: ServerRecord, missing: RecordKey)] = []
            for (record, _) in waiting {
                switch try take(record) {
                case .done:
                    hasMoved = true
                    try release(record.key)
                case .waits(let missing): rest.append((record, missing))
                case .held(let reason, let detail): try hold(record, reason, detail)
                }
            }
            waiting = rest
        }
        return try settleCircles(waiting)
    }

    /// This record is here: those that wait for it are tried, and those that wait for them.
    func release(_ key: RecordKey) throws {
        guard hasHeld else { return }
        var keys = [key]
        while let next = keys.popLast() {
            for record in try HeldRecords.waiting(db, for: next) {
                switch try take(record) {
                case .done:
                    try noteReleased(record)
                    keys.append(record.key)
                case .waits(let missing):
                    try hold(record, .parent, "\(missing) is not here", waits: missing)
                    try closeCircles(among: [record])
                case .held(let reason, let detail): try hold(record, reason, detail)
                }
            }
        }
    }

    /// It is applied, or something newer was applied before it: it waits no more.
    func noteReleased(_ record: ServerRecord) throws {
        try HeldRecords.forget(db, record.key)
        try Journal.event(db, .released, record.key, at: now)
    }

    func hold(
        _ record: ServerRecord, _ reason: HeldRecord.Reason, _ detail: String, waits: RecordKey? = nil
    ) throws {
        try marks.flush()
        if let version = try HeldRecords.version(db, record.key), version > record.version { return }
        let isNew = try HeldRecords.version(db, record.key) == nil
        try HeldRecords.hold(db, record, reason, detail: detail, waits: waits)
        try db.cachedStatement(sql: "UPDATE sync_record SET pass = ? WHERE entity = ? AND id = ?")
            .execute(arguments: [pass.number, record.key.entity, record.key.id])
        hasHeld = true
        report.held += 1
        switch reason {
        case .unknownEntity: try noteUnknown(record.key)
        case .type, .constraint:
            if isNew { try Journal.event(db, .quarantined, record.key, detail: detail, at: now) }
        case .parent, .unsent, .stray: break
        }
    }

    /// One event for an entity, however many of its records come.
    private func noteUnknown(_ key: RecordKey) throws {
        let known = try Row.fetchOne(
            db.cachedStatement(
                sql: "SELECT 1 FROM sync_event WHERE kind = 'unknownEntity' AND entity = ? LIMIT 1"),
            arguments: [key.entity])
        if known == nil { try Journal.event(db, .unknownEntity, key, at: now) }
    }

    // MARK: - One record

    func take(_ record: ServerRecord, checksNeeds: Bool = true) throws -> Taken {
        guard let table = try table(record.key.entity) else {
            guard record.presence == .live else {
                try HeldRecords.forget(db, record.key)
                return .done
            }
            return .held(.unknownEntity, "“\(record.key.entity)” is not declared here")
        }
        do {
            if record.presence != .live { return try staysHere(record) ? .done : remove(record, table) }
            var row: [FieldValue] = []
            let shape = try table.bind(record, into: &row)
            if checksNeeds, let missing = try table.missing(record.key, record.fields) { return .waits(missing) }
            if localRows.contains(record.key) { try takeOver(record, table) }
            if try pass.journalsLosses || marks.isUnsent(record.key) {
                return try rebase(record, table)
            }
            return try write(record, row, shape, table)
        } catch let mismatch as ValueMismatch {
            return .held(.type, mismatch.description)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            return .held(.constraint, error.message ?? "a constraint of “\(table.entity.table)”")
        }
    }

    /// Nothing is unsent: the row becomes what the server says.
    private func write(
        _ record: ServerRecord, _ row: [FieldValue], _ shape: AppliedTable.Shape, _ table: AppliedTable
    ) throws -> Taken {
        guard try !marks.isBelowHeld(record) else { return .done }
        if shape.count <= table.entity.fields.count { try noteMissingFields(record, table) }
        try table.upsert(record, row, shape)
        marks.note(record, extra: try extra(record, shape, table.entity))
        try noteApplied(record)
        return .done
    }

    /// The record becomes the base, and what is unsent is replayed on top.
    private func rebase(_ record: ServerRecord, _ table: AppliedTable) throws -> Taken {
        try marks.flush(for: record.key)
        let stored = try StoredRecord.read(db, record.key)
        if let stored, stored.version > record.version, try !pass.isNew(db, record.key) { return .done }
        let changes = try Base.remaining(db, of: record.key, context.schema)
        let row = try table.writer.read(db, record.key.id)
        var before = Base.state(stored: stored, changes: changes, row: row, entity: table.entity)
        let isAway = before.isAway && record.presence != .live
        // Of what was not here the page says everything: what an edit was made over may have been this device's own, and refused since
        // (seed 3255 with `--damage --roots`).
        let isWhole = before.isAway && !isAway
        if before.isAway { before.fields = Base.named(in: changes, over: nil) }
        let isLoss = try pass.journalsLosses && stored != nil && pass.isNew(db, record.key)
        // What was dead in the old history had no row to lose.
        if isLoss, before.isLive {
            if record.presence == .live {
                try noteLosses(record, before, table.entity)
            } else {
                try noteLoss(record.key, before.fields, stored)
            }
        } else if isLoss, changes.isEmpty, record.presence == .live {
            try noteLostDelete(record)
        }
        var server = RecordState(
            isLive: record.presence == .live, fields: isAway ? [:] : before.fields, isAway: isAway)
        server.keepTold(of: before, above: record.version)
        let absent = isWhole ? Set(try table.writer.dispensable(db).map(\.name)) : []
        for field in table.entity.fields {
            if let value = record.fields[field.name] {
                server.fields[field.name] = value
            } else if isLoss || absent.contains(field.name) {
                // In this history the field was never written.
                server.fields[field.name] = .null
            }
        }
        server.fillNulls(of: changes)
        let extras = record.presence == .live ? unknown(record, table.entity) : stored?.extra ?? [:]
        let base = changes.isEmpty ? nil : server
        let shown = Replay(deltas: context.deltas).state(of: changes, onto: server)
        // What is unsent may refer to a record that is not here (any more): the row would break at the commit only.
        if shown.isLive, !changes.isEmpty, let missing = try table.missing(record.key, shown.fields) {
            // If only they name it, the record waits for them: it may never come.
            if record.presence == .live, try table.missing(record.key, record.fields) != nil { return .waits(missing) }
            return .held(.unsent, "its unsent changes refer to \(missing), which is not here")
        }
        if shown.isLive {
            // A record that another history does not have is dead, also where its row cannot be without some of it (seed 59411).
            let kept =
                isLoss && record.presence != .live
                ? try table.writer.indispensable(db, of: row, without: shown.fields) : [:]
            try table.writer.upsert(db, record.key.id, shown.fields.merging(kept) { $1 })
        } else if row != nil {
            let family = Family(schema: context.schema)
            guard try !family.hasUnsent(db, under: record.key) else {
                return .held(.unsent, "something under it has unsent changes")
            }
            // Rows that this slice wrote count with their versions.
            try marks.flush()
            let below = try unsaid(under: record.key)
            report.touched += try family.removeRows(db, under: record.key)
            try table.writer.delete(db, record.key.id)
            try wait(below)
        }
        try StoredRecord(version: record.version, base: base, extra: extras).write(db, record.key)
        try pass.mark(db, record.key)
        try note(conflicts(changes, before.fields, record, table.entity), of: record.key)
        try noteApplied(record)
        return .done
    }

    /// A tombstone, or a leave.
    private func remove(_ record: ServerRecord, _ table: AppliedTable) throws -> Taken {
        try marks.flush()
        let stored = try StoredRecord.read(db, record.key)
        var below: [ServerRecord] = []
        if record.presence == .gone {
            if isOfRoots || hasQueue { below = try acknowledged(under: record.key) }
            // Nothing sweeps what would wait in vain: only what the server has elsewhere is kept.
            if !isOfRoots { below = elsewhere(below, than: record.key) }
            // Its version tells when it left, and what is held may come from a later verdict: that says nothing of where the
            // record is, and no later page brought it, since that one would stand here instead.
            if let held = try leaves(record.key) { return held }
        } else if let stored, stored.version > record.version, try !pass.isNew(db, record.key) {
            return .done
        } else if hasQueue {
            if try Base.hasRemaining(db, record.key) { return try rebase(record, table) }
            if try Removal.hasUnsentBelow(db, record.key, context.schema) {
                try noteLoss(record.key, stored, table)
                return .held(.unsent, "something under it has unsent changes")
            }
        }
        try noteLoss(record.key, stored, table)
        if record.presence == .deleted { below = try unsaid(under: record.key) }
        do {
            let gone = try Removal.remove(db, record.key, context.schema)
            if gone.contains(record.key) { report.deleted += 1 }
            report.touched += gone.filter { $0 != record.key }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            return .held(.constraint, error.message ?? "a constraint of “\(table.entity.table)”")
        }
        try HeldRecords.forget(db, record.key)
        // What was moved there by the user alone is back where the server has it.
        if record.presence == .gone { below = try below.filter { try !isHere($0.key) } }
        try wait(below)
        report.touched.append(record.key)
        return .done
    }

    /// What stands under a record that died, and was not said to be dead itself: it may live under another parent, of
    /// which a later record tells. Each waits for its own tombstone, or for its parent.
    private func unsaid(under key: RecordKey) throws -> [ServerRecord] {
        try Family(schema: context.schema).known(db, under: key, but: dead)
    }

    /// Rows went with the one above them: each record waits.
    private func wait(_ below: [ServerRecord]) throws {
        for each in tables.values { each.forgetKnown() }  // any order
        for each in below {
            hasHeld = true
            // The server has it where it can stand, and a create of its id was made where something left: it comes with the end of that.
            if let table = try table(each.key.entity), try table.missing(each.key, each.fields) == nil,
                try Base.hasRemaining(db, each.key)
            {
                let detail = "what was made here of its id refers to what is not here"
                try HeldRecords.hold(db, each, .unsent, detail: detail)
            } else {
                try context.changes.hold(db, each, .missingParent)
            }
        }
    }

    func noteApplied(_ record: ServerRecord) throws {
        if hasHeld { try HeldRecords.forget(db, record.key) }
        report.applied += 1
        report.touched.append(record.key)
    }

    func table(_ entity: String) throws -> AppliedTable? {
        if let table = tables[entity] { return table }
        guard let declared = context.schema[entity] else { return nil }
        let keys = context.foreignKeys[entity] ?? [:]
        let table = AppliedTable(
            db, declared, context.schema, foreignKeys: keys, hasForeignKeys: !context.foreignKeys.isEmpty)
        tables[entity] = table
        return table
    }

    // MARK: - Unknown fields, conflicts, losses

    /// An older server keeps no value for a field that has one here: it stays, and one event says so (DAT-21).
    func noteMissingFields(_ record: ServerRecord, _ table: AppliedTable) throws {
        let key = record.key
        for field in table.entity.fields where record.fields[field.name] == nil {
            let name = "\(key.entity).\(field.name)"
            guard !missingFields.contains(name) else { continue }
            guard try table.hasValue(field, key.id) else { continue }
            missingFields.insert(name)
            let known =
                "SELECT 1 FROM sync_event WHERE kind = 'missingField' AND entity = ? AND detail = ? LIMIT 1"
            let statement = try db.cachedStatement(sql: known)
            if try Row.fetchOne(statement, arguments: [key.entity, field.name]) == nil {
                try Journal.event(db, .missingField, key, detail: field.name, at: now)
            }
        }
    }

    private func unknown(_ record: ServerRecord, _ entity: EntitySchema) -> [String: FieldValue] {
        let names = context.fieldNames[entity.name] ?? []
        return record.fields.filter { !names.contains($0.key) }
    }

    func extra(
        _ record: ServerRecord, _ shape: AppliedTable.Shape, _ entity: EntitySchema
    ) throws -> String? {
        // Counting is enough mostly: the id was bound, too.
        guard record.fields.count > shape.count - 1 else { return nil }
        return try FieldValue.object(unknown(record, entity)).jsonText()
    }

    /// A field is a conflict where the server has another value than the base and than what was written here on top.
    /// - Parameter before: the fields' base until now.
    func conflicts(
        _ changes: [StoredChange], _ before: [String: FieldValue], _ record: ServerRecord, _ entity: EntitySchema
    ) -> [Replayed.Conflict] {
        let written = Set(changes.lazy.filter { $0.operation != .delete }.flatMap(\.fields.keys))
        return entity.fields.compactMap { field in
            guard written.contains(field.name), let theirs = record.fields[field.name] else { return nil }
            let writes = changes.filter { $0.operation != .delete && $0.fields[field.name] != nil }
            guard let last = writes.last, let delta = last.fields[field.name] else { return nil }
            guard delta.rule != .sum, delta.rule != .union else { return nil }
            let known = [before[field.name] ?? .null] + writes.compactMap { $0.fields[field.name]?.new }
            guard !known.contains(where: { $0.isSame(as: theirs) }) else { return nil }
            return Replayed.Conflict(
                change: last.key, field: field.name, mine: delta.new, theirs: theirs, rule: delta.rule)
        }
    }

    func note(_ conflicts: [Replayed.Conflict], of record: RecordKey) throws {
        for each in conflicts {
            try Journal.conflict(
                db, .replayed, change: each.change, record, field: each.field, mine: each.mine, theirs: each.theirs,
                winner: "mine", rule: each.rule, at: now)
        }
        report.conflicts += conflicts.count
    }
}
