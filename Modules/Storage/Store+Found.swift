import GRDB
public import SyncCore

extension Store {
    /// Puts what a handler found into the queue, all of it or nothing.
    ///
    /// A handler finds a change again until it hears that it was decided: what the queue has already is left out, change by
    /// change, and as what several of one record come to together. What is found as made though the queue or the server has the
    /// record is an edit of it: a handler may have forgotten that it told of it.
    /// - Returns: how many entries were made.
    /// - Throws: ``StoreFailure``, as ``record(_:intent:)``.
    @discardableResult
    public func recordNew(_ found: [FoundChange]) throws(StoreFailure) -> Int {
        let now = now
        return try perform("recording what a handler found") { db in
            let all = Dictionary(grouping: found, by: \.record)
            /// How many of a record's first changes are left out.
            var known: [RecordKey: Int] = [:]
            var count = 0
            for change in found {
                let queued = try QueuedRecord(db, change.record, schema)
                // As it was before anything of this was put there.
                let left = known[change.record] ?? queued.known(of: all[change.record] ?? [])
                known[change.record] = left - 1
                guard left <= 0, !queued.says(change) else { continue }
                try FoundChanges.add(db, queued.edit(db, change), schema, now: now)
                count += 1
            }
            return count
        }
    }
}

/// What the queue says of one record, newest first.
private struct QueuedRecord {
    private let record: RecordKey
    private let schema: Schema
    private var entries: [(operation: Operation, fields: [String: FieldDelta])] = []

    init(_ db: Database, _ record: RecordKey, _ schema: Schema) throws {
        (self.record, self.schema) = (record, schema)
        let sql = "SELECT operation, fields FROM sync_change WHERE entity = ? AND id = ? ORDER BY position DESC"
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: [record.entity, record.id])
        while let row = try rows.next() {
            entries.append((Operation(number: row[0]), try DeltaCodec.deltas(row[1], of: schema[record.entity])))
        }
    }

    /// The newest value that is queued for a field; `nil` where the record's life in the queue does not say.
    private func value(of name: String) -> FieldValue? {
        for entry in entries {
            if entry.operation == .delete { return nil }
            if let delta = entry.fields[name] { return delta.new }
            // What a create does not name has no value.
            if entry.operation == .create { return .null }
        }
        return nil
    }

    /// Whether the newest life of the record in the queue begins with its create.
    private var beginsAnew: Bool { entries.first { $0.operation != .update }?.operation == .create }

    /// Whether the queue says the same already.
    func says(_ found: FoundChange) -> Bool {
        guard let newest = entries.first else { return false }
        guard found.operation != .delete else { return newest.operation == .delete }
        return newest.operation != .delete && says(found.fields.mapValues(\.new))
    }

    private func says(_ fields: [String: FieldValue]) -> Bool {
        fields.allSatisfy { name, new in value(of: name)?.isSame(as: new) ?? false }
    }

    /// How many of these changes of the record, the first ones, come to the same as the queue.
    func known(of found: [FoundChange]) -> Int {
        entries.isEmpty ? 0 : found.indices.last { comes(to: found[...$0]) }.map { $0 + 1 } ?? 0
    }

    private func comes(to found: ArraySlice<FoundChange>) -> Bool {
        guard let newest = entries.first, let last = found.last else { return false }
        guard last.operation != .delete else { return newest.operation == .delete }
        let begin = found.lastIndex { $0.operation == .delete }.map { $0 + 1 } ?? 0
        guard newest.operation != .delete, begin == 0 || beginsAnew else { return false }
        var fields: [String: FieldValue] = [:]
        for change in found[begin...] { fields.merge(change.fields.mapValues(\.new)) { $1 } }
        return says(fields)
    }

    /// The change as it goes into the queue: a create of what is there already is an edit.
    func edit(_ db: Database, _ found: FoundChange) throws -> FoundChange {
        guard found.operation == .create, entries.first?.operation != .delete else { return found }
        var found = found
        if entries.isEmpty {
            guard let stored = try StoredRecord.read(db, record), stored.version > 0, stored.base?.isLive ?? true else {
                return found
            }
            // All of it: only what is decided tells the handler that it is, and what a handler wrote is not in the row.
            let row = try schema[record.entity].flatMap { try RowWriter($0).read(db, record.id) }
            for name in found.fields.keys { found.fields[name]?.old = row?[name] }
        } else {
            found.fields = found.fields.filter { name, delta in !(value(of: name)?.isSame(as: delta.new) ?? false) }
            for name in found.fields.keys { found.fields[name]?.old = value(of: name) }
        }
        found.operation = .update
        return found
    }
}
