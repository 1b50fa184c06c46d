import GRDB
import SyncCore

/// Which rows changed on the writing connection since derived data was made last, and what they named before.
///
/// The connection's own triggers note it (they are in its temporary schema, which nobody else sees), whoever writes: the engine, the
/// app, or a foreign key that takes rows along. What a row named is gone with the row, so only who is there as it goes can tell.
/// What other processes wrote is in the change log (``ApplyContext/catchUp(_:now:)``).
enum SnapshotTouches {
    /// What changed.
    struct Found {
        var keys: [RecordKey] = []
        var left: [SnapshotRun.Left: Set<String>] = [:]
    }

    /// Makes the triggers for what these builders read, in place of any that are there.
    static func install(_ db: Database, _ plan: SnapshotPlan) throws {
        try remove(db)
        guard !plan.isEmpty else { return }
        try db.execute(sql: "CREATE TEMP TABLE sync_touched (entity TEXT, id TEXT, field TEXT, old TEXT)")
        for entity in plan.schema.entities where plan.sources.contains(entity.name) {
            let fields = plan.followed.filter { $0.entity.name == entity.name }.map(\.field)
            let key = RowWriter.quoted(entity.keyColumn)
            let gone = fields.map { field in
                let column = RowWriter.quoted(field.column)
                return (field, column, "SELECT '\(entity.name)', old.\(key), '\(field.name)', old.\(column)")
            }
            let noted = gone.map { "INSERT INTO sync_touched \($2) WHERE old.\($1) IS NOT NULL;" }
            let moved = gone.map {
                "INSERT INTO sync_touched \($2) WHERE old.\($1) IS NOT NULL AND old.\($1) IS NOT new.\($1);"
            }
            let bodies = [
                ("INSERT", ["INSERT INTO sync_touched VALUES ('\(entity.name)', new.\(key), NULL, NULL);"]),
                ("UPDATE", ["INSERT INTO sync_touched VALUES ('\(entity.name)', new.\(key), NULL, NULL);"] + moved),
                ("DELETE", ["INSERT INTO sync_touched VALUES ('\(entity.name)', old.\(key), NULL, NULL);"] + noted),
            ]
            for (event, body) in bodies {
                try db.execute(
                    sql: """
                        CREATE TEMP TRIGGER "sync_touched_\(entity.name)_\(event)" AFTER \(event)
                        ON main.\(RowWriter.quoted(entity.table)) BEGIN \(body.joined(separator: " ")) END
                        """)
            }
        }
    }

    /// Whether the connection notes what changes.
    static func areNoted(_ db: Database) throws -> Bool {
        let sql = "SELECT 1 FROM temp.sqlite_master WHERE name = 'sync_touched'"
        return try Row.fetchOne(db.cachedStatement(sql: sql)) != nil
    }

    /// What changed until now is of no interest any more.
    static func forget(_ db: Database) throws {
        guard try areNoted(db) else { return }
        try db.cachedStatement(sql: "DELETE FROM temp.sync_touched").execute()
    }

    /// Takes triggers and notes away.
    static func remove(_ db: Database) throws {
        let sql = "SELECT name FROM temp.sqlite_master WHERE type = 'trigger' AND substr(name, 1, 13) = 'sync_touched_'"
        for name in try String.fetchAll(db, sql: sql) {
            try db.execute(sql: "DROP TRIGGER temp.\(RowWriter.quoted(name))")
        }
        try db.execute(sql: "DROP TABLE IF EXISTS temp.sync_touched")
    }

    /// What changed since this was asked last.
    static func take(_ db: Database) throws -> Found {
        var found = Found()
        let rows = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT DISTINCT entity, id, field, old FROM temp.sync_touched"))
        guard !rows.isEmpty else { return found }
        for row in rows {
            if let field = row[2] as String? {
                found.left[.init(entity: row[0], field: field), default: []].insert(row[3])
            } else {
                found.keys.append(RecordKey(row[0], row[1]))
            }
        }
        try db.cachedStatement(sql: "DELETE FROM temp.sync_touched").execute()
        return found
    }
}
