import GRDB
import Storage
import SyncCore
import SyncTesting

/// What users write, and what must be in the queue then.
extension World {
    /// What a user wrote, over what the device showed.
    struct Attempt {
        let edits: [LocalEdit]
        let rows: Rows
        let isUnit: Bool
        /// What a dirty flag marked before: its change says more than this write.
        var marked: Set<RecordKey> = []
        /// Rows that stay on the device: what is written of them is no change.
        var localRows: Set<RecordKey> = []
        var localHere: Set<RecordKey> = []
        /// The sequence above which its changes will stand, where it is committed and they are yet to be made.
        var owed: Int64?
        /// The engine may have made them before anybody asked, and gone on with them.
        var isLate = false
    }

    func write(_ step: WorkloadTape.Step, _ index: Int) {
        let device = devices[index]
        guard let rows = device.facts()?.rows else { return }
        let maker = EditMaker(schema: device.schema, rows: rows, device: index, ids: device.ids, seed: seed)
        let edits =
            if case .remake(let record, let fields) = step.action {
                maker.remake(record, of: made(knownTo: device), fields: fields)
            } else {
                maker.edits(for: step.action)
            }
        let isUnit = if case .transaction(_, _, true) = step.action { true } else { false }
        let writes = record.localWrites
        write(edits, isUnit: isUnit, index)
        if case .remake = step.action, record.localWrites > writes { record.cover(.madeAgain) }
        if !device.isDead { holdNewRoots(index, edits) }
    }

    /// What was ever made on the devices of this one's account, with what was written then; where records have two ids, such as
    /// the device knows one of.
    private func made(knownTo device: SimulatedDevice) -> [RecordKey: [String: FieldValue]] {
        var made: [RecordKey: [String: FieldValue]] = [:]
        for other in devices where other.account == device.account {
            made.merge(ledgers[other.index].makings) { first, _ in first }
        }
        return ids.areTwo ? made.filter { device.names.knows($0.key) } : made
    }

    /// One transaction of the app's.
    func write(_ edits: [LocalEdit], isUnit: Bool, _ index: Int) {
        let device = devices[index]
        guard !edits.isEmpty, collectOwed(index), let facts = device.facts() else { return }
        let rows = facts.rows
        // Units are of triggers.
        // One request for each change cannot carry a unit.
        let isUnit = isUnit && !device.isFlagged && !options.sendsByREST
        attempts[index] = Attempt(
            edits: edits, rows: rows, isUnit: isUnit, marked: facts.marked, localRows: facts.localRows,
            localHere: facts.localHere)
        let (names, ids) = (device.names, ids)
        // Of a record that is here as two the app sees one, and may leave what is under the other one (seed 206862).
        let seesAll = rows.twins.isEmpty && !rows.hasUnnamed
        let written = settle(index) { process -> (before: Int64, made: [Ledger.Entry])? in
            do {
                let schema = process.store.schema
                guard schema.entities.contains(where: { $0.capture == .explicit }) else {
                    return try await process.store.write(unit: isUnit) { db in
                        let before = try Ledger.lastSequence(db)
                        for edit in edits { try edit.perform(db, schema, names) }
                        return (before: before, made: try Ledger.changes(db, above: before, ids))
                    }
                }
                return try await process.store.write(unit: isUnit) { db, record in
                    let before = try Ledger.lastSequence(db)
                    let explicit = ExplicitEdit(db: db, schema: schema)
                    for edit in edits { try explicit.perform(edit, names, record) }
                    return (before: before, made: try Ledger.changes(db, above: before, ids))
                }
            } catch let failure as StoreFailure where !seesAll && failure.message.contains("FOREIGN KEY constraint") {
                return nil
            }
        }
        guard let written = written ?? nil else {
            // It failed, and the app knows; or the device died over it, and only its file knows.
            if !device.isDead { attempts[index] = nil }
            return
        }
        guard device.isFlagged else { return enter(written.made, of: index) }
        attempts[index]?.owed = written.before
        if asksForQueue(index) { _ = collectOwed(index) }
        attempts[index]?.isLate = true
    }

    /// Changes of the last attempt are in the queue.
    private func enter(_ made: [Ledger.Entry], of index: Int) {
        guard let attempt = attempts.removeValue(forKey: index) else { return }
        let (device, edits) = (devices[index], attempt.edits)
        if !attempt.isLate {
            let noticed = edits.filter { !attempt.marked.contains($0.record) && !attempt.localRows.contains($0.record) }
            checkCapture(noticed, made, attempt.rows, index)
            // Of two rows by one name only the device's own stays (seed 35056 with `--server-ids --drafts`).
            if made.contains(where: { attempt.localHere.contains(RecordKey($0.record.entity, $0.here)) }) {
                record.violate("drafts", "device \(index) records a write of a row that stays there")
            }
        }
        // A create that stands in a refused one's place keeps its stamp, and what was written of it since has its own.
        let first = device.isFlagged ? made.first { $0.isOriginal && $0.stamp != .zero } : made.first
        if let facts = device.facts(), let seen = memories[index].seenStamp(facts), let first, first.stamp <= seen {
            record.violate("I6", "device \(index) writes at \(first.stamp), and has seen \(seen)")
        }
        if !made.isEmpty { record.wrote(index) }
        noteWrite(index)
        if edits.contains(where: refersElsewhere) { record.cover(.otherReference) }
        record.note("device \(index) writes \(made.map { "\($0.sequence):\($0.record)" })")
        enter(made, of: attempt, in: index)
    }

