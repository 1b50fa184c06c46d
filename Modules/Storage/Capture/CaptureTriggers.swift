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
    /// Whether the entity has rows that stay on this device (``Drafts``): those are not captured.
    var looksForLocal = false

    /// Names of all triggers of an entity begin so.
    static let prefix = "sync_capture_"

    private var table: String { CaptureSQL.quoted(entity.table) }
    private var key: String { CaptureSQL.quoted(entity.keyColumn) }
    private var name: String { CaptureSQL.literal(entity.name) }

    /// `CREATE TRIGGER` statements by name.
    var statements: [(name: String, sql: String)] {
        guard entity.capture == .triggers else { return guards }
        var all = [
            ("insert", insert), ("before", before), ("delete", delete),
        ]
        if !entity.fields.isEmpty { all.append(("update", update)) }
        all.append(("rename", rename))
        all += depthChecks
        return all.map { suffix, sql in
            let name = "\(Self.prefix)\(entity.name)_\(suffix)"
            return (name, "CREATE TRIGGER \(CaptureSQL.quoted(name)) \(sql)")
        }
    }

    /// Where the app hands its changes over itself, a write that passes that by is reported.
    private var guards: [(name: String, sql: String)] {
        guard entity.capture == .explicit else { return [] }
        return [("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")].map { event, row in
            let name = "\(Self.prefix)\(entity.name)_guard_\(event.lowercased())"
            let sql = """
                CREATE TRIGGER \(CaptureSQL.quoted(name)) AFTER \(event) ON \(table)
                WHEN \(CaptureSQL.isApp)
                BEGIN
                  INSERT INTO sync_event (at, kind, entity, id, detail)
                  SELECT \(CaptureSQL.wall), 'passedBy', \(self.name), \(row).\(key), '\(event.lowercased())'
                  FROM sync_clock WHERE one = 1;
                END
                """
            return (name, sql)
        }
    }

    private var update: String {
        let columns = entity.fields.map { CaptureSQL.quoted($0.column) }.joined(separator: ", ")
        let isChanged = entity.fields.map(differs).joined(separator: " OR ")
        let fields = CaptureSQL.changedFields(
            entity, differs: differs, old: { CaptureSQL.lenient("OLD.\(CaptureSQL.quoted($0.column))", $0.kind) })
        return """
            AFTER UPDATE OF \(columns) ON \(table)
            WHEN \(CaptureSQL.isApp) AND OLD.\(key) IS NEW.\(key) AND (\(isChanged))\(isShared("NEW"))
            BEGIN
              \(record("NEW.\(key)", .update, fields))
            END
            """
    }

    /// Each insert is a create at first. Where it took the place of a row of the same id it becomes an update of what
    /// differs, by JSON functions: SQLite compiles a trigger with each statement on the table, so it must stay short.
    /// A create leaves out what has no value; the row that was replaced names every field.
    private var insert: String {
        let same = "old.entity = \(name) AND old.id = NEW.\(key)"
        let place = """
            position = (SELECT max(position) FROM sync_change) \
            AND EXISTS (SELECT 1 FROM sync_replaced AS old WHERE \(same))
            """
        let path = "('$.' || each.key)"
        let rules = CaptureSQL.emptyDeltas(entity)
        let after =
            "coalesce(sync_change.fields -> \(path), \(rules.map { "'\($0)' -> \(path), " } ?? "")'{\"new\":null}')"
        return """
            AFTER INSERT ON \(table)
            WHEN \(CaptureSQL.isApp)\(isShared("NEW"))
            BEGIN
              \(uniqueColumns.isEmpty ? "" : recordReplaced)
              \(record(CaptureSQL.id("NEW.\(key)", entity), .create, CaptureSQL.newFields(entity)))
              UPDATE sync_change SET operation = 1, fields = (
                SELECT json_group_object(each.key, json_set(json(\(after)), '$.old', json(each.value -> '$.old')))
                FROM sync_replaced AS old, json_each(old.fields) AS each
                WHERE \(same) AND (each.value -> '$.old') IS NOT (\(after) -> '$.new'))
              WHERE \(place);
              DELETE FROM sync_change WHERE \(place) AND fields = '{}';
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
        return """
            INSERT INTO sync_enqueue
              SELECT max(\(CaptureSQL.last), (SELECT sequence FROM sync_clock WHERE one = 1)) + row_number() OVER (ORDER BY id) - 1,
                \(CaptureSQL.lastStamp), \(name), id, 2, \(entity.version), fields
              FROM sync_replaced WHERE \(gone);
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
        WHEN \(CaptureSQL.isApp)\(isShared("OLD"))
        BEGIN
          \(record("OLD.\(key)", .delete, CaptureSQL.oldFields("OLD", entity)))
          DELETE FROM sync_replaced WHERE entity = \(name) AND id = OLD.\(key);
        END
        """
    }

    /// A row under another id is another record: the old one is deleted, a new one is made.
    private var rename: String {
        """
        AFTER UPDATE OF \(key) ON \(table)
        WHEN \(CaptureSQL.isApp) AND OLD.\(key) IS NOT NEW.\(key)\(isShared("OLD"))
        BEGIN
          \(record("OLD.\(key)", .delete, CaptureSQL.oldFields("OLD", entity)))
          \(record(CaptureSQL.id("NEW.\(key)", entity), .create, CaptureSQL.newFields(entity)))
        END
        """
    }

    /// A value nested too deep for any request is refused at the write. These are triggers of their own, so that only
    /// statements that write such a column compile them.
    private var depthChecks: [(String, String)] {
        let columns = entity.fields.filter { $0.kind == .json }
        guard !columns.isEmpty else { return [] }
        let names = columns.map { CaptureSQL.quoted($0.column) }
        let mayBe = names.map { CaptureSQL.mayBeDeep("NEW.\($0)") }.joined(separator: " OR ")
        let checks = columns.map { field -> String in
            let message = "\(entity.name).\(field.name) is nested deeper than \(WireDepth.value) levels"
            return """
                SELECT \(CaptureSQL.raise(message)) WHERE \(CaptureSQL.isDeep("NEW.\(CaptureSQL.quoted(field.column))"));
                """
        }.joined(separator: "\n  ")
        return [("insert", "INSERT"), ("update", "UPDATE OF \(names.joined(separator: ", "))")].map { suffix, event in
            let sql = """
                AFTER \(event) ON \(table)
                WHEN \(CaptureSQL.isApp) AND (\(mayBe))
                BEGIN
                  \(checks)
                END
                """
            return ("depth_\(suffix)", sql)
        }
    }

    /// Further conditions, where the entity has rows that stay on this device.
    private func isShared(_ row: String) -> String {
        guard looksForLocal else { return "" }
        return " AND NOT EXISTS (SELECT 1 FROM sync_draft WHERE entity = \(name) AND id = \(row).\(key) AND kind = 2)"
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

    private func record(_ id: String, _ operation: Operation, _ fields: String) -> String {
        CaptureSQL.enqueue(name, id, operation, schema: entity.version, fields)
    }
}
