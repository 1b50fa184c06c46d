import GRDB
public import SyncCore

/// Rows that do not go out: drafts, which are held back until they are released, and rows that stay on this device.
///
/// A draft's changes are in the queue like any other, blocked by the draft (``root(of:_:)``), and so is what needs its
/// create: all of it is counted, and nothing of it is lost by a sign-out that asks first. A local row has no changes; what
/// refers to it waits for it. Marks are looked at when a claim is made, so a mark and a write may stand in either order.
enum Drafts {
    enum Kind: Int64 {
        case held = 1
        case local = 2
    }

    static func isEmpty(_ db: Database) throws -> Bool {
        try Row.fetchOne(db.cachedStatement(sql: "SELECT 1 FROM sync_draft LIMIT 1")) == nil
    }

    static func kind(_ db: Database, of record: RecordKey) throws -> Kind? {
        let statement = try db.cachedStatement(sql: "SELECT kind FROM sync_draft WHERE entity = ? AND id = ?")
        return try Int64.fetchOne(statement, arguments: [record.entity, record.id]).flatMap(Kind.init)
    }

    /// What blocked changes name as the reason, in place of a change's key.
    static func root(of record: RecordKey, _ kind: Kind) -> String {
        "\(kind == .held ? "held" : "local"):\(record.entity)/\(record.id)"
    }

    /// The local rows, as what blocks the changes that refer to them.
    static func localRoots(_ db: Database) throws -> [RecordKey: String] {
        let rows = try Row.fetchAll(db.cachedStatement(sql: "SELECT entity, id FROM sync_draft WHERE kind = 2"))
        let keys = rows.map { RecordKey($0[0], $0[1]) }
        return Dictionary(uniqueKeysWithValues: keys.map { ($0, root(of: $0, .local)) })
    }

    /// Local rows that are not there, since their user deleted them: nothing waits for one. Its mark stays, for a user who takes that back.
    static func gone(_ db: Database, _ schema: Schema) throws -> [RecordKey] {
        let entities = try String.fetchAll(
            db.cachedStatement(sql: "SELECT DISTINCT entity FROM sync_draft WHERE kind = 2 ORDER BY entity"))
        return try entities.flatMap { name -> [RecordKey] in
            // What lives elsewhere is its handler's to tell.
            guard let entity = schema[name], try db.tableExists(entity.table) else { return [] }
            let sql = """
                SELECT draft.id FROM sync_draft AS draft WHERE draft.entity = ? AND draft.kind = 2 AND NOT EXISTS (
                  SELECT 1 FROM \(RowWriter.quoted(entity.table)) AS present
                  WHERE present.\(RowWriter.quoted(entity.keyColumn)) = draft.id) ORDER BY draft.id
                """
            return try String.fetchAll(db.cachedStatement(sql: sql), arguments: [name]).map { RecordKey(name, $0) }
        }
    }

    /// How many changes wait for rows that are gone, until the next claim.
    static func waitingForGone(_ db: Database, _ schema: Schema) throws -> Int {
        let statement = try db.cachedStatement(
            sql: "SELECT count(*) FROM sync_change WHERE state <> 0 AND state IN (3, 5) AND blockedBy = ?")
        return try gone(db, schema).reduce(0) {
            try $0 + (Int.fetchOne(statement, arguments: [root(of: $1, .local)]) ?? 0)
        }
    }

    /// What waits for rows that are gone goes: the server says of it what it says of all that names what it does not know.
    static func freeGone(_ db: Database, _ schema: Schema) throws {
        for record in try gone(db, schema) { try ChangeRows.release(db, blockedBy: root(of: record, .local)) }
    }

    /// Never-sent changes of drafts that no claim has marked yet: their places, and what each waits for.
    static func newlyHeld(_ db: Database) throws -> [Int64: String] {
        let sql = """
            SELECT position, change.entity, change.id FROM sync_draft AS draft CROSS JOIN sync_change AS change
            ON change.entity = draft.entity AND change.id = draft.id WHERE draft.kind = 1 AND change.state = 0
            """
        let rows = try Row.fetchAll(db.cachedStatement(sql: sql))
        return Dictionary(uniqueKeysWithValues: rows.map { ($0[0], root(of: RecordKey($0[1], $0[2]), .held)) })
    }

    // MARK: Marking

    /// Holds records back: what was never sent of them waits, with what needs their creates.
    static func hold(_ db: Database, _ records: [RecordKey], _ schema: Schema) throws {
        try ChangeRows.fold(db)
        var first: Int64?
        for record in records {
            try check(record, schema)
            guard try kind(db, of: record) == nil else { continue }
            try set(db, record, .held)
            let sql = "SELECT position FROM sync_change WHERE entity = ? AND id = ? AND state = 0 ORDER BY position"
            let statement = try db.cachedStatement(sql: sql)
            for position in try Int64.fetchAll(statement, arguments: [record.entity, record.id]) {
                try ChangeRows.setState(db, position: position, .blocked, blockedBy: root(of: record, .held))
                first = min(first ?? position, position)
            }
        }
        if let first { try Needs(schema: schema).mark(db, after: first) }
    }

