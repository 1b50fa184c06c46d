import GRDB
import Storage
import SyncCore

/// Derived data for any entities: what stands under each record, counted and listed, and counted once more two steps up, both from
/// the records themselves and from what was derived of them (``SnapshotBuilder``).
struct DerivedCounts {
    /// One builder, and the rows that its table must have.
    private struct Derived {
        var builder: SnapshotBuilder
        var table: String
        var expected: String
    }

    private let derived: [Derived]

    var builders: [SnapshotBuilder] { derived.map(\.builder) }

    init(_ schema: Schema) {
        var derived: [Derived] = []
        for child in schema.entities {
            for field in child.parents {
                guard let target = field.reference?.entity, let parent = schema[target] else { continue }
                let name = "\(child.name)_\(field.name)"
                let content = child.fields.first { $0.reference == nil && $0.kind == .text }.map {
                    Self.quoted($0.column)
                }
                let listed = """
                    SELECT DISTINCT \(Self.id(parent)) AS id, count(*) OVER family AS n,
                      group_concat(c.id || c.content, ' ') OVER family AS list
                    FROM \(Self.table(parent)) JOIN (SELECT \(Self.id(child)) AS id, \(Self.quoted(field.column)) AS above,
                      coalesce(\(content ?? "''"), '-') AS content FROM \(Self.table(child))) AS c ON c.above = \(Self.id(parent))
                    WINDOW family AS (PARTITION BY c.above ORDER BY c.id
                      ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
                    """
                derived.append(
                    Self.derive(
                        name, of: parent, expected: listed,
                        dependsOn: [.entity(child.name, [field.name]), .entity(parent.name)]))
                guard parent.name != child.name else { continue }
                for next in parent.parents {
                    guard let above = next.reference?.entity, let top = schema[above], top.name != parent.name else {
                        continue
                    }
                    let counted = """
                        SELECT \(Self.id(top)) AS id, count(*) AS n, NULL AS list FROM \(Self.table(top))
                        JOIN \(Self.table(parent)) ON \(Self.table(parent)).\(Self.quoted(next.column)) = \(Self.id(top))
                        JOIN \(Self.table(child)) ON \(Self.table(child)).\(Self.quoted(field.column)) = \(Self.id(parent))
                        GROUP BY \(Self.id(top))
                        """
                    derived.append(
                        Self.derive(
                            "\(name)_\(next.name)", of: top, expected: counted,
                            dependsOn: [.entity(child.name, [field.name, next.name]), .entity(top.name)]))
                    let summed = """
                        SELECT \(Self.id(top)) AS id, sum(d.n) AS n, NULL AS list FROM \(Self.table(top))
                        JOIN \(Self.table(parent)) ON \(Self.table(parent)).\(Self.quoted(next.column)) = \(Self.id(top))
                        JOIN \(Self.quoted("derived_\(name)")) AS d ON d.id = \(Self.id(parent))
                        GROUP BY \(Self.id(top))
                        """
                    derived.append(
                        Self.derive(
                            "\(name)_\(next.name)_sum", of: top, expected: summed,
                            dependsOn: [
                                .snapshot(name, [next.name]), .entity(parent.name, [next.name]), .entity(top.name),
                            ]))
                }
            }
        }
        self.derived = derived
    }

    /// What is not derived as the records are now, in words; of what the app has written since nothing is.
    func differences(_ db: Database) throws -> [String] {
        guard try Store.areSnapshotsCurrent(db) else { return [] }
        return try derived.compactMap { each in
            let sql = """
                SELECT 'has', id, n, list FROM (SELECT * FROM \(each.table) EXCEPT SELECT * FROM (\(each.expected)))
                UNION ALL
                SELECT 'lacks', id, n, list FROM (SELECT * FROM (\(each.expected)) EXCEPT SELECT * FROM \(each.table)) LIMIT 1
                """
            let row = try Row.fetchOne(db.cachedStatement(sql: sql))
            return row.map { row in
                let (what, id, count): (String, String, Int) = (row[0], row[1], row[2])
                return
                    "\(each.builder.name) \(what) \(count) of \(each.builder.subject) \(id), \(row[3] as String? ?? "-")"
            }
        }
    }

    private static func derive(
        _ name: String, of subject: EntitySchema, expected: String, dependsOn: [SnapshotBuilder.Dependency]
    ) -> Derived {
        let table = quoted("derived_\(name)")
        let builder = SnapshotBuilder(
            name, subject: subject.name, dependsOn: dependsOn,
            setUp: { db in
                try db.execute(
                    sql:
                        "DROP TABLE IF EXISTS \(table); CREATE TABLE \(table) (id TEXT PRIMARY KEY, n INTEGER, list TEXT)"
                )
            },
            rebuild: { db, ids in
                for id in ids {
                    try db.cachedStatement(sql: "DELETE FROM \(table) WHERE id = ?").execute(arguments: [id])
                    try db.cachedStatement(sql: "INSERT INTO \(table) SELECT * FROM (\(expected)) WHERE id = ?")
                        .execute(arguments: [id])
                }
            })
        return Derived(builder: builder, table: table, expected: expected)
    }

    private static func id(_ entity: EntitySchema) -> String { "\(table(entity)).\(quoted(entity.keyColumn))" }

    private static func table(_ entity: EntitySchema) -> String { quoted(entity.table) }

    private static func quoted(_ name: String) -> String { "\"\(name.replacing("\"", with: "\"\""))\"" }
}