    /// What a flag marks is in the queue when somebody asks for that.
    /// - Returns: whether it is; not where the device dies over it, or its disk fails.
    func collectOwed(_ index: Int) -> Bool {
        guard attempts[index]?.owed != nil else { return true }
        return settle(index) { _ = try await $0.store.queued() } != nil && enterOwed(index)
    }

    /// What a flag marked and is in the queue by now; the engine may have been the one who asked.
    @discardableResult
    func enterOwed(_ index: Int) -> Bool {
        let device = devices[index]
        guard let sequence = attempts[index]?.owed else { return true }
        guard device.facts()?.marked.isEmpty == true,
            let made = device.read({ [ids] in try Ledger.collected($0, above: sequence, device.schema, ids) }),
            let ended = device.read({ [ids] in try Ledger.endedAtOnce($0, above: sequence, ids) })
        else { return false }
        enter(made + ended.filter { ledgers[index].entries[$0.key] == nil }, of: index)
        return true
    }

    /// What a process left marked becomes changes; a disk that fails is asked again.
    func asksForQueue(_ index: Int) -> Bool {
        for _ in 0..<30 where !devices[index].isDead {
            if settle(index, { _ = try await $0.store.queued() }) != nil { return true }
        }
        return false
    }

    /// Whether it names a record that is not its parent.
    private func refersElsewhere(_ edit: LocalEdit) -> Bool {
        switch edit {
        case .insert(let key, let values), .update(let key, let values):
            options.schema[key.entity]?.fields.contains { field in
                field.reference?.isParent == false && !(values[field.name] ?? .null).isNull
            } ?? false
        case .delete: false
        }
    }

    /// Puts committed changes into the ledger, with what the app wrote and over what.
    func enter(_ made: [Ledger.Entry], of attempt: Attempt?, in index: Int) {
        let unit = attempt.flatMap { $0.isUnit ? records(of: $0.edits) : nil } ?? []
        for var entry in made {
            guard let attempt, !attempt.marked.contains(entry.record) else {
                ledgers[index].add(entry)
                continue
            }
            entry.isOriginal = true
            entry.unit = unit
            for edit in attempt.edits {
                switch edit {
                case .insert(entry.record, let fields), .update(entry.record, let fields):
                    // What was there already is no change of that field, but by another id (seed 11755 with a server that makes ids).
                    let before = attempt.rows.rows[entry.record] ?? [:]
                    let renamed = Set(
                        attempt.rows.renamed.filter { ids.key($0.record) == entry.record }.map(\.field))
                    entry.values = fields.filter {
                        renamed.contains($0.key) || !(before[$0.key] ?? .null).isSame(as: $0.value)
                    }
                    entry.before = before.filter { fields[$0.key] != nil }
                default: break
                }
            }
            ledgers[index].add(entry)
        }
    }

    /// What edits write, and the parents that they name.
    private func records(of edits: [LocalEdit]) -> Set<RecordKey> {
        Set(
            edits.flatMap { edit -> [RecordKey] in
                switch edit {
                case .insert(let record, let values), .update(let record, let values):
                    let parents = options.schema[record.entity]?.parents ?? []
                    return [record]
                        + parents.compactMap { field in
                            guard let entity = field.reference?.entity, case .string(let id)? = values[field.name]
                            else { return nil }
                            return RecordKey(entity, id)
                        }
                case .delete(let record): return [record]
                }
            })
    }

    /// I4: each edit that changed something is a change in the queue when its transaction is over.
    private func checkCapture(
        _ edits: [LocalEdit], _ made: [Ledger.Entry], _ rows: Rows, _ index: Int
    ) {
        for edit in edits {
            let (key, isChange): (RecordKey, Bool)
            var renames = false
            switch edit {
            case .insert(let record, _): (key, isChange) = (record, true)
            case .delete(let record): (key, isChange) = (record, rows.rows[record] != nil)
            case .update(let record, let fields):
                let before = rows.rows[record] ?? [:]
                (key, isChange) = (
                    record, fields.contains { !(before[$0.key] ?? .null).isSame(as: $0.value) }
                )
                // To the device another id of the same record is another value (seeds 17808 and 47040).
                renames = rows.renamed.contains { ids.key($0.record) == record && fields[$0.field] != nil }
            }
            let wasMade = made.contains { $0.record == key }
            if isChange != wasMade, !wasMade || !renames {
                record.violate(
                    "I4",
                    "device \(index): \(key) \(isChange ? "changed" : "did not change"), and the queue has it \(wasMade)"
                )
            }
        }
    }
}
