import GRDB
import SyncCore

/// The statements over `sync_change`, each by its primary key or an index.
enum ChangeRows {
    /// Stored deltas, operation, schema and stamp become those of `change`; never for one that was sent.
    static func rewrite(_ db: Database, _ change: StoredChange) throws {
        let sql = "UPDATE sync_change SET operation = ?, stamp = ?, fields = ? WHERE position = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [
            change.operation.number, Int64(bitPattern: change.stamp.packed),
            try DeltaCodec.json(change.fields, operation: change.operation), change.position,
        ])
    }

    /// A row for a new change; the caller counts it (``count(_:_:)``).
    static func insert(_ db: Database, _ change: StoredChange) throws {
        let sql = """
            INSERT INTO sync_change (\(StoredChange.columns), "offset", seen)
            SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "offset", seen FROM sync_clock WHERE one = 1
            """
        try db.cachedStatement(sql: sql).execute(arguments: [
            change.position, change.sequence, change.key, change.record.entity, change.record.id,
            change.operation.number, change.schema, Int64(bitPattern: change.stamp.packed), change.madeAt,
            try DeltaCodec.json(change.fields, operation: change.operation), change.state.rawValue, change.baseVersion,
            change.unit, change.intent, change.device, change.attempts, change.conflicts, change.blockedBy,
        ])
    }

    /// The whole row becomes `change`, at its place: a successor.
    static func replace(_ db: Database, _ change: StoredChange) throws {
        let sql = """
            UPDATE sync_change SET sequence = ?, key = ?, operation = ?, stamp = ?, fields = ?, state = ?,
              baseVersion = ?, device = ?, attempts = ?, conflicts = ?, blockedBy = ?
            WHERE position = ?
            """
        try db.cachedStatement(sql: sql).execute(arguments: [
            change.sequence, change.key, change.operation.number, Int64(bitPattern: change.stamp.packed),
            try DeltaCodec.json(change.fields, operation: change.operation), change.state.rawValue, change.baseVersion,
            change.device, change.attempts, change.conflicts, change.blockedBy, change.position,
        ])
    }

    /// The row goes; the caller counts it (``count(_:_:)``), once for many.
    static func delete(_ db: Database, position: Int64) throws {
        try db.cachedStatement(sql: "DELETE FROM sync_change WHERE position = ?").execute(arguments: [position])
    }

    /// The state, what it waits for, and nothing else.
    static func setState(
        _ db: Database, position: Int64, _ state: StoredChange.State, blockedBy: String? = nil
    ) throws {
        try db.cachedStatement(sql: "UPDATE sync_change SET state = ?, blockedBy = ? WHERE position = ?")
            .execute(arguments: [state.rawValue, blockedBy, position])
    }

    /// What the change waited for is no more: those that were sent stay as they were sent.
    /// - Returns: whether anything waited.
    @discardableResult
    static func release(_ db: Database, blockedBy key: String) throws -> Bool {
        let sql = """
            UPDATE sync_change SET state = CASE state WHEN 5 THEN 2 ELSE 0 END, blockedBy = NULL
            WHERE state <> 0 AND state IN (3, 5) AND blockedBy = ?
            """
        try db.cachedStatement(sql: sql).execute(arguments: [key])
        return db.changesCount > 0
    }

    /// A change that waits is to wait no more, or goes: whether those of its record behind it wait for anything else is for the
    /// next claim to say (Decision 265). An inverse that waits for the verdict of what it takes back goes on waiting (Decision 335).
    static func release(_ db: Database, behind change: StoredChange) throws {
        guard change.blockedBy != nil else { return }
        let sql = """
            UPDATE sync_change SET state = CASE state WHEN 5 THEN 2 ELSE 0 END, blockedBy = NULL
            WHERE entity = ? AND id = ? AND position > ? AND state IN (3, 5) AND NOT \(waitsForVerdict)
            """
        try db.cachedStatement(sql: sql)
            .execute(arguments: [change.record.entity, change.record.id, change.position])
    }

    /// The change whose verdict an inverse waits for (Decision 335); `nil` where it waits for nothing of the kind, and for what waits
    /// behind such an inverse and is none itself (seed 91590).
    static func undone(_ db: Database, by change: StoredChange) throws -> String? {
        guard change.state == .blocked else { return nil }
        let sql = """
            SELECT blockedBy FROM sync_change WHERE position = ? AND \(waitsForVerdict)
            AND key IN (SELECT detail FROM sync_event WHERE kind = 'inverted')
            """
        return try String.fetchOne(db.cachedStatement(sql: sql), arguments: [change.position])
    }

    private static let waitsForVerdict = """
        (state = 3 AND EXISTS (
          SELECT 1 FROM sync_change AS undone WHERE undone.entity = sync_change.entity AND undone.id = sync_change.id
            AND undone.key = sync_change.blockedBy AND undone.operation = 1 AND undone.state <> 4))
        """

    /// What waits for one change waits for another from now on.
    static func hand(_ db: Database, blockedBy key: String, to other: String) throws {
        let sql = "UPDATE sync_change SET blockedBy = ? WHERE state <> 0 AND state IN (3, 5) AND blockedBy = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [other, key])
    }

    /// The change at a place.
    static func read(_ db: Database, position: Int64, _ schema: Schema) throws -> StoredChange? {
        let sql = "SELECT \(StoredChange.columns) FROM sync_change WHERE position = ?"
        let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [position])
        return row.map { StoredChange(lenient: $0, schema) }
    }

    /// The next number for a change of this device.
    static func nextSequence(_ db: Database) throws -> Int64 {
        try db.cachedStatement(sql: CaptureSQL.advance).execute()
        return try sequence(db)
    }

    /// The number of the last change made here.
    static func sequence(_ db: Database) throws -> Int64 {
        // Asked twice in each of the engine's transactions.
        let row = try RawStatement(db, "SELECT \(CaptureSQL.sequence) FROM sync_clock WHERE one = 1")
        row.begin()
        defer { row.begin() }
        return try row.step() ? row.integer(0) ?? 0 : 0
    }

    /// Brings the clock up to what triggers have put into the queue, before anything is taken out of it: numbers, stamps and
    /// the count follow from the newest change until then.
    static func fold(_ db: Database) throws {
        let sql = """
            UPDATE sync_clock SET \(CaptureSQL.fold), sequence = \(CaptureSQL.sequence)
            WHERE one = 1 AND sequence < (SELECT max(position) FROM sync_change)
            """
        try db.cachedStatement(sql: sql).execute()
    }

    /// The same; only where there is something to bring up is anything written.
    /// - Returns: the number of the last change made here.
    static func foldIfNeeded(_ db: Database) throws -> Int64 {
        let row = try RawStatement(db, "SELECT sequence, \(CaptureSQL.last) FROM sync_clock WHERE one = 1")
        row.begin()
        guard try row.step(), let sequence = row.integer(0), let last = row.integer(1) else { return 0 }
        row.begin()
        if sequence < last { try fold(db) }
        return max(sequence, last)
    }

    /// A stamp for a write made now, by the server's time as far as it is known, above all that were given or seen.
    static func nextStamp(_ db: Database, now: Int64) throws -> Stamp {
        try db.cachedStatement(
            sql: """
                UPDATE sync_clock SET stamp = max(
                  stamp + 1, \(CaptureSQL.foundStamp) + 1, (coalesce(wall, ?) + coalesce("offset", 0)) << 16)
                WHERE one = 1
                """
        ).execute(arguments: [now])
        let packed = try Int64.fetchOne(db.cachedStatement(sql: "SELECT stamp FROM sync_clock WHERE one = 1")) ?? 0
        return Stamp(packed: UInt64(bitPattern: packed))
    }

    /// How many rows `sync_change` has; what triggers put there since the last ``fold(_:)`` follows from its numbers, so that nobody must count a long
    /// queue.
    static func queued(_ db: Database) throws -> Int {
        let sql = "SELECT queued + max(0, \(CaptureSQL.last) - sequence) FROM sync_clock WHERE one = 1"
        return try Int.fetchOne(db.cachedStatement(sql: sql)) ?? 0
    }

    /// How many rows there are, and the number of the last change made here.
    static func extent(_ db: Database) throws -> (queued: Int, sequence: Int64) {
        let row = try RawStatement(db, "SELECT queued, sequence, \(CaptureSQL.last) FROM sync_clock WHERE one = 1")
        row.begin()
        defer { row.begin() }
        guard try row.step(), let queued = row.integer(0), let sequence = row.integer(1), let last = row.integer(2)
        else {
            return (0, 0)
        }
        return (Int(queued + max(0, last - sequence)), max(sequence, last))
    }

    /// Keeps ``queued(_:)`` right after rows were made or taken away.
    static func count(_ db: Database, _ difference: Int) throws {
        guard difference != 0 else { return }
        try db.cachedStatement(sql: "UPDATE sync_clock SET queued = queued + ? WHERE one = 1")
            .execute(arguments: [difference])
    }
}
