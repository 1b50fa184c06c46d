import GRDB
import SyncCore

/// The triggers that record what the app writes (DESIGN.md, *The way of a change*, 1): persistent, and silent while the
/// engine itself writes.
///
/// They use SQLite's own functions only, so that another library or process is captured, too. `INSERT OR REPLACE` fires
/// no delete trigger: a trigger *before* each insert notes the rows that it may replace in `sync_replaced`, and the one
/// after it makes an update of the same id, and deletes of others that are gone. What an insert left there means nothing
/// to the next one, which begins with its own.
struct CaptureTriggers {
    let entity: EntitySchema
    /// Columns of further unique indices, by each of which an insert may replace another row.
    let uniqueColumns: [[String]]

    /// Names of all triggers of an entity begin so.
    static let prefix = "sync_capture_"

    private var table: String { CaptureSQL.quoted(entity.table) }
    private var key: String { CaptureSQL.quoted(entity.keyColumn) }
    private var name: String { CaptureSQL.literal(entity.name) }

    /// `CREATE TRIGGER` statements by name.
    var statements: [(name: String, sql: String)] {
        guard entity.capture == .triggers else { return [] }
        var all = [
            ("insert", insert), ("replace", replace), ("before", before), ("delete", delete),
        ]
        if !entity.fields.isEmpty { all.append(("update", update)) }
        all.append(("rename", rename))
        return all.map { suffix, sql in
            let name = "\(Self.prefix)\(entity.name)_\(suffix)"
            return (name, "CREATE TRIGGER \(CaptureSQL.quoted(name)) \(sql)")
        }
    }

    private var update: String {
        let columns = entity.fields.map { CaptureSQL.quoted($0.column) }.joined(separator: ", ")
        let isChanged = entity.fields.map(differs).joined(separator: " OR ")
        let fields = CaptureSQL.changedFields(
            entity, differs: differs, old: { CaptureSQL.lenient("OLD.\(CaptureSQL.quoted($0.column))", $0.kind) })
        return """
            AFTER UPDATE OF \(columns) ON \(table)
            WHEN \(CaptureSQL.isApp) AND OLD.\(key) IS NEW.\(key) AND (\(isChanged))
            BEGIN
              \(CaptureSQL.tick())
              \(record("NEW.\(key)", .update, fields))
            END
            """
    }

    private var insert: String {
        """
        AFTER INSERT ON \(table)
        WHEN \(CaptureSQL.isApp) AND NOT \(isReplacing)
        BEGIN
          \(CaptureSQL.tick())
          \(record(CaptureSQL.id("NEW.\(key)", entity), .create, CaptureSQL.newFields(entity)))
        END
        """
    }

    /// Something stands in `sync_replaced`; whether it is about this insert is seen here.
    private var replace: String {
        let known = "FROM sync_replaced WHERE entity = \(name) AND id = NEW.\(key)"
        let before = "(SELECT fields \(known))"
        let same = "EXISTS (SELECT 1 \(known))"
        let fields = CaptureSQL.changedFields(
            entity,
            differs: { field in
                let new = CaptureSQL.lenient("NEW.\(CaptureSQL.quoted(field.column))", field.kind)
                return "(\(before) -> '$.\(field.name).old') IS NOT (\(new))"
            },
            old: { "coalesce(\(before) -> '$.\($0.name).old', 'null')" })
        let isUpdate = "\(same) AND \(fields) <> '{}'"
        return """
            AFTER INSERT ON \(table)
            WHEN \(CaptureSQL.isApp) AND \(isReplacing)
            BEGIN
              \(recordReplaced)
              \(CaptureSQL.tick(if: "NOT \(same)"))
              \(record(CaptureSQL.id("NEW.\(key)", entity), .create, CaptureSQL.newFields(entity), if: "NOT \(same)"))
              \(CaptureSQL.tick(if: isUpdate))
              \(record("NEW.\(key)", .update, fields, if: isUpdate))
            END
            """
    }

    /// Whether the trigger before this insert found rows in its way.
    private var isReplacing: String { "EXISTS (SELECT 1 FROM sync_replaced WHERE entity = \(name))" }

