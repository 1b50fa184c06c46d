import GRDB
import SyncCore

/// Columns of the app's tables that no field is declared for.
///
/// They are the app's own, and stay on this device. One that was forgotten looks just like that, so an event tells of each,
/// once; one that must have a value is refused, since no record of the server's could be written beside it.
enum UnmappedColumns {
    /// - Throws: ``StoreFailure`` (`invalid`) that says what to write instead.
    static func check(_ db: Database, _ schema: Schema, now: Int64) throws {
        var found: [(line: String, entity: EntitySchema, column: String)] = []
        for entity in schema.entities {
            var own = Set(([entity.keyColumn] + entity.fields.map(\.column)).map { $0.lowercased() })
            if entity.capture == .dirtyFlag { own.formUnion(DirtyTriggers.columns.map { $0.0.lowercased() }) }
            guard try db.columns(in: entity.table).contains(where: { !own.contains($0.name.lowercased()) }) else {
                continue
            }
            // Without columns that SQLite computes, and the number that it gives to each row.
            let sql = """
                SELECT name, "notnull" AND dflt_value IS NULL AND NOT (pk = 1 AND upper(type) = 'INTEGER')
                FROM pragma_table_info(?)
                """
            for row in try Row.fetchAll(db, sql: sql, arguments: [entity.table]) {
                let column: String = row[0]
                guard !own.contains(column.lowercased()) else { continue }
                guard !(row[1] as Bool) else { throw mistake(column, entity) }
                found.append(("\(entity.name).\(column)", entity, column))
            }
        }
        guard !found.isEmpty else { return }
        let told = Set((try Meta.text(db, .unmapped) ?? "").split(separator: "\n").map(String.init))
        let new = found.filter { !told.contains($0.line) }
        guard !new.isEmpty else { return }
        for (_, entity, column) in new {
            let detail = """
                The column “\(column)” of “\(entity.table)” stays on this device; \
                declare a field of “\(entity.name)” for it if it is to sync.
                """
            try Journal.event(db, .unmappedColumn, RecordKey(entity.name, ""), detail: detail, at: now)
        }
        try Meta.set(db, .unmapped, told.union(new.map(\.line)).sorted().joined(separator: "\n"))
    }

    private static func mistake(_ column: String, _ entity: EntitySchema) -> StoreFailure {
        let message = """
            The column “\(column)” of “\(entity.table)” must have a value, and no field of “\(entity.name)” brings one; \
            declare a field for it, give it a default, or let it be null.
            """
        return StoreFailure(kind: .invalid, message: message)
    }
}
