import GRDB
import SyncCore

/// Rows of which it is not known whether they are under a root that is asked for: rows of dropped roots that stayed for what is unsent,
/// and stand under such a root by now, since what they stood under was moved there; and in a full pass, rows that only a
/// verdict told of, or that stayed for what is unsent (Decision 266).
///
/// Where somebody had moved one of them elsewhere before, nobody tells of it: what it was under is not asked for, or is asked from 0.
/// So the root that has them now is read once more from 0, and what that does not bring has left.
enum StayedRows {
    /// Notes which stand under a root that is asked for, and has the roots read once more.
    ///
    /// Only where nothing is to be sent: a page may leave out what follows from the changes of its request.
    /// - Returns: whether there are any.
    static func find(_ db: Database, _ scopes: inout Scopes, _ schema: Schema) throws -> Bool {
        let sending = "SELECT 1 FROM sync_change WHERE state IN (0, 1, 2) LIMIT 1"
        guard try Row.fetchOne(db.cachedStatement(sql: sending)) == nil else { return false }
        var again: Set<String> = []
        for name in scopes.stayed.sorted() {
            guard let key = RecordKey(scopeName: name), let entity = schema[key.entity] else {
                scopes.stayed.remove(name)
                continue
            }
            guard try RowWriter(entity).exists(db, key.id) else {
                // Deleted here, and it may come back.
                if try !Base.hasRemaining(db, key) { scopes.stayed.remove(name) }
                continue
            }
            guard let roots = try roots(db, of: key, schema), roots.allSatisfy({ scopes.asked[$0] != nil }) else {
                continue
            }
            let stored = try StoredRecord.read(db, key)
            // It may have been made, and nobody heard of it yet.
            if try stored?.version ?? 0 == 0 && Removal.hasUndecided(db, key) { continue }
            scopes.stayed.remove(name)
            // What a pass over another history leaves of it has no version either (seed 52973).
            guard stored != nil else { continue }
            scopes.doubted.insert(name)
            again.formUnion(roots)
        }
        scopes.readAgain(again)
        return !again.isEmpty
    }

    /// Verdicts came: the page beside them may leave out what was looked for, so that is looked for again.
    /// - Parameter unseen: records that a full pass has not brought, and that these verdicts count as brought.
    static func noteDecided(_ db: Database, _ unseen: [RecordKey]) throws {
        guard var scopes = try Scopes.read(db), !unseen.isEmpty || !scopes.doubted.isEmpty else { return }
        scopes.stayed.formUnion(scopes.doubted)
        scopes.stayed.formUnion(unseen.map(\.scopeName))
        scopes.doubted = []
        try scopes.write(db)
    }

    /// Creates that were done once made these records, each with the version of that, and no page has told of them. Where pages of their root
    /// went past it, somebody may have moved them out while the root was at 0, and nobody tells of such a leave (seed 14037).
    static func noteUntold(_ db: Database, _ made: [RecordKey: Int64], _ schema: Schema) throws {
        guard var scopes = try Scopes.read(db) else { return }
        let before = scopes.stayed
        for (key, version) in made {  // any order
            let roots = try roots(db, of: key, schema)
            // One that is at 0 still is asked what left it since.
            let isPassed = roots?.contains { name in
                max(scopes.asked[name] ?? 0, scopes.returning[name] ?? 0) >= version
            }
            if isPassed ?? true { scopes.stayed.insert(key.scopeName) }
        }
        if scopes.stayed != before { try scopes.write(db) }
    }

    /// A full pass is over; these it did not bring, and they stay for what is unsent. So do those whose creates were sent, and have
    /// no verdict: one that comes says what was so when the create was done, perhaps long before.
    static func noteKept(_ db: Database, _ keys: [RecordKey], pass: Int64) throws {
        guard var scopes = try Scopes.read(db) else { return }
        let sql = """
            SELECT DISTINCT entity, id FROM sync_change c WHERE operation = 0 AND NOT EXISTS (
              SELECT 1 FROM sync_record r WHERE r.entity = c.entity AND r.id = c.id AND r.pass >= ?)
            """
        let made = try Row.fetchAll(db, sql: sql, arguments: [pass]).map { RecordKey($0[0], $0[1]) }
        let before = scopes.stayed
        scopes.stayed.formUnion(keys.map(\.scopeName))
        scopes.stayed.formUnion(try made.filter { try Removal.hasUndecided(db, $0) }.map(\.scopeName))
        if scopes.stayed != before { try scopes.write(db) }
    }

    /// Of those that were looked for, what no page has brought.
    static func missing(_ db: Database, _ scopes: Scopes, _ schema: Schema) throws -> [RecordKey] {
        try scopes.doubted.sorted().compactMap(RecordKey.init(scopeName:)).filter { key in
            guard let entity = schema[key.entity] else { return false }
            return try RowWriter(entity).exists(db, key.id)
        }
    }

    /// The roots that the rows tell of, or the server's newer word of them, which waits for what is not here (seed 30258); `nil` as long as
    /// an unsent move, or a row that is not here, leaves that open.
    private static func roots(_ db: Database, of key: RecordKey, _ schema: Schema) throws -> Set<String>? {
        var roots: Set<String> = []
        var seen: Set<RecordKey> = [key]
        var open = [key]
        while let place = open.popLast() {
            guard try Eviction.placesBefore(db, place, schema).isEmpty, let entity = schema[place.entity],
                let row = try RowWriter(entity).read(db, place.id)
            else { return nil }
            let held = try HeldRecords.find(db, place)
            let parents = entity.parents(in: held?.presence == .live ? held?.fields ?? row : row)
            if parents.isEmpty { roots.insert(place.scopeName) }
            for parent in parents where seen.insert(parent).inserted { open.append(parent) }
        }
        return roots.isEmpty ? nil : roots
    }
}