    /// Rows of other ids that the insert took the place of, by another unique index, are deleted.
    private var recordReplaced: String {
        let gone = """
            entity = \(name) AND cause = NEW.\(key) AND id <> NEW.\(key) \
            AND NOT EXISTS (SELECT 1 FROM \(table) WHERE \(key) = sync_replaced.id)
            """
        let number = "sequence - place"
        return """
            \(CaptureSQL.tick("(SELECT count(*) FROM sync_replaced WHERE \(gone))"))
              INSERT INTO sync_change (\(Self.columns))
              SELECT \(number), \(number), \(CaptureSQL.key(for: number)), \(name), replaced, 2, \(entity.version), \
            stamp, \(CaptureSQL.wall), oldFields, "unit", intent, "offset", seen
              FROM sync_clock, (
                SELECT id AS replaced, fields AS oldFields, row_number() OVER (ORDER BY id DESC) - 1 AS place
                FROM sync_replaced WHERE \(gone));
            """
    }

    private var before: String {
        let condition = matches("present")
        return """
            BEFORE INSERT ON \(table)
            WHEN \(CaptureSQL.isApp) AND (\(isReplacing) OR EXISTS (SELECT 1 FROM \(table) AS present WHERE \(condition)))
            BEGIN
              DELETE FROM sync_replaced WHERE entity = \(name);
              INSERT INTO sync_replaced (entity, id, cause, fields)
              SELECT \(name), present.\(key), NEW.\(key), \(CaptureSQL.oldFields("present", entity))
              FROM \(table) AS present WHERE \(condition);
            END
            """
    }

    /// With `recursive_triggers` a replaced row comes by here, too: then it is a delete, and what follows a create.
    private var delete: String {
        """
        AFTER DELETE ON \(table)
        WHEN \(CaptureSQL.isApp)
        BEGIN
          \(CaptureSQL.tick())
          \(record("OLD.\(key)", .delete, CaptureSQL.oldFields("OLD", entity)))
          DELETE FROM sync_replaced WHERE entity = \(name) AND id = OLD.\(key);
        END
        """
    }

    /// A row under another id is another record: the old one is deleted, a new one is made.
    private var rename: String {
        """
        AFTER UPDATE OF \(key) ON \(table)
        WHEN \(CaptureSQL.isApp) AND OLD.\(key) IS NOT NEW.\(key)
        BEGIN
          \(CaptureSQL.tick())
          \(record("OLD.\(key)", .delete, CaptureSQL.oldFields("OLD", entity)))
          \(CaptureSQL.tick())
          \(record(CaptureSQL.id("NEW.\(key)", entity), .create, CaptureSQL.newFields(entity)))
        END
        """
    }

    private func differs(_ field: FieldSchema) -> String {
        let column = CaptureSQL.quoted(field.column)
        return CaptureSQL.differs("OLD.\(column)", "NEW.\(column)", field.kind)
    }

    /// Whether an insert would collide with the row.
    private func matches(_ row: String) -> String {
        let others = uniqueColumns.map { columns in
            let equal = columns.map { "\(row).\(CaptureSQL.quoted($0)) = NEW.\(CaptureSQL.quoted($0))" }
            return "(\(equal.joined(separator: " AND ")))"
        }
        return (["\(row).\(key) = NEW.\(key)"] + others).joined(separator: " OR ")
    }

    private static let columns =
        "position, sequence, key, entity, id, operation, schema, stamp, madeAt, fields, \"unit\", intent, \"offset\", seen"

    private func record(
        _ id: String, _ operation: Operation, _ fields: String, if condition: String? = nil
    ) -> String {
        """
        INSERT INTO sync_change (\(Self.columns))
          SELECT sequence, sequence, \(CaptureSQL.key()), \(name), \(id), \(operation.number), \(entity.version), stamp, \
        \(CaptureSQL.wall), \(fields), "unit", intent, "offset", seen
          FROM sync_clock WHERE one = 1\(condition.map { " AND (\($0))" } ?? "");
        """
    }
}
