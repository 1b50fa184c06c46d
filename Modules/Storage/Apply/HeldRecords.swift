import GRDB
public import SyncCore

/// Records that wait in `sync_held` for something to come or to change, with their reason.
enum HeldRecords {
    /// Keeps a record aside, in place of an older version of it; a newer one that is held stays.
    ///
    /// A field that it does not name keeps its value (DAT-21), and where the row could not be written, what was held says that: the row
    /// may show a change that was refused (seed 45452).
    static func hold(
        _ db: Database, _ record: ServerRecord, _ reason: HeldRecord.Reason, detail: String?, waits: RecordKey? = nil
    ) throws {
        var record = record
        if record.presence == .live, let before = try find(db, record.key), before.presence == .live, before.version > 0
        {
            record.fields.merge(before.fields) { named, _ in named }
        }
        var fields = JSONWriter()
        fields.beginObject()
        if record.presence != .live {
            fields.key(record.presence == .gone ? "gone" : "deleted")
            fields.bool(true)
        }
        fields.key("fields")
        try fields.members(record.fields)
        fields.endObject()
        try db.cachedStatement(
            sql: """
                INSERT INTO sync_held (entity, id, version, reason, detail, waitsEntity, waitsID, record)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (entity, id) DO UPDATE SET version = excluded.version, reason = excluded.reason,
                detail = excluded.detail, waitsEntity = excluded.waitsEntity, waitsID = excluded.waitsID,
                record = excluded.record
                WHERE excluded.version >= version
                """
        ).execute(arguments: [
            record.key.entity, record.key.id, record.version, reason.rawValue, detail, waits?.entity, waits?.id,
            String(decoding: fields.bytes, as: UTF8.self),
        ])
    }

    /// The record is not held any more.
    static func forget(_ db: Database, _ key: RecordKey) throws {
        try db.cachedStatement(sql: "DELETE FROM sync_held WHERE entity = ? AND id = ?")
            .execute(arguments: [key.entity, key.id])
    }

    /// Nothing waits any more for this record to come, which died with a version: what has a higher one was made under it later, as
    /// it lived again.
    ///
    /// What waits for those waits on: one of them may have been moved away before the record died, and come at its new place,
    /// which gives what is under it no new version. What died comes as a tombstone, if that is not known already; until then a row
    /// that shows it as it was elsewhere keeps its version.
    static func forget(
        _ db: Database, under key: RecordKey, upTo version: Int64, _ schema: Schema
    ) throws {
        var open = try waiting(db, for: key).filter { $0.version <= version }
        for record in open {
            try forget(db, record.key)
            if let entity = schema[record.key.entity], try RowWriter(entity).exists(db, record.key.id) { continue }
            // What is known since, as of its own delete, stays (seed 3330074 with `--server-ids --conditions --bias histories`).
            if let stored = try StoredRecord.read(db, record.key), stored.version > record.version { continue }
            try StoredRecord.delete(db, record.key)
        }
        while let parent = open.popLast() {
            for record in try waiting(db, for: parent.key) where try isKnownDead(db, record) {
                try forget(db, record.key)
                open.append(record)
            }
        }
    }

    /// Lets go what is of entities that this program does not know: nobody can tell under which root it is.
    /// - Returns: their names.
    static func forgetUnknown(_ db: Database) throws -> Set<String> {
        let reason = HeldRecord.Reason.unknownEntity.rawValue
        let sql = "SELECT DISTINCT entity FROM sync_held WHERE reason = ?"
        let names = try String.fetchAll(db.cachedStatement(sql: sql), arguments: [reason])
        guard !names.isEmpty else { return [] }
        try db.cachedStatement(sql: "DELETE FROM sync_held WHERE reason = ?").execute(arguments: [reason])
        return Set(names)
    }

    /// What stands under records that are not here, as verdicts say, up to a version, and what waits for it.
    static func strayed(_ db: Database, upTo version: Int64) throws -> [ServerRecord] {
        var found = try fetch(db, "WHERE reason = ? AND version <= ?", [HeldRecord.Reason.stray.rawValue, version])
        var next = 0
        while next < found.count {
            found += try waiting(db, for: found[next].key)
            next += 1
        }
        return found
    }

