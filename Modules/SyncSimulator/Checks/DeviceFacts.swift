import GRDB
import SyncCore

/// What a device's tables say at one moment, read with plain SQL.
struct DeviceFacts {
    struct Queued {
        let key: String
        let sequence: Int64
        let record: RecordKey
        /// What the device calls it.
        let here: RecordKey
        let operation: Int64
        /// The number in the column: 0 pending, 1 uploading, 2 uncertain, 3 and 5 blocked, 4 failed.
        let state: Int64
        let blockedBy: String?
    }

    let rows: Rows
    let queue: [Queued]
    let versions: [RecordKey: Int64]
    /// Records that are dead by the server's word, and show for what is unsent on them or under them.
    let dead: Set<RecordKey>
    let held: Set<RecordKey>
    /// Those of them that are to go once nothing under them is unsent.
    let heldForUnsent: Set<RecordKey>
    /// The parents that rows had which were deleted here or moved away, where something is held for what is unsent under it: no row
    /// tells any more, and the row above goes with the engine's next step.
    let parentsBefore: Set<RecordKey>
    /// Rows that stay on the device: nothing of them is recorded.
    let localRows: Set<RecordKey>
    /// The same, as the device calls them.
    let localHere: Set<RecordKey>
    /// Records that are held back, as the device calls them.
    let heldBack: Set<RecordKey>
    /// Changes that ended here, by a durable event.
    let ended: Set<String>
    /// Records that a dirty flag marks, of which nobody has made changes yet.
    let marked: Set<RecordKey>
    let failures: Set<String>
    /// Those that were set aside since their record left the scopes.
    let left: Set<String>
    /// Those that were set aside for a reason that only a verdict gives.
    let refused: Set<String>
    let checkpoint: Int64
    let epoch: String?
    let isInFullPass: Bool
    /// The number of the full pass that ran last, or runs.
    let pass: Int64
    let deviceID: String
    /// The roots that it holds; `nil` for everything.
    let scopes: HeldScopes?

