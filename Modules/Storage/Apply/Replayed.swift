import GRDB
import SyncCore

/// What a record with unsent changes asks for beside its row, once the server's word came under them.
struct Replayed {
    /// The server's state, as it is stored: the fields at least that changes wrote.
    let base: String
    let conflicts: [Conflict]

    /// The server has another value than the base, and than what was written here on top.
    struct Conflict {
        let change: String
        let field: String
        let mine: FieldValue
        let theirs: FieldValue
        let rule: MergeRule
    }
}

extension SliceApplier {
    /// Puts a live record with unsent changes, which comes for the first time in the slice, to those that are written by one
    /// statement: it becomes their base, they are replayed on top, and the row shows that.
    ///
    /// This is the way of nearly every one of them: it stays live, and what it and its changes refer to is here. All else is
    /// looked at by itself (``rebase(_:_:)``).
    /// - Returns: whether it is done with.
    func replaysWithOthers(
        _ record: ServerRecord, _ look: RecordMarks.Look, _ waiting: inout [(record: ServerRecord, missing: RecordKey)]
    ) throws -> Bool {
        guard record.presence == .live, !pass.journalsLosses, let table = try table(record.key.entity), table.isNarrow
        else { return false }
        if marks.isBelow(record, look.held) { return !hasHeld }
        let entity = table.entity
        batches.row.removeAll(keepingCapacity: true)
        do {
            // The server's own values must fit, whatever is shown.
            let shape = try table.bind(record, into: &batches.row)
            guard let changes = try changes(of: record.key), !changes.isEmpty else { return false }
            let stored = try look.base.map { try StoredRecord(version: 0, base: StoredRecord.decode($0)) }
            var server = RecordState(isLive: true, fields: record.fields)
            server.keepTold(of: stored?.base, above: record.version)
            let before: [String: FieldValue]
            if shape == table.whole {
                // Nobody need look at the row.
                before = Base.named(in: changes, over: stored)
                if record.fields.count > entity.fields.count { server.fields = declared(record, entity) }
            } else {
                guard let row = try table.writer.read(db, record.key.id) else { return false }
                before = Base.state(stored: stored, changes: changes, row: row, entity: entity).fields
                server.fields = before.merging(declared(record, entity)) { $1 }
            }
            server.fillNulls(of: changes)
            let shown = Replay(deltas: context.deltas).state(of: changes, onto: server)
            guard shown.isLive, try isComplete(record.key, record.fields, shown.fields, table),
                try show(shown, entity)
            else { return false }
            if shape == table.whole {
                // The row says all that no change wrote.
                server.fields = server.fields.filter { before[$0.key] != nil }
            }
            let replayed = Replayed(
                base: try StoredRecord.encode(server), conflicts: conflicts(changes, before, record, entity))
            let member = RowBatch.Member(record: record, extra: try extra(record, shape, entity), replayed: replayed)
            try putToOthers(member, table, table.whole, &waiting)
            return true
        } catch is ValueMismatch { return false }
    }

    /// What the record and what it shows refer to is here, or waits in a batch.
    private func isComplete(
        _ key: RecordKey, _ fields: [String: FieldValue], _ shown: [String: FieldValue], _ table: AppliedTable
    ) throws -> Bool {
        guard !table.needs.isEmpty else { return true }
        return try !table.isMissingOne(key, fields, besides: batches.pending)
            && !table.isMissingOne(key, shown, besides: batches.pending)
    }

    /// The record's changes that the row shows; `nil` where one cannot be read.
    private func changes(of key: RecordKey) throws -> [StoredChange]? {
        let rows = try remaining ?? RawStatement(db, Base.askingForRemaining)
        remaining = rows
        rows.begin()
        rows.add(key.entity)
        rows.add(key.id)
        defer { rows.begin() }
        var changes: [StoredChange] = []
        do {
            while try rows.step() { changes.append(try StoredChange(rows, context.schema)) }
        } catch is JSONFailure { return nil }
        return changes
    }

    private func declared(_ record: ServerRecord, _ entity: EntitySchema) -> [String: FieldValue] {
        let names = context.fieldNames[entity.name] ?? []
        return record.fields.filter { names.contains($0.key) }
    }

    /// Makes the whole row the row at work.
    /// - Returns: `false` where a field is not known.
    private func show(_ shown: RecordState, _ entity: EntitySchema) throws -> Bool {
        batches.row.removeLast(batches.row.count - 1)
        for field in entity.fields {
            guard let value = shown.fields[field.name] else { return false }
            batches.row.append(try RowCodec.stored(value, of: field, in: entity.name))
        }
        return true
    }
}
