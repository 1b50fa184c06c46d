import GRDB
import SyncCore

/// The engine's own tables, all named `sync_…`, and their numbered versions (DESIGN.md, D8).
///
/// The number stands in `sync_meta` under `format`. Every step from one number to the next runs in one transaction with
/// its number, so a file killed at any statement is of the old or of the new format. A newer number than this program
/// knows is refused before anything is written.
enum EngineTables {
    /// The format that this program writes.
    static let format: Int64 = 4

    /// The format of the file; `nil` for one without engine tables.
    static func found(_ db: Database) throws -> Int64? {
        let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'sync_meta'"
        guard try Row.fetchOne(db, sql: sql) != nil else { return nil }
        return try Meta.integer(db, .format) ?? 0
    }

    /// Whether there is such a table now. GRDB's own answer for a connection that writes is as old as that one's last change of the
    /// schema, and another process may have made it since (seed 94 of those with handlers).
    static func exists(_ db: Database, _ table: String) throws -> Bool {
        let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [table]) != nil
    }

    /// Makes or upgrades the tables inside the caller's transaction.
    /// - Throws: ``StoreFailure`` (`refused`) for a file of a newer program.
    static func migrate(_ db: Database) throws {
        let found = try found(db) ?? 0
        guard found <= format else { throw newer(found) }
        for number in stride(from: found + 1, through: format, by: 1) {
            for statement in steps[Int(number) - 1] { try db.execute(sql: statement) }
        }
        if found < format { try Meta.set(db, .format, format) }
    }

    /// Takes everything out but the format, the clock and what says where the file is.
    static func empty(_ db: Database) throws {
        let tables = [
            "sync_change", "sync_record", "sync_failure", "sync_conflict", "sync_held", "sync_replaced",
            "sync_identity",
            "sync_download", "sync_event", "sync_cycle", "sync_draft", "sync_dirty",
        ]
        for table in tables { try db.execute(sql: "DELETE FROM \(table)") }
        try Payloads.empty(db)
        try Untold.empty(db)
        try db.execute(sql: "UPDATE sync_clock SET queued = 0, \"unit\" = NULL, intent = NULL")
        let keys: [Meta.Key] = [.format, .home, .install, .systemStart, .generation, .schema]
        let kept = keys.map { "'\($0.rawValue)'" }.joined(separator: ", ")
        try db.execute(sql: "DELETE FROM sync_meta WHERE key NOT IN (\(kept))")
    }

    /// What each table is made by, by its name. No step has changed the text of one.
    static let texts: [String: String] = Dictionary(
        uniqueKeysWithValues: steps.joined().compactMap { sql -> (String, String)? in
            let begin = "CREATE TABLE "
            guard sql.hasPrefix(begin) else { return nil }
            return (String(sql.dropFirst(begin.count).prefix { $0 != " " }), sql)
        })

    /// Whether a table has another text than this module gave it, which makes sense to SQLite and has other columns, say (PRC-14).
    ///
    /// Asked where an opening failed for no known reason.
    static func areDamaged(_ read: Reading) -> Bool {
        do {
            return try read { db in
                let present = try Row.fetchAll(db, sql: "SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
                return present.contains { row in
                    let sound = String.fromDatabaseValue(row[0]).flatMap { texts[$0] }
                    return sound != nil && String.fromDatabaseValue(row[1]) != sound
                }
            }
        } catch {
            return false  // kept: the opening's own error is told.
        }
    }

    /// What a file of a newer program is refused with.
    static func newer(_ found: Int64) -> StoreFailure {
        StoreFailure(
            kind: .refused,
            message: "The database has engine tables of format \(found); this program knows up to \(format). "
                + "Open it with a newer version; nothing was changed.")
    }

    /// `steps[n]` leads from format n to format n + 1.
    private static let steps: [[String]] = [
        [
            """
            CREATE TABLE sync_meta (key TEXT PRIMARY KEY NOT NULL, value) WITHOUT ROWID
            """,
            """
            CREATE TABLE sync_clock (
              one INTEGER PRIMARY KEY CHECK (one = 1), applying INTEGER NOT NULL DEFAULT 0,
              sequence INTEGER NOT NULL DEFAULT 0, stamp INTEGER NOT NULL DEFAULT 0,
              queued INTEGER NOT NULL DEFAULT 0,
              wall INTEGER, seed INTEGER, "unit" TEXT, intent TEXT,
              "offset" INTEGER, seen INTEGER NOT NULL DEFAULT 0)
            """,
            """
            INSERT INTO sync_clock (one) VALUES (1)
            """,
            """
            CREATE TABLE sync_change (
              position INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, key TEXT NOT NULL,
              entity TEXT NOT NULL, id TEXT NOT NULL, operation INTEGER NOT NULL, schema INTEGER NOT NULL,
              stamp INTEGER NOT NULL, madeAt INTEGER NOT NULL, fields TEXT NOT NULL,
              state INTEGER NOT NULL DEFAULT 0, baseVersion INTEGER, "unit" TEXT, intent TEXT, device TEXT,
              attempts INTEGER NOT NULL DEFAULT 0, conflicts INTEGER NOT NULL DEFAULT 0, blockedBy TEXT,
              "offset" INTEGER, seen INTEGER NOT NULL DEFAULT 0)
            """,
            "CREATE INDEX sync_change_record ON sync_change (entity, id)",
            "CREATE INDEX sync_change_successor ON sync_change (sequence) WHERE sequence <> position",
            "CREATE INDEX sync_change_aside ON sync_change (state, blockedBy) WHERE state <> 0",
            """
            CREATE TABLE sync_record (
              entity TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, base TEXT, extra TEXT, pass INTEGER,
              PRIMARY KEY (entity, id)) WITHOUT ROWID
            """,
            """
            CREATE TABLE sync_failure (
              key TEXT PRIMARY KEY NOT NULL, position INTEGER NOT NULL, reason TEXT NOT NULL,
              failedAt INTEGER NOT NULL, uncertain INTEGER NOT NULL) WITHOUT ROWID
            """,
            """
            CREATE TABLE sync_conflict (
              number INTEGER PRIMARY KEY, key TEXT, entity TEXT NOT NULL, id TEXT NOT NULL, field TEXT, mine TEXT,
              theirs TEXT, winner TEXT, rule TEXT, at INTEGER NOT NULL, kind TEXT NOT NULL,
              UNIQUE (key, field, kind))
            """,
            """
            CREATE TABLE sync_held (
              entity TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, reason TEXT NOT NULL, detail TEXT,
              waitsEntity TEXT, waitsID TEXT, record TEXT NOT NULL,
              PRIMARY KEY (entity, id)) WITHOUT ROWID
            """,
            "CREATE INDEX sync_held_waits ON sync_held (waitsEntity, waitsID) WHERE waitsEntity IS NOT NULL",
            "CREATE INDEX sync_held_reason ON sync_held (reason, version)",
            """
            CREATE TABLE sync_replaced (
              entity TEXT NOT NULL, id TEXT NOT NULL, cause TEXT NOT NULL, fields TEXT NOT NULL,
              PRIMARY KEY (entity, id)) WITHOUT ROWID
            """,
            """
            CREATE TABLE sync_identity (
              entity TEXT NOT NULL, id TEXT NOT NULL, serverID TEXT NOT NULL, PRIMARY KEY (entity, id)) WITHOUT ROWID
            """,
            "CREATE UNIQUE INDEX sync_identity_server ON sync_identity (entity, serverID)",
            """
            CREATE TABLE sync_download (
              scope TEXT PRIMARY KEY NOT NULL, priority INTEGER NOT NULL, asked INTEGER NOT NULL,
              claimed INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID
            """,
            """
            CREATE TABLE sync_lease (
              one INTEGER PRIMARY KEY CHECK (one = 1), holder TEXT, generation INTEGER NOT NULL, expires INTEGER)
            """,
            """
            CREATE TABLE sync_event (
              number INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, entity TEXT, id TEXT, key TEXT,
              detail TEXT)
            """,
            "CREATE TABLE sync_cycle (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, summary TEXT NOT NULL)",
        ],
        [
            """
            CREATE TABLE sync_draft (
              entity TEXT NOT NULL, id TEXT NOT NULL, kind INTEGER NOT NULL, PRIMARY KEY (entity, id)) WITHOUT ROWID
            """,
            """
            CREATE TABLE sync_dirty (
              entity TEXT NOT NULL, id TEXT NOT NULL, seen TEXT, edits INTEGER, gone INTEGER NOT NULL DEFAULT 0,
              done INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (entity, id)) WITHOUT ROWID
            """,
            "CREATE INDEX sync_dirty_gone ON sync_dirty (entity, id) WHERE gone = 1",
            "CREATE INDEX sync_dirty_done ON sync_dirty (entity, id) WHERE done = 1",
            "INSERT INTO sync_meta (key, value) SELECT 'highest', coalesce(max(version), 0) FROM sync_record",
        ],
        [
            // What triggers write goes by here: the newest change's place and stamp stand in for the clock's, which a captured
            // write then need not touch. They come as values, since a statement that reads the table that it inserts into makes
            // a copy first.
            """
            CREATE VIEW sync_enqueue AS
            SELECT 0 AS last, 0 AS lastStamp, '' AS entity, '' AS id, 0 AS operation, 0 AS schema, '' AS fields
            """,
            enqueueing,
        ],
        [
            // Keys that sort by the time they were made.
            "DROP TRIGGER sync_enqueue_change",
            enqueueing,
        ],
    ]

    /// Gives a captured change its number, key and stamp.
    private static let enqueueing = """
        CREATE TRIGGER sync_enqueue_change INSTEAD OF INSERT ON sync_enqueue
        BEGIN
          INSERT INTO sync_change
            (position, sequence, key, entity, id, operation, schema, stamp, madeAt, fields, "unit", intent, "offset", seen)
          SELECT max(sequence, NEW.last) + 1, max(sequence, NEW.last) + 1,
            \(CaptureSQL.key(for: "max(sequence, NEW.last) + 1")),
            NEW.entity, NEW.id, NEW.operation, NEW.schema,
            max(stamp + 1, NEW.lastStamp + 1, (\(CaptureSQL.wall) + coalesce("offset", 0)) << 16),
            \(CaptureSQL.wall), NEW.fields, "unit", intent, "offset", seen
          FROM sync_clock WHERE one = 1;
        END
        """
}
