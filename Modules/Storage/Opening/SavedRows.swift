import GRDB
import SyncCore

/// The app's rows that a broken file's download does not bring: those of unsent creates, what a flag marks that nobody collected yet,
/// and what stays on this device by the app's word (PRC-14).
struct SavedRows {
    private let db: Database
    private let context: ApplyContext
    private let broken: BrokenFile
    private let now: Int64
    private var schema: Schema { context.schema }

    init(_ db: Database, _ context: ApplyContext, _ broken: BrokenFile, now: Int64) {
        (self.db, self.context, self.broken, self.now) = (db, context, broken, now)
    }

    // MARK: - What a flag marks

    /// Edits that a dirty flag marks become changes, as they would have with the next claim.
    /// - Returns: how many.
    func collectMarked() throws -> Int {
        let before = try ChangeRows.queued(db)
        let marked = schema.entities.filter { $0.capture == .dirtyFlag }
        // Each behind what it needs.
        for entity in marked.reversed() {
            let gone = broken.rows(
                ["SELECT id, seen FROM sync_dirty WHERE +gone = 1 AND entity = ?"], by: ["id"], [entity.name])
            for row in gone {
                guard let id = SavedRow.text(row, "id") else { continue }
                let record = RecordKey(entity.name, id)
                guard let seen = seen(row[1], entity), broken.fields(of: record, entity) == nil else { continue }
                try add(.delete(record, seen))
            }
        }
        for entity in marked {
            let select =
                "SELECT \(RowWriter.quoted(entity.keyColumn)) AS id FROM \(RowWriter.quoted(entity.table)) WHERE +is_dirty = 1"
            let rows = broken.rows(["\(select) ORDER BY edits", select, "\(select) ORDER BY rowid DESC"], by: ["id"])
            for id in rows.compactMap({ SavedRow.text($0, "id") }) {
                let record = RecordKey(entity.name, id)
                guard try Drafts.kind(db, of: record) != .local else { continue }
                guard let row = broken.fields(of: record, entity) else {
                    try tellUnread(record)
                    continue
                }
                try add(edit(of: record, row, entity))
            }
        }
        return try ChangeRows.queued(db) - before
    }

    private func edit(of record: RecordKey, _ row: [String: FieldValue], _ entity: EntitySchema) -> FoundChange {
        let json =
            broken.rows(
                ["SELECT seen FROM sync_dirty WHERE entity = ? AND id = ?"], by: [], [entity.name, record.id]
            ).first?[0] as DatabaseValue?
        guard let seen = seen(json ?? .null, entity) else { return .create(record, row) }
        return .update(record, from: seen, to: row)
    }

    /// The row before its first edit.
    private func seen(_ json: DatabaseValue, _ entity: EntitySchema) -> [String: FieldValue]? {
        guard case .string(let text) = json.storage else { return nil }
        do { return try DeltaCodec.deltas(text, of: entity).compactMapValues(\.old) } catch {
            // kept: a text on a damaged page.
            return nil
        }
    }

    private func add(_ change: FoundChange) throws {
        do { try FoundChanges.add(db, change, schema, now: now) } catch let failure as StoreFailure {
            try Journal.event(db, .quarantined, change.record, detail: failure.message, at: now)
        }
    }

    private func tellUnread(_ record: RecordKey) throws {
        let detail = "its row cannot be read in the damaged file, and was sent to no server"
        try Journal.event(db, .quarantined, record, detail: detail, at: now)
    }

    // MARK: - What shows

    /// The rows that the saved changes make by themselves are there again at once (I6), and those that stay on this device; edits and
    /// deletes find theirs when the download brings it: until then nothing is known of it, as of what left the device (``RecordState/away``).
    ///
    /// What cannot stand yet, for want of its parent most of all, is held: the download brings the parent, and nothing else would
    /// look for the row, not even the verdict of its create, which finds it made where nothing is held.
    func show() throws {
        try noteUnknown()
        let sql = "SELECT entity, id FROM sync_change WHERE operation = 0 ORDER BY position"
        try show(Row.fetchAll(db, sql: sql).map { RecordKey($0[0], $0[1]) })
        let waiting = try showLocal()
        if !waiting.isEmpty {
            try Drafts.hold(db, waiting, schema)
            try show(waiting)
        }
    }

