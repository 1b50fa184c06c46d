import GRDB
import SyncCore

/// Rows of dropped roots that stayed for what is unsent, and stand under a root that is asked for by now, since what they stood
/// under was moved there (Decision 266).
///
/// Where somebody had moved one of them elsewhere in the dropped root before, nobody tells of it: that root is not asked for, and in
/// the other one it never was. So the root that has them now is read once more from 0, and what that does not bring has left.
enum StayedRows {
    /// Notes which stand under a root that is asked for, and has the roots read once more.
    /// - Returns: whether there are any.
    static func find(_ db: Database, _ scopes: inout Scopes, _ schema: Schema) throws -> Bool {
        var again: Set<String> = []
        for name in scopes.stayed.sorted() {
            guard let key = RecordKey(scopeName: name), let entity = schema[key.entity],
                try RowWriter(entity).exists(db, key.id)
            else {
                scopes.stayed.remove(name)
                continue
            }
            guard let roots = try roots(db, of: key, schema), roots.allSatisfy({ scopes.asked[$0] != nil }) else {
                continue
            }
            scopes.stayed.remove(name)
            guard try StoredRecord.read(db, key)?.version ?? 0 > 0 else { continue }
            scopes.doubted.insert(name)
            again.formUnion(roots)
        }
        scopes.readAgain(again)
        return !again.isEmpty
    }

    /// Of those that were looked for, what no page has brought.
    static func missing(_ db: Database, _ scopes: Scopes, _ schema: Schema) throws -> [RecordKey] {
        try scopes.doubted.sorted().compactMap(RecordKey.init(scopeName:)).filter { key in
            guard let entity = schema[key.entity] else { return false }
            return try RowWriter(entity).exists(db, key.id)
        }
    }

    /// The roots that the rows tell of; `nil` as long as an unsent move, or a row that is not here, leaves that open.
    private static func roots(_ db: Database, of key: RecordKey, _ schema: Schema) throws -> Set<String>? {
        var roots: Set<String> = []
        for place in try Eviction.ancestors(db, of: key, schema).union([key]).sorted() {
            guard try Eviction.placesBefore(db, place, schema).isEmpty, let entity = schema[place.entity],
                let row = try RowWriter(entity).read(db, place.id)
            else { return nil }
            if entity.parents(in: row).isEmpty { roots.insert(place.scopeName) }
        }
        return roots.isEmpty ? nil : roots
    }
}
