import GRDB
import SyncCore

/// How many changes of a record, and of all that is under it, the tables hold, in which state (I8, OBS-02).
///
/// It goes down from the record, over one picture of who stands under whom; the store goes up from each change.
struct CountsUnder {
    private let schema: Schema

    init(_ schema: Schema) { self.schema = schema }

    /// The record of one of the changes in the queue, or one that it stands under.
    /// - Parameters:
    ///   - place: which of the changes, from the first.
    ///   - steps: how far up, at most.
    func subject(_ db: Database, at place: Int, steps: Int) throws -> RecordKey? {
        let sql = "SELECT entity, id FROM sync_change ORDER BY position LIMIT 1 OFFSET ?"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [place]) else { return nil }
        var key = RecordKey(row[0], row[1])
        for _ in 0..<steps {
            let sql = """
                WITH \(edges) SELECT parent, above FROM edge WHERE child = ? AND below = ? ORDER BY parent, above LIMIT 1
                """
            guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [key.entity, key.id]) else {
                break
            }
            key = RecordKey(row[0], row[1])
        }
        return key
    }

    func counts(_ db: Database, under record: RecordKey) throws -> StateCounts {
        let sql = """
            WITH RECURSIVE \(edges), family (entity, id) AS (
              SELECT ?, ? UNION SELECT child, below FROM edge JOIN family ON parent = entity AND above = id)
            SELECT count(*) FILTER (WHERE state = 4), count(*) FILTER (WHERE state IN (1, 2)), count(*)
            FROM sync_change WHERE (entity, id) IN (SELECT entity, id FROM family)
            """
        let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [record.entity, record.id])
        guard let row else { return StateCounts() }
        let (failed, uploading, all): (Int, Int, Int) = (row[0], row[1], row[2])
        return StateCounts(failed: failed, uploading: uploading, waiting: all - failed - uploading)
    }

    /// Who stands under whom: as the rows say, and where a record has none, as its delete says where it stood.
    private var edges: String {
        // Of entities without parents none stands under another.
        var parts = ["SELECT NULL AS child, NULL AS below, NULL AS parent, NULL AS above WHERE false"]
        for entity in schema.entities {
            for field in entity.parents {
                guard let target = field.reference?.entity else { continue }
                let (table, id, column) = (quoted(entity.table), quoted(entity.keyColumn), quoted(field.column))
                parts.append(
                    """
                    SELECT '\(entity.name)' AS child, \(id) AS below, '\(target)' AS parent, \(column) AS above FROM \(table)
                    WHERE \(column) IS NOT NULL
                    UNION ALL SELECT entity, id, '\(target)', fields ->> '$.\(field.name).old' FROM sync_change AS own
                    WHERE entity = '\(entity.name)' AND operation = 2 AND fields ->> '$.\(field.name).old' IS NOT NULL
                    AND NOT EXISTS (SELECT 1 FROM \(table) WHERE \(table).\(id) = own.id)
                    AND NOT EXISTS (SELECT 1 FROM sync_change AS later WHERE later.entity = own.entity
                      AND later.id = own.id AND later.operation = 2 AND later.position > own.position)
                    """)
            }
        }
        return "edge AS (\(parts.joined(separator: "\nUNION ALL ")))"
    }

    private func quoted(_ name: String) -> String { "\"\(name)\"" }
}