    /// - Parameter parsed: what JSON texts mean, kept for the next time.
    /// - Parameter ids: what records are called here.
    init(
        _ db: Database, _ schema: Schema, _ parsed: inout [String: FieldValue], _ ids: CanonicalIDs = CanonicalIDs()
    ) throws {
        var rows = try Rows(db, schema, &parsed, ids)
        var queue: [Queued] = []
        var unnamed: [RecordKey] = []
        try PlainRows(
            db, "SELECT key, sequence, entity, id, operation, state, blockedBy FROM sync_change ORDER BY position"
        ).forEach { row in
            let here = RecordKey(row.text(2), row.text(3))
            let record = ids.key(here)
            if ids.areTwo, row.integer(4) == 0, here == record { unnamed.append(record) }
            queue.append(
                Queued(
                    key: row.text(0), sequence: row.integer(1), record: record, here: here,
                    operation: row.integer(4), state: row.integer(5), blockedBy: row.isNull(6) ? nil : row.text(6)))
        }
        self.queue = queue
        rows.leaveOut(unnamed)
        self.rows = rows
        var versions: [RecordKey: Int64] = [:]
        let made = Set(unnamed)
        var dead: Set<RecordKey> = []
        try PlainRows(
            db,
            "SELECT entity, id, version, base IS NOT NULL AND coalesce(base ->> '$.deleted', 0) FROM sync_record"
        ).forEach { row in
            // Of one that is here under both ids, the one says what the other is to become; not to who makes it and was not told so: it may
            // hear of it when that one has died (seed 23799).
            let here = RecordKey(row.text(0), row.text(1))
            let record = ids.key(here)
            if row.integer(3) != 0 { dead.insert(record) }
            if here == record || !made.contains(record) {
                versions[record] = max(row.integer(2), versions[record] ?? 0)
            }
        }
        self.versions = versions
        self.dead = dead
        var (held, heldForUnsent): (Set<RecordKey>, Set<RecordKey>) = ([], [])
        try PlainRows(db, "SELECT entity, id, reason FROM sync_held").forEach { row in
            let record = ids.key(RecordKey(row.text(0), row.text(1)))
            held.insert(record)
            if row.text(2) == "unsent" { heldForUnsent.insert(record) }
        }
        self.held = held
        self.heldForUnsent = heldForUnsent
        parentsBefore = try heldForUnsent.isEmpty ? [] : Self.parentsBefore(db, schema, &parsed, ids)
        var (localHere, heldBack): (Set<RecordKey>, Set<RecordKey>) = ([], [])
        try PlainRows(db, "SELECT entity, id, kind FROM sync_draft").forEach { row in
            let here = RecordKey(row.text(0), row.text(1))
            if row.integer(2) == 2 { localHere.insert(here) } else { heldBack.insert(here) }
        }
        (self.localHere, self.heldBack) = (localHere, heldBack)
        localRows = Set(localHere.map(ids.key))
        var ended: Set<String> = []
        try PlainRows(db, "SELECT key FROM sync_event WHERE kind = 'cancelled' AND key IS NOT NULL").forEach { row in
            ended.insert(row.text(0))
        }
        self.ended = ended
        marked = try Self.marked(db, schema, ids)
        var (failures, left): (Set<String>, Set<String>) = ([], [])
        try PlainRows(db, "SELECT key, reason ->> '$.code' FROM sync_failure").forEach { row in
            failures.insert(row.text(0))
            if row.text(1) == "gone" { left.insert(row.text(0)) }
        }
        (self.failures, self.left) = (failures, left)
        // The engine's own reasons are these, and those that name the status of a whole answer.
        var refused: Set<String> = []
        try PlainRows(
            db,
            """
            SELECT key FROM sync_failure WHERE reason ->> '$.status' IS NULL
            AND reason ->> '$.code' NOT IN ('tooManyAttempts', 'conflict', 'gone', 'serverIDTaken')
            """
        ).forEach { row in refused.insert(row.text(0)) }
        self.refused = refused
        var (texts, numbers): ([String: String], [String: Int64]) = ([:], [:])
        try PlainRows(
            db,
            "SELECT key, value FROM sync_meta WHERE key IN ('checkpoint', 'epoch', 'passRuns', 'pass', 'device', 'scopes')"
        ).forEach { row in
            guard !row.isNull(1) else { return }
            texts[row.text(0)] = row.text(1)
            numbers[row.text(0)] = row.integer(1)
        }
        checkpoint = numbers["checkpoint"] ?? 0
        epoch = texts["epoch"]
        isInFullPass = numbers["passRuns"] == 1
        pass = numbers["pass"] ?? 0
        deviceID = texts["device"] ?? ""
        var named: Set<RecordKey> = []
        if ids.areTwo {
            // What the server told no other id for it calls as this device does: it does that where a request deletes a record that it
            // does not know, and makes it (seed 22343).
            let sql = "SELECT entity, id FROM sync_identity UNION SELECT entity, id FROM sync_record WHERE version > 0"
            // That the server's own is here beside it says nothing of the one (seed 1210 with `--damage --roots --server-ids`).
            try PlainRows(db, sql).forEach { row in
                let record = RecordKey(row.text(0), row.text(1))
                if ids.key(record) == record { named.insert(record) }
            }
        }
        scopes = try texts["scopes"].flatMap { try HeldScopes(json: $0, ids, named: named) }
    }

    private static func marked(_ db: Database, _ schema: Schema, _ ids: CanonicalIDs) throws -> Set<RecordKey> {
        var marked: Set<RecordKey> = []
        let flagged = schema.entities.filter { $0.capture == .dirtyFlag }
        for entity in flagged {
            let sql = "SELECT \"\(entity.keyColumn)\" FROM \"\(entity.table)\" WHERE is_dirty = 1"
            try PlainRows(db, sql).forEach { row in marked.insert(ids.key(RecordKey(entity.name, row.text(0)))) }
        }
        guard !flagged.isEmpty else { return [] }
        try PlainRows(db, "SELECT entity, id FROM sync_dirty WHERE gone = 1").forEach { row in
            marked.insert(ids.key(RecordKey(row.text(0), row.text(1))))
        }
        return marked
    }

    private static func parentsBefore(
        _ db: Database, _ schema: Schema, _ parsed: inout [String: FieldValue], _ ids: CanonicalIDs
    ) throws -> Set<RecordKey> {
        var parents: Set<RecordKey> = []
        try PlainRows(db, "SELECT entity, fields FROM sync_change WHERE operation IN (1, 2)").forEach { row in
            guard case .object(let fields) = try row.field(1, kind: .json, &parsed) else { return }
            for field in schema[row.text(0)]?.parents ?? [] {
                guard let target = field.reference?.entity, case .object(let delta)? = fields[field.name],
                    case .string(let id)? = delta["old"]
                else { continue }
                parents.insert(ids.key(RecordKey(target, id)))
            }
        }
        return parents
    }

    /// Changes that wait to be decided: neither set aside nor blocked.
    var undecided: [Queued] { queue.filter { $0.state <= 2 } }
    var failed: [Queued] { queue.filter { $0.state == 4 } }
    var blocked: [Queued] { queue.filter { $0.state == 3 || $0.state == 5 } }
}
