import GRDB
public import SyncCore

extension Store {
    /// Writes a conflict's losing value again, as if the user did it now: a new change, which everybody gets.
    ///
    /// The entry stays, and an event notes that it was restored. A record that is gone comes back only where the entry
    /// holds all of it; a delete that lost is done again.
    /// - Returns: the record that was written.
    /// - Throws: ``StoreFailure`` (`notFound`) for a number that is not in the journal, `invalid` where there is nothing to
    ///   restore: no losing value, an entity or field that is not declared any more, a row that is gone.
    @discardableResult
    public func restoreLoser(_ number: Int64) throws(StoreFailure) -> RecordKey {
        let now = now
        let restored = try perform("restoring a value") { db -> RecordKey in
            let sql = """
                SELECT number, key, entity, id, field, mine, theirs, winner, rule, at, kind FROM sync_conflict
                WHERE number = ?
                """
            guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [number]) else {
                throw StoreFailure(kind: .notFound, message: "There is no conflict \(number).")
            }
            var entry = try ConflictEntry(row)
            entry.record = try IdentityMap.present(db, entry.record)
            try context.deriving(db, now: now) {
                try Self.restore(db, entry, context, now: now)
                try Journal.event(
                    db, .restored, entry.record, change: entry.changeID, detail: entry.field ?? "the whole record",
                    at: now)
            }
            return entry.record
        }
        tellOfMany()
        return restored
    }

    private static func restore(
        _ db: Database, _ entry: ConflictEntry, _ context: ApplyContext, now: Int64
    ) throws {
        let schema = context.schema
        func refuse(_ words: String) -> StoreFailure {
            StoreFailure(kind: .invalid, message: "Conflict \(entry.number) cannot be restored: \(words).")
        }
        guard let entity = schema[entry.record.entity] else { throw refuse("“\(entry.record.entity)” is not declared") }
        guard let loser = entry.winner == "mine" ? entry.theirs : entry.mine else {
            throw refuse("no losing value was kept")
        }
        let writer = UserWriter(entity: entity, schema: schema, now: now)
        guard let field = entry.field else {
            if loser.isNull {
                // A delete lost.
                guard try FullPass.deleteAgain(db, entry.record, context, now: now) else {
                    throw refuse("the record is not here, or something under it is not sent yet")
                }
                return
            }
            guard case .object(let all) = loser else { throw refuse("it is about no value") }
            let fields = try IdentityMap.local(db, all.filter { entity.field($0.key) != nil }, entity)
            let key = entry.record
            if try FullPass.makeAgain(db, key, fields, schema, now: now) { return }
            // Its row is there, of this device's making or of another's: a write of what it says already would be none.
            let row = try RowWriter(entity).read(db, key.id) ?? [:]
            guard fields.contains(where: { !(row[$0.key] ?? .null).isSame(as: $0.value) }) else {
                throw refuse("the record is there already, and says the same")
            }
            return try writer.upsert(db, key.id, fields)
        }
        guard let declared = entity.field(field) else { throw refuse("the field “\(field)” is not declared") }
        // What it refers to may have got an id of this device's since.
        let value = try IdentityMap.local(db, loser, declared)
        guard try writer.update(db, entry.record.id, [field: value]) else { throw refuse("the record is not here") }
    }

    /// How many records the journal says that a server's older history lost, or lost values of (``restoreLost()``), with a number above this.
    public func lostByServer(after number: Int64 = 0) throws(StoreFailure) -> Int {
        try look("counting what the server lost") { db in
            let sql = """
                SELECT count(*) FROM (SELECT DISTINCT entity, id FROM sync_conflict
                WHERE kind = 'lostByServer' AND number > ?)
                """
            return try Int.fetchOne(db.cachedStatement(sql: sql), arguments: [number]) ?? 0
        }
    }

    /// How often values of each entity and field met others, the most often first.
    public func conflictFigures() throws(StoreFailure) -> [ConflictFigure] {
        try look("counting conflicts") { db in
            let sql = """
                SELECT entity, field, count(*), sum(winner = 'mine'), sum(winner = 'theirs'), count(DISTINCT id),
                min(at), max(at),
                avg(CASE WHEN json_type(mine) IN ('integer', 'real') AND json_type(theirs) IN ('integer', 'real')
                  THEN abs((mine ->> '$') - (theirs ->> '$')) END),
                max(CASE WHEN json_type(mine) IN ('integer', 'real') AND json_type(theirs) IN ('integer', 'real')
                  THEN abs((mine ->> '$') - (theirs ->> '$')) END)
                FROM sync_conflict GROUP BY entity, field ORDER BY 3 DESC, entity, field
                """
            return try Row.fetchAll(db.cachedStatement(sql: sql)).map(ConflictFigure.init)
        }
    }
}

/// Conflicts of one field, or of whole records of one entity, added up.
public struct ConflictFigure: Sendable, Hashable {
    public var entity: String
    /// `nil` where whole records are meant.
    public var field: String?
    public var count: Int
    /// How often this device's value stood, and how often the other one.
    public var wonHere: Int
    public var wonThere: Int
    /// How many records they were about.
    public var records: Int
    /// When the first and the last were noted, milliseconds since 1970.
    public var firstMilliseconds: Int64
    public var lastMilliseconds: Int64
    /// For numbers: how far the two values were apart, on average and at most.
    public var meanDistance: Double?
    public var greatestDistance: Double?

    init(_ row: Row) {
        entity = row[0]
        field = row[1]
        count = row[2]
        wonHere = row[3] ?? 0
        wonThere = row[4] ?? 0
        records = row[5]
        firstMilliseconds = row[6]
        lastMilliseconds = row[7]
        meanDistance = row[8]
        greatestDistance = row[9]
    }
}
