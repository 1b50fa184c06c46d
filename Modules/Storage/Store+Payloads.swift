import GRDB
public import SyncCore

/// What handlers of the app's own built for changes that go out: kept before the first byte leaves, so that a key means the
/// same content whatever a handler would build later.
///
/// The table is made when the first payload is kept: an app without such handlers never has it.
extension Store {
    /// The fields that were built for these changes, by key.
    public func payloads(of keys: [String]) throws(StoreFailure) -> [String: [String: FieldDelta]] {
        try look("reading what handlers built") { db in
            guard !keys.isEmpty, try Payloads.exist(db) else { return [:] }
            let sql = "SELECT key, entity, fields FROM sync_payload WHERE key IN (SELECT value FROM json_each(?))"
            var found: [String: [String: FieldDelta]] = [:]
            let rows = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: [Payloads.list(keys)])
            while let row = try rows.next() { found[row[0]] = try DeltaCodec.deltas(row[2], of: schema[row[1]]) }
            return found
        }
    }

    /// Keeps what was built; one that is kept already stays as it is.
    /// - Throws: ``StoreFailure`` (`invalid`) for a value that has no form on the wire; nothing is kept then.
    public func keepPayloads(_ built: [Change]) throws(StoreFailure) {
        try perform("keeping what handlers built") { db in
            if try !Payloads.exist(db) { try db.execute(sql: Payloads.table) }
            let insert = try db.cachedStatement(
                sql: "INSERT INTO sync_payload (key, entity, fields) VALUES (?, ?, ?) ON CONFLICT DO NOTHING")
            for change in built {
                let json: String
                do { json = try DeltaCodec.json(change.fields, operation: change.operation) } catch {
                    throw StoreFailure(
                        kind: .invalid, message: "A value of \(change.record) has no form on the wire: \(error)")
                }
                try insert.execute(arguments: [change.id, change.record.entity, json])
            }
        }
    }

    /// These changes are decided: what was built for them is not needed any more.
    public func dropPayloads(of keys: [String]) throws(StoreFailure) {
        guard !keys.isEmpty else { return }
        try perform("dropping what handlers built") { db in try Payloads.drop(db, keys) }
    }

    /// Drops what belongs to no change any more: kept by a program that was killed, or whose change was given up.
    public func prunePayloads() throws(StoreFailure) {
        try perform("dropping what handlers built") { db in
            guard try Payloads.exist(db) else { return }
            try db.execute(sql: "DELETE FROM sync_payload WHERE key NOT IN (SELECT key FROM sync_change)")
        }
    }
}

/// The table of what handlers built.
enum Payloads {
    static let table =
        "CREATE TABLE sync_payload (key TEXT PRIMARY KEY NOT NULL, entity TEXT NOT NULL, fields TEXT NOT NULL) WITHOUT ROWID"

    static func exist(_ db: Database) throws -> Bool { try EngineTables.exists(db, "sync_payload") }

    static func drop(_ db: Database, _ keys: [String]) throws {
        guard try exist(db) else { return }
        try db.cachedStatement(sql: "DELETE FROM sync_payload WHERE key IN (SELECT value FROM json_each(?))")
            .execute(arguments: [list(keys)])
    }

    /// Everything goes with the account that it belongs to.
    static func empty(_ db: Database) throws {
        if try exist(db) { try db.execute(sql: "DELETE FROM sync_payload") }
    }

    static func list(_ keys: [String]) throws -> String {
        try FieldValue.array(keys.map(FieldValue.string)).jsonText()
    }
}
