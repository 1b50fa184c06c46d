import GRDB
import SyncCore

/// A table of derived rows, one for each subject: made anew as a whole, or for some subjects.
struct DerivedTable: Sendable {
    let name: String
    /// The columns behind `id`, as `CREATE TABLE` takes them.
    let columns: String

    /// Makes the table, empty, whatever an earlier version left.
    func setUp(_ db: Database) throws {
        try db.execute(sql: "DROP TABLE IF EXISTS \(name)")
        try db.execute(sql: "CREATE TABLE \(name) (id TEXT PRIMARY KEY NOT NULL, \(columns))")
    }

    /// Takes the rows of these subjects away and puts in what the select gives for those that are still there.
    /// - Parameter select: has `IN (SELECT value FROM json_each(?))` in it, once.
    func rebuild(_ db: Database, _ ids: [String], _ select: String) throws {
        let list = try clear(db, ids)
        try db.cachedStatement(sql: "INSERT INTO \(name) \(select)").execute(arguments: [list])
    }

    /// Takes the rows of these subjects away.
    /// - Returns: the subjects as a JSON array.
    @discardableResult
    func clear(_ db: Database, _ ids: [String]) throws -> String {
        let list = JSONText.text(.array(ids.map(FieldValue.string)))
        try db.cachedStatement(sql: "DELETE FROM \(name) WHERE id IN (SELECT value FROM json_each(?))")
            .execute(arguments: [list])
        return list
    }
}
