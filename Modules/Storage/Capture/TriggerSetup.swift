import GRDB
import SyncCore

/// Compares the triggers of the file with those that the declared fields ask for, and makes them anew where they differ.
enum TriggerSetup {
    static func install(_ db: Database, _ schema: Schema, now: Int64) throws {
        var wanted: [(name: String, sql: String)] = []
        for entity in schema.entities {
            if entity.capture == .dirtyFlag {
                // What is marked is found without a look at the rest.
                try db.execute(
                    sql: """
                        CREATE INDEX IF NOT EXISTS \(CaptureSQL.quoted("sync_dirty_rows_\(entity.name)")) \
                        ON \(CaptureSQL.quoted(entity.table)) (edits) WHERE is_dirty = 1
                        """)
            }
            wanted += try statements(db, entity)
        }
        let present = try Row.fetchAll(
            db,
            sql:
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'sync_capture_*'")
        var found = Dictionary(
            present.map { ($0[0] as String, $0[1] as String) }, uniquingKeysWith: { $1 })
        let isFirst = found.isEmpty
        var unwatched: Set<String> = []
        for (name, sql) in wanted {
            let old = found.removeValue(forKey: name)
            if old == sql { continue }
            if old == nil, name.hasSuffix("_insert") { unwatched.insert(name) }
            if old != nil { try db.execute(sql: "DROP TRIGGER \(CaptureSQL.quoted(name))") }
            try db.execute(sql: sql)
            if !isFirst { try Journal.event(db, .triggerRemade, detail: name, at: now) }
        }
        // No trigger saw what was inserted until now, unless a migration of the app's own wrote it.
        let wasMigrating = try Meta.integer(db, .migrating) == 1
        if wasMigrating { try Meta.set(db, .migrating, 0) }
        for entity in schema.entities
        where !wasMigrating && unwatched.contains("\(CaptureTriggers.prefix)\(entity.name)_insert") {
            try FoundChanges.addMissed(db, entity, schema, now: now)
        }
        for name in found.keys.sorted() {
            try db.execute(sql: "DROP TRIGGER \(CaptureSQL.quoted(name))")
        }
    }

    /// The first local row of an entity makes its triggers look for such rows; nobody else pays for that.
    static func watchLocal(_ db: Database, _ schema: Schema) throws {
        for entity in schema.entities where entity.capture == .triggers {
            let present = Dictionary(
                try Row.fetchAll(
                    db, sql: "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?",
                    arguments: [entity.table]
                ).map { ($0[0] as String, $0[1] as String) }, uniquingKeysWith: { $1 })
            for (name, sql) in try statements(db, entity) where present[name] != sql {
                try db.execute(sql: "DROP TRIGGER IF EXISTS \(CaptureSQL.quoted(name))")
                try db.execute(sql: sql)
            }
        }
    }

    private static func statements(_ db: Database, _ entity: EntitySchema) throws -> [(name: String, sql: String)] {
        let unique = try uniqueColumns(db, entity)
        if entity.capture == .dirtyFlag { return DirtyTriggers(entity: entity, uniqueColumns: unique).statements }
        let local = "SELECT 1 FROM sync_draft WHERE entity = ? AND kind = 2 LIMIT 1"
        let hasLocal = try Row.fetchOne(db, sql: local, arguments: [entity.name]) != nil
        return CaptureTriggers(entity: entity, uniqueColumns: unique, looksForLocal: hasLocal).statements
    }

    /// Takes all capture triggers away, for a migration of the app's tables; opening makes them anew.
    static func removeAll(_ db: Database) throws {
        let names = try String.fetchAll(
            db, sql: "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'sync_capture_*'")
        for name in names { try db.execute(sql: "DROP TRIGGER \(CaptureSQL.quoted(name))") }
        if !names.isEmpty { try Meta.set(db, .migrating, 1) }
    }

    /// Column sets of full unique indices besides the key's; `INSERT OR REPLACE` may replace rows by each.
    private static func uniqueColumns(_ db: Database, _ entity: EntitySchema) throws -> [[String]] {
        try db.indexes(on: entity.table).filter { index in
            index.isUnique && index.columns.map { $0.lowercased() } != [entity.keyColumn.lowercased()]
        }.map(\.columns).sorted { $0.lexicographicallyPrecedes($1) }
    }
}