    /// Keeps records on this device: what was never sent of them leaves the queue, and nothing more is captured.
    /// - Throws: ``StoreFailure`` (`invalid`) for one that the server knows, or may know.
    static func keepLocal(_ db: Database, _ records: [RecordKey], _ schema: Schema) throws {
        try ChangeRows.fold(db)
        for record in records {
            try check(record, schema)
            let arguments: StatementArguments = [record.entity, record.id]
            let known = "SELECT 1 FROM sync_record WHERE entity = ? AND id = ? AND version > 0"
            let sent = "SELECT 1 FROM sync_change WHERE entity = ? AND id = ? AND state NOT IN (0, 3) LIMIT 1"
            for sql in [known, sent] where try Row.fetchOne(db.cachedStatement(sql: sql), arguments: arguments) != nil {
                throw StoreFailure(
                    kind: .invalid, message: "\(record) was sent to the server; it cannot be kept on this device alone."
                )
            }
            try set(db, record, .local)
            let keys = try String.fetchAll(
                db.cachedStatement(sql: "SELECT key FROM sync_change WHERE entity = ? AND id = ?"), arguments: arguments
            )
            try db.cachedStatement(sql: "DELETE FROM sync_change WHERE entity = ? AND id = ?")
                .execute(arguments: arguments)
            try ChangeRows.count(db, -keys.count)
            try ChangeRows.release(db, blockedBy: root(of: record, .held))
        }
        try TriggerSetup.watchLocal(db, schema)
        if !records.isEmpty { try Needs(schema: schema).mark(db, after: 0) }
    }

    /// Lets records go: a draft's changes are sent, a local row becomes a create with all that waited for it behind.
    static func release(_ db: Database, _ records: [RecordKey], _ schema: Schema, now: Int64) throws {
        try ChangeRows.fold(db)
        for record in records {
            guard let kind = try kind(db, of: record) else { continue }
            try db.cachedStatement(sql: "DELETE FROM sync_draft WHERE entity = ? AND id = ?")
                .execute(arguments: [record.entity, record.id])
            if kind == .local { try share(db, record, schema, now: now) }
            try ChangeRows.release(db, blockedBy: root(of: record, kind))
        }
    }

    private static func share(_ db: Database, _ record: RecordKey, _ schema: Schema, now: Int64) throws {
        guard let entity = schema[record.entity], let fields = try RowWriter(entity).read(db, record.id) else { return }
        try add(db, record, fields, schema, now: now)
    }

    /// A row that stays here becomes a draft, with these fields for its create.
    static func share(
        _ db: Database, _ record: RecordKey, _ fields: [String: FieldValue], _ schema: Schema, now: Int64
    ) throws {
        try db.cachedStatement(sql: "DELETE FROM sync_draft WHERE entity = ? AND id = ?")
            .execute(arguments: [record.entity, record.id])
        try add(db, record, fields, schema, now: now)
        try ChangeRows.release(db, blockedBy: root(of: record, .local))
    }

    /// The server has a record under a local row's id: it is everybody's from now on, and what waited for it waits no more.
    static func isTaken(_ db: Database, _ record: RecordKey) throws {
        try db.cachedStatement(sql: "DELETE FROM sync_draft WHERE entity = ? AND id = ?")
            .execute(arguments: [record.entity, record.id])
        try ChangeRows.release(db, blockedBy: root(of: record, .local))
    }

    /// What needs the row goes behind its create, whether it was marked as waiting for that yet or waits for something else, too
    /// (seeds 67 and 79 with `--drafts`), with all that stands behind the first of it, so that no order changes and no unit is torn (102).
    /// What was sent once, as with a create that was given up since, keeps its number (33), and so does what a device may have sent of
    /// which this one is a copy (190).
    private static func add(
        _ db: Database, _ record: RecordKey, _ fields: [String: FieldValue], _ schema: Schema, now: Int64
    ) throws {
        let first = try Needs(schema: schema).following(
            db, 0, among: [record: root(of: record, .local)], and: [:], withBlocked: true
        ).first?.position
        let moving = try Row.fetchAll(
            db,
            sql: """
                SELECT position, state = 5 OR device IS NOT NULL FROM sync_change
                WHERE position >= ? AND state IN (0, 3, 5) ORDER BY position
                """, arguments: [first ?? .max])
        try FoundChanges.add(db, .create(record, fields), schema, now: now)
        let move = try db.cachedStatement(
            sql: "UPDATE sync_change SET position = ?1, sequence = iif(?3, sequence, ?1) WHERE position = ?2")
        let place = try ChangeRows.sequence(db)
        for row in moving {
            try move.execute(arguments: [try ChangeRows.nextSequence(db), row[0] as Int64, row[1] as Bool])
        }
        if !moving.isEmpty { try standInFront(db, place, schema) }
    }

    /// What the row itself refers to may have been written after what needs it, and stand behind its create now: then that stands there
    /// as a successor does, and waits for it (seed 20183 with `--server-ids --drafts`).
    private static func standInFront(_ db: Database, _ place: Int64, _ schema: Schema) throws {
        guard var create = try ChangeRows.read(db, position: place, schema) else { return }
        create.sequence = .max
        guard try Needs(schema: schema).createBehind(db, of: create) != nil else { return }
        let sequence = try ChangeRows.nextSequence(db)
        let sql = "UPDATE sync_change SET sequence = ?, key = ? WHERE position = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [sequence, try Clock.key(db), place])
    }

    private static func check(_ record: RecordKey, _ schema: Schema) throws {
        guard schema[record.entity] != nil else {
            throw StoreFailure(
                kind: .invalid, message: "“\(record.entity)” is not declared: its rows never leave this device.")
        }
    }

    private static func set(_ db: Database, _ record: RecordKey, _ kind: Kind) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO sync_draft (entity, id, kind) VALUES (?, ?, ?)
                ON CONFLICT (entity, id) DO UPDATE SET kind = excluded.kind
                """
        ).execute(arguments: [record.entity, record.id, kind.rawValue])
    }
}

/// A row that does not go out.
public struct Draft: Sendable, Hashable {
    public var record: RecordKey
    /// It stays on this device until it is released; else it is a draft, whose changes wait in the queue.
    public var isLocal: Bool

    public init(record: RecordKey, isLocal: Bool) {
        self.record = record
        self.isLocal = isLocal
    }
}
