import SyncCore

/// The triggers of an entity that is declared with `capture: .dirtyFlag`: they mark the row, and record no change.
///
/// | column | holds |
/// | --- | --- |
/// | `is_dirty` | 0 in step; 1 edited since the last look (``DirtyFlags``); 2 its changes are in the queue |
/// | `edits` | the number of the last edit; no two edits of this device share one, so a row that was replaced counts on |
/// | `updated_at` | when that was, milliseconds since 1970 |
/// | `last_synced_at` | when the server last had the row as it is here |
///
/// The first edit of a row keeps what was there before, in `sync_dirty`; each further one only counts. A deleted row leaves
/// its mark there until the delete is acknowledged. Triggers are silent while the engine writes, as ``CaptureTriggers``.
struct DirtyTriggers {
    let entity: EntitySchema
    /// Columns of further unique indices, by each of which an insert may replace another row.
    let uniqueColumns: [[String]]

    /// The columns that the table must have, with their declarations.
    static let columns = [
        ("is_dirty", "INTEGER NOT NULL DEFAULT 0"), ("edits", "INTEGER NOT NULL DEFAULT 0"),
        ("updated_at", "INTEGER"), ("last_synced_at", "INTEGER"),
    ]

    private var table: String { CaptureSQL.quoted(entity.table) }
    private var key: String { CaptureSQL.quoted(entity.keyColumn) }
    private var name: String { CaptureSQL.literal(entity.name) }

    /// `CREATE TRIGGER` statements by name.
    var statements: [(name: String, sql: String)] {
        var all = [("insert", insert), ("before", before), ("delete", delete), ("rename", rename), ("done", done)]
        if !entity.fields.isEmpty { all.append(("update", update)) }
        return all.map { suffix, sql in
            let name = "\(CaptureTriggers.prefix)\(entity.name)_\(suffix)"
            return (name, "CREATE TRIGGER \(CaptureSQL.quoted(name)) \(sql)")
        }
    }

    /// The clock moves, so that whoever listens for local writes hears of this one, too; its number is the edit's.
    private func mark(_ row: String) -> String {
        """
        \(CaptureSQL.advance);
          UPDATE \(table) SET is_dirty = 1, edits = (SELECT sequence FROM sync_clock WHERE one = 1),
            updated_at = (SELECT \(CaptureSQL.wall) FROM sync_clock WHERE one = 1)
          WHERE \(key) = \(row).\(key);
        """
    }

    /// A value that has no form on the wire is refused at the write, as the other triggers do.
    private var checks: String {
        entity.fields.map { field -> String in
            let message =
                "\(entity.name).\(field.name) is declared as \(field.kind.rawValue) and cannot hold this value"
            let column = "NEW.\(CaptureSQL.quoted(field.column))"
            return "SELECT \(CaptureSQL.raise(message)) WHERE \(CaptureSQL.isWrong(column, field));"
        }.joined(separator: "\n  ")
    }

    private var update: String {
        let columns = entity.fields.map { CaptureSQL.quoted($0.column) }.joined(separator: ", ")
        let isChanged = entity.fields.map { field in
            let column = CaptureSQL.quoted(field.column)
            return CaptureSQL.differs("OLD.\(column)", "NEW.\(column)", field.kind)
        }.joined(separator: " OR ")
        return """
            AFTER UPDATE OF \(columns) ON \(table)
            WHEN \(CaptureSQL.isApp) AND OLD.\(key) IS NEW.\(key) AND (\(isChanged))
            BEGIN
              \(checks)
              INSERT INTO sync_dirty (entity, id, seen)
                SELECT \(name), OLD.\(key), \(CaptureSQL.oldFields("OLD", entity)) WHERE OLD.is_dirty <> 1
                ON CONFLICT (entity, id) DO UPDATE SET seen = excluded.seen;
              \(mark("NEW"))
            END
            """
    }

    private var insert: String {
        """
        AFTER INSERT ON \(table)
        WHEN \(CaptureSQL.isApp)
        BEGIN
          \(checks)
          INSERT INTO sync_dirty (entity, id) VALUES (\(name), \(CaptureSQL.id("NEW.\(key)", entity)))
            ON CONFLICT (entity, id) DO UPDATE SET gone = 0;
          \(mark("NEW"))
        END
        """
    }

    /// What an insert may replace is kept first: SQLite fires no delete trigger for it.
    private var before: String {
        let others = uniqueColumns.map { columns in
            "(\(columns.map { "present.\(CaptureSQL.quoted($0)) = NEW.\(CaptureSQL.quoted($0))" }.joined(separator: " AND ")))"
        }
        let matches = (["present.\(key) = NEW.\(key)"] + others).joined(separator: " OR ")
        return """
            BEFORE INSERT ON \(table)
            WHEN \(CaptureSQL.isApp) AND EXISTS (SELECT 1 FROM \(table) AS present WHERE \(matches))
            BEGIN
              INSERT INTO sync_dirty (entity, id, seen, edits, gone)
                SELECT \(name), present.\(key), \(CaptureSQL.oldFields("present", entity)),
                  CASE present.is_dirty WHEN 1 THEN -1 END, 1
                FROM \(table) AS present WHERE \(matches)
                ON CONFLICT (entity, id) DO UPDATE SET gone = 1,
                seen = CASE WHEN excluded.edits = -1 THEN seen ELSE excluded.seen END;
            END
            """
    }

    private var delete: String {
        """
        AFTER DELETE ON \(table)
        WHEN \(CaptureSQL.isApp)
        BEGIN
          \(leave("OLD"))
          \(CaptureSQL.advance);
        END
        """
    }

    private func leave(_ row: String) -> String {
        """
        INSERT INTO sync_dirty (entity, id, seen, gone)
            VALUES (\(name), \(row).\(key), \(CaptureSQL.oldFields(row, entity)), 1)
            ON CONFLICT (entity, id) DO UPDATE SET gone = 1,
            seen = CASE WHEN \(row).is_dirty = 1 THEN seen ELSE excluded.seen END;
        """
    }

    /// A row under another id is another record.
    private var rename: String {
        """
        AFTER UPDATE OF \(key) ON \(table)
        WHEN \(CaptureSQL.isApp) AND OLD.\(key) IS NOT NEW.\(key)
        BEGIN
          \(leave("OLD"))
          INSERT INTO sync_dirty (entity, id) VALUES (\(name), \(CaptureSQL.id("NEW.\(key)", entity)))
            ON CONFLICT (entity, id) DO UPDATE SET gone = 0;
          \(mark("NEW"))
        END
        """
    }

    /// A change of such a row left the queue, in whatever way: the row may be in step now.
    private var done: String {
        """
        AFTER DELETE ON sync_change
        WHEN OLD.entity = \(name)
        BEGIN
          UPDATE sync_dirty SET done = 1 WHERE entity = \(name) AND id = OLD.id;
        END
        """
    }
}