    /// Else a row would be made of what an edit names, and stay where the server does not have the record any more (seed 76 with
    /// `--damage`).
    private func noteUnknown() throws {
        let sql = "SELECT DISTINCT entity, id FROM sync_change WHERE operation <> 0"
        for key in try Row.fetchAll(db, sql: sql).map({ RecordKey($0[0], $0[1]) }) {
            guard let entity = schema[key.entity], try !RowWriter(entity).exists(db, key.id),
                try StoredRecord.read(db, key) == nil,
                let first = try Base.remaining(db, of: key, schema).first, first.operation != .create
            else { continue }
            try StoredRecord(version: 0, base: .away).write(db, key)
        }
    }

    private func show(_ records: [RecordKey]) throws {
        var shown: [RecordKey] = []
        try RowWriter.applying(db) {
            for key in records {
                guard let fields = try made(key) else { continue }
                if let missing = try table(key)?.missing(key, fields) {
                    let detail = "its unsent changes refer to \(missing), which is not here"
                    try hold(key, .unsent, detail, waits: missing)
                } else if try write(key, fields) {
                    shown.append(key)
                }
            }
            try takeBackBroken(of: shown)
        }
    }

    /// What the record's own changes make of it; `nil` where that is no row.
    private func made(_ key: RecordKey) throws -> [String: FieldValue]? {
        guard let entity = schema[key.entity] else { return nil }
        let shown = Replay(deltas: LastWriterDeltas()).state(of: try Base.remaining(db, of: key, schema), onto: .absent)
        return shown.isLive ? shown.fields.filter { entity.field($0.key) != nil } : nil
    }

    private func table(_ key: RecordKey) -> AppliedTable? {
        schema[key.entity].map {
            AppliedTable(db, $0, schema, foreignKeys: context.foreignKeys[$0.name] ?? [:])
        }
    }

    /// - Returns: whether the row is there; if not, the record is held.
    private func write(_ key: RecordKey, _ fields: [String: FieldValue]) throws -> Bool {
        guard let entity = schema[key.entity] else { return false }
        do {
            try db.inSavepoint {
                try RowWriter(entity).upsert(db, key.id, fields)
                return .commit
            }
            return true
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            try hold(key, .constraint, error.message)
            try Journal.event(db, .quarantined, key, detail: error.message, at: now)
            return false
        }
    }

    private func hold(
        _ key: RecordKey, _ reason: HeldRecord.Reason, _ detail: String?, waits: RecordKey? = nil
    ) throws {
        let unsaid = ServerRecord(key: key, version: 0, presence: .deleted)
        try HeldRecords.hold(db, unsaid, reason, detail: detail, waits: waits)
    }

    /// Foreign keys are checked at the commit, which would fail, and with it each opening. One of a single column was looked at
    /// before; of any other it is only told for the whole table.
    private func takeBackBroken(of records: [RecordKey]) throws {
        var left = records
        while !left.isEmpty {
            let tables = try String.fetchSet(db, sql: #"SELECT DISTINCT lower("table") FROM pragma_foreign_key_check"#)
            let out = left.filter { tables.contains(schema[$0.entity]?.table.lowercased() ?? "") }
            guard !out.isEmpty else { break }
            left.removeAll { out.contains($0) }
            for key in out { try schema[key.entity].map { _ = try RowWriter($0).delete(db, key.id) } }
        }
        // Those that went along with their parents, too.
        for key in records {
            guard let entity = schema[key.entity], try !RowWriter(entity).exists(db, key.id) else { continue }
            try hold(key, .constraint, "a foreign key of “\(entity.table)”")
        }
    }

    // MARK: - What stays here

    /// Rows that are kept on this device stand nowhere else.
    /// - Returns: those that cannot stand here before something else comes: they are drafts by now, of which nothing is sent either.
    private func showLocal() throws -> [RecordKey] {
        let order = Dictionary(uniqueKeysWithValues: schema.entities.enumerated().map { ($1.name, $0) })
        var open = try Drafts.localRoots(db).keys.filter { order[$0.entity] != nil }.sorted {
            (order[$0.entity] ?? 0, $0.id) < (order[$1.entity] ?? 0, $1.id)
        }
        // Those that need another one of their own kind come after it.
        var isMoving = true
        while isMoving {
            isMoving = false
            for key in open {
                guard let entity = schema[key.entity], let fields = broken.fields(of: key, entity),
                    try table(key)?.missing(key, fields) == nil
                else { continue }
                var isWritten = false
                try RowWriter.applying(db) { isWritten = try write(key, fields) }
                if isWritten {
                    open.removeAll { $0 == key }
                    isMoving = true
                }
            }
        }
        return try open.filter { key in
            guard let entity = schema[key.entity] else { return false }
            guard let fields = broken.fields(of: key, entity) else {
                try tellUnread(key)
                return false
            }
            try Drafts.share(db, key, fields, schema, now: now)
            return true
        }
    }
}
