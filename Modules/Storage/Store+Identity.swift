import GRDB
public import SyncCore

// The map is written with the verdict that brought the server's id (`ApplyContext`), in its transaction.
extension Store: IDTranslation {
    public nonisolated func hasServerIDs() throws(StoreFailure) -> Bool {
        do {
            return try reading { db in
                let statement = try db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM sync_identity)")
                return try Bool.fetchOne(statement) ?? false
            }
        } catch {
            throw StoreFailure(error, while: "translating ids")
        }
    }

    public nonisolated func serverIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String] {
        try look(
            up: records,
            """
            SELECT id, serverID FROM sync_identity
            WHERE entity = ? AND id IN (SELECT value FROM json_each(?))
            """)
    }

    public nonisolated func localIDs(of records: Set<RecordKey>) throws(StoreFailure) -> [RecordKey: String] {
        try look(
            up: records,
            """
            SELECT serverID, id FROM sync_identity
            WHERE entity = ? AND serverID IN (SELECT value FROM json_each(?))
            """)
    }

    /// This device's id of the record that the server calls `serverID`, which came in a link or a push; the same text
    /// where the server's id is this device's, too.
    public nonisolated func localID(ofServerID serverID: String, entity: String) throws(StoreFailure) -> String {
        let key = RecordKey(entity, serverID)
        return try localIDs(of: [key])[key] ?? serverID
    }

    /// One read for all; one statement for each entity.
    private nonisolated func look(
        up records: Set<RecordKey>, _ sql: String
    ) throws(StoreFailure) -> [RecordKey: String] {
        guard !records.isEmpty else { return [:] }
        let entities = Dictionary(grouping: records, by: \.entity)
        do {
            return try reading { db in
                var found: [RecordKey: String] = [:]
                let statement = try db.cachedStatement(sql: sql)
                for (entity, keys) in entities.sorted(by: { $0.key < $1.key }) {
                    let list = try FieldValue.array(keys.map(\.id).sorted().map(FieldValue.string)).jsonText()
                    let rows = try Row.fetchCursor(statement, arguments: [entity, list])
                    while let row = try rows.next() { found[RecordKey(entity, row[0])] = row[1] }
                }
                return found
            }
        } catch {
            throw StoreFailure(error, while: "translating ids")
        }
    }
}
