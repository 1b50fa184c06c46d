import GRDB
import SyncCore

/// This program's own tables, made from the declared entities: a row for each record, a column for each field.
///
/// There are no foreign keys on purpose: a deleted list is one change, and its cards stay in their rows, out of sight
/// (see ``Records``), until the server says that they are gone, or the list comes back with them.
enum BoardTables {
    /// Makes what is missing.
    static func create(_ db: Database, _ schema: Schema) throws {
        for entity in schema.entities {
            let table = Columns.quoted(entity.table)
            guard try db.tableExists(entity.table) else {
                var columns = ["\(Columns.quoted(entity.keyColumn)) TEXT PRIMARY KEY NOT NULL"]
                columns += entity.fields.map { column($0) + ($0.isRequired ? " NOT NULL" : "") }
                try db.execute(sql: "CREATE TABLE \(table) (\(columns.joined(separator: ", ")))")
                for parent in entity.parents {
                    let index = Columns.quoted("\(entity.table)_on_\(parent.column)")
                    try db.execute(sql: "CREATE INDEX \(index) ON \(table) (\(Columns.quoted(parent.column)))")
                }
                continue
            }
            let present = Set(try db.columns(in: entity.table).map(\.name))
            for field in entity.fields where !present.contains(field.column) {
                try db.execute(sql: "ALTER TABLE \(table) ADD COLUMN \(column(field))")
            }
        }
    }

    private static func column(_ field: FieldSchema) -> String {
        let type =
            switch field.kind {
            case .text, .date, .json: "TEXT"
            case .integer: "INTEGER"
            case .real: "REAL"
            case .boolean: "BOOLEAN"
            case .data: "BLOB"
            }
        return "\(Columns.quoted(field.column)) \(type)"
    }
}