    /// Whether there are any.
    static func hasStrays(_ db: Database) throws -> Bool {
        let sql = "SELECT 1 FROM sync_held WHERE reason = ? LIMIT 1"
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [HeldRecord.Reason.stray.rawValue]) != nil
    }

    /// What waits for a record that is neither here, nor held, nor hidden by unsent changes of its own.
    static func strays(_ db: Database, _ schema: Schema) throws -> [RecordKey] {
        let sql = """
            SELECT entity, id, waitsEntity, waitsID FROM sync_held AS held
            WHERE reason = '\(HeldRecord.Reason.parent.rawValue)' AND waitsID IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM sync_held AS other WHERE other.entity = held.waitsEntity AND other.id = held.waitsID)
            ORDER BY entity, id
            """
        return try Row.fetchAll(db.cachedStatement(sql: sql)).compactMap { row in
            let parent = RecordKey(row[2], row[3])
            guard try !Base.hasRemaining(db, parent), let entity = schema[parent.entity],
                try !RowWriter(entity).exists(db, parent.id)
            else { return nil }
            return RecordKey(row[0], row[1])
        }
    }

    /// Whether a record that is held has died since, by what is known here.
    private static func isKnownDead(_ db: Database, _ record: ServerRecord) throws -> Bool {
        guard let stored = try StoredRecord.read(db, record.key) else { return false }
        return stored.base?.isLive == false && stored.version >= record.version
    }

    static func version(_ db: Database, _ key: RecordKey) throws -> Int64? {
        try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT version FROM sync_held WHERE entity = ? AND id = ?"),
            arguments: [key.entity, key.id])
    }

    /// The one that is held of this record.
    static func find(_ db: Database, _ key: RecordKey) throws -> ServerRecord? {
        try fetch(db, "WHERE entity = ? AND id = ?", [key.entity, key.id]).first
    }

    /// The one that is held of this record, where it waits for a parent.
    static func waitingForParent(_ db: Database, _ key: RecordKey) throws -> ServerRecord? {
        let reason = HeldRecord.Reason.parent.rawValue
        let held = try fetch(db, "WHERE entity = ? AND id = ? AND reason = ?", [key.entity, key.id, reason]).first
        return held?.presence == .live ? held : nil
    }

    /// Those that wait for one that waits for a parent, too.
    static func waitingForHeld(_ db: Database) throws -> [ServerRecord] {
        try fetch(
            db,
            """
            AS held WHERE reason = ?1 AND EXISTS (SELECT 1 FROM sync_held AS other
              WHERE other.entity = held.waitsEntity AND other.id = held.waitsID AND other.reason = ?1)
            """, [HeldRecord.Reason.parent.rawValue])
    }

    static func count(_ db: Database) throws -> Int {
        try Int.fetchOne(db.cachedStatement(sql: "SELECT count(*) FROM sync_held")) ?? 0
    }

    static func isEmpty(_ db: Database) throws -> Bool {
        let row = try RawStatement(db, "SELECT 1 FROM sync_held LIMIT 1")
        row.begin()
        defer { row.begin() }
        return try !row.step()
    }

    /// Those that wait for this record.
    static func waiting(_ db: Database, for key: RecordKey) throws -> [ServerRecord] {
        try fetch(db, "WHERE waitsEntity = ? AND waitsID = ?", [key.entity, key.id])
    }

    /// Those with one of these reasons, oldest version first, at most so many of each.
    static func held(_ db: Database, for reasons: [HeldRecord.Reason], limit: Int) throws -> [ServerRecord] {
        try reasons.flatMap { reason in
            try fetch(db, "WHERE reason = ? ORDER BY version LIMIT ?", [reason.rawValue, limit])
        }
    }

    private static func fetch(
        _ db: Database, _ condition: String, _ arguments: StatementArguments
    ) throws -> [ServerRecord] {
        let sql = "SELECT entity, id, version, record FROM sync_held \(condition)"
        return try Row.fetchAll(db.cachedStatement(sql: sql), arguments: arguments).map { row in
            var record = ServerRecord(key: RecordKey(row[0], row[1]), version: row[2])
            guard case .object(let members) = try FieldValue(json: row[3] as String, maximumDepth: 80) else {
                return record
            }
            if case .object(let fields)? = members["fields"] { record.fields = fields }
            if members["deleted"] != nil { record.presence = .deleted }
            if members["gone"] != nil { record.presence = .gone }
            return record
        }
    }
}

/// A record of the server's that could not be applied yet.
public struct HeldRecord: Sendable, Hashable {
    /// What it waits for.
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// A record that it refers to is not here.
        case parent
        /// Its entity is not declared in this version of the app.
        case unknownEntity
        /// A field's value is of another type than declared.
        case type
        /// A constraint of the app's table.
        case constraint
        /// It was deleted or left, but it or something under it has unsent changes; a leave waits for those that were sent.
        case unsent
        /// A verdict put it under a record of which nothing is known here: it goes, unless that one comes with the pages.
        case stray
    }

    public var record: RecordKey
    public var version: Int64
    public var reason: Reason
    /// The reason in words.
    public var detail: String?
}
