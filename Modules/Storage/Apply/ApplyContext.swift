import GRDB
import SyncCore

/// What applying needs to know of the schema and the file; made once when the store opens.
struct ApplyContext: Sendable {
    let schema: Schema
    let deltas: any DeltaCalculation
    /// The names of each entity's declared fields.
    let fieldNames: [String: Set<String>]
    /// The columns of each entity that the app's table holds to another table's key, in lower case.
    let foreignKeys: [String: Set<String>]

    init(_ db: Database, _ schema: Schema, deltas: any DeltaCalculation) throws {
        self.schema = schema
        self.deltas = deltas
        fieldNames = Dictionary(
            uniqueKeysWithValues: schema.entities.map { ($0.name, Set($0.fields.map(\.name))) })
        var keys: [String: Set<String>] = [:]
        for entity in schema.entities {
            for key in try db.foreignKeys(on: entity.table) where key.mapping.count == 1 {
                keys[entity.name, default: []].insert(key.mapping[0].origin.lowercased())
            }
        }
        foreignKeys = keys
    }

    /// The unsent changes of a record that left all scopes are set aside; their values stay with the failure.
    func setAsideGone(_ db: Database, _ key: RecordKey, _ now: Int64) throws {
        try Gone.setAside(db, key, schema, now)
    }
}
