import Foundation
import GRDB
package import SyncCore

/// What handlers of the app's own are still to be told: written in the transaction in which it stands, and taken away once the
/// handler has heard. So a process that is killed in between tells it later, and what a handler refuses is offered again.
///
/// The table is made when the first entry is kept: an app without such handlers never has it. Of each record there is the newest
/// word alone.
extension Store {
    /// From now on what becomes of records of these entities is kept to be told.
    package nonisolated func keepUntold(of entities: Set<String>) { listeners.add(entities) }

    /// The place of the newest entry; 0 where there is none.
    package func lastUntold() throws(StoreFailure) -> Int64 {
        try look("looking for what is to be told") { db in
            guard try Untold.exists(db) else { return 0 }
            return try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(number) FROM sync_untold")) ?? 0
        }
    }

    /// The next entries behind a place, up to another, in the order in which they came.
    package func untold(
        after place: Int64, upTo last: Int64 = .max, limit: Int
    ) throws(StoreFailure) -> [UntoldRecord] {
        try look("reading what is to be told") { db in
            guard try Untold.exists(db) else { return [] }
            let sql = """
                SELECT number, entity, id, version, presence, fields FROM sync_untold
                WHERE number > ? AND number <= ? ORDER BY number LIMIT ?
                """
            let rows = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: [place, last, limit])
            var found: [UntoldRecord] = []
            while let row = try rows.next() { found.append(try Untold.decode(row)) }
            return found
        }
    }

    /// These were heard; those were refused, and stand behind all others from now on.
    package func noteTold(_ heard: [Int64], refused: [Int64] = []) throws(StoreFailure) {
        guard !heard.isEmpty || !refused.isEmpty else { return }
        try perform("noting what was told") { db in
            guard try Untold.exists(db) else { return }
            let delete = try db.cachedStatement(sql: "DELETE FROM sync_untold WHERE number = ?")
            for number in heard { try delete.execute(arguments: [number]) }
            let move = try db.cachedStatement(
                sql: "UPDATE sync_untold SET number = (SELECT max(number) + 1 FROM sync_untold) WHERE number = ?")
            for number in refused { try move.execute(arguments: [number]) }
        }
    }
}

/// One thing that a handler is to be told.
package struct UntoldRecord: Sendable, Hashable {
    package var number: Int64
    package var record: ServerRecord
}

/// The entities whose handlers want to hear.
final class Listeners: @unchecked Sendable {
    // Sendable: `names` is used under `lock` alone.
    private let lock = NSLock()
    private var names: Set<String> = []

    var entities: Set<String> { lock.withLock { names } }

    func add(_ entities: Set<String>) {
        guard !entities.isEmpty else { return }
        lock.withLock { names.formUnion(entities) }
    }
}

/// The table of what handlers are still to be told.
struct Untold {
    let entities: Set<String>

    static func exists(_ db: Database) throws -> Bool { try EngineTables.exists(db, "sync_untold") }

    /// Everything goes with the account that it belongs to.
    static func empty(_ db: Database) throws {
        if try exists(db) { try db.execute(sql: "DELETE FROM sync_untold") }
    }

    /// Keeps these records, each in place of an older word of it; one that is older than what is held is nobody's news.
    func note(_ db: Database, _ records: some Sequence<ServerRecord>) throws {
        guard !entities.isEmpty else { return }
        for record in records where entities.contains(record.key.entity) {
            if try !Self.exists(db) { try db.execute(sql: Self.table) }
            var fields = JSONWriter()
            try fields.members(record.fields)
            let sql = """
                INSERT OR REPLACE INTO sync_untold (entity, id, version, presence, fields) SELECT ?1, ?2, ?3, ?4, ?5
                WHERE NOT EXISTS (SELECT 1 FROM sync_record WHERE entity = ?1 AND id = ?2 AND version > ?3)
                """
            try db.cachedStatement(sql: sql).execute(arguments: [
                record.key.entity, record.key.id, record.version, Self.number(record.presence),
                String(decoding: fields.bytes, as: UTF8.self),
            ])
        }
    }

    /// Of these records, whose rows changed, or of which a verdict told just now: those that are not here, and are not known to be dead, have left
    /// (seeds 277 and 337 of those with handlers), also while something of them waits that knows no more than that (170037).
    func noteLeft(_ db: Database, _ keys: [RecordKey], _ schema: Schema) throws {
        guard !entities.isEmpty else { return }
        for key in Set(keys).sorted() where entities.contains(key.entity) {
            guard let entity = schema[key.entity], try !RowWriter(entity).exists(db, key.id) else { continue }
            if let stored = try StoredRecord.read(db, key), stored.base?.isAway != true { continue }
            let told = "SELECT version FROM sync_untold WHERE entity = ? AND id = ?"
            let version =
                try Self.exists(db)
                ? Int64.fetchOne(db.cachedStatement(sql: told), arguments: [key.entity, key.id]) ?? 0 : 0
            let dead = "SELECT 1 FROM sync_untold WHERE entity = ? AND id = ? AND presence = 1"
            if try Self.exists(db),
                try Row.fetchOne(db.cachedStatement(sql: dead), arguments: [key.entity, key.id]) != nil
            {
                continue
            }
            try note(db, [ServerRecord(key: key, version: version, presence: .gone)])
        }
    }

    /// Runs `body`, and keeps which records of these entities it took out of what is known to live, or of what waits to be shown.
    func noting<T>(_ db: Database, _ presence: ServerRecord.Presence, _ body: () throws -> T) throws -> T {
        guard !entities.isEmpty else { return try body() }
        let (before, heldBefore) = (try living(db), try held(db))
        let result = try body()
        let after = try Set(living(db).map(\.key))
        let heldAfter = heldBefore.isEmpty ? after : try after.union(held(db).map(\.key))
        let left = before.filter { !after.contains($0.key) } + heldBefore.filter { !heldAfter.contains($0.key) }
        try note(db, left.map { ServerRecord(key: $0.key, version: $0.version, presence: presence) })
        return result
    }

    private func living(_ db: Database) throws -> [(key: RecordKey, version: Int64)] {
        try find(
            db,
            """
            SELECT entity, id, version FROM sync_record WHERE entity = ?
            AND (base IS NULL OR coalesce(base ->> '$.deleted', 0) = 0) ORDER BY id
            """)
    }

    /// What a page told of and waits for its parent, say (seed 866 of those with handlers).
    private func held(_ db: Database) throws -> [(key: RecordKey, version: Int64)] {
        try find(
            db,
            """
            SELECT entity, id, version FROM sync_held WHERE entity = ? AND version > 0
            AND record ->> '$.deleted' IS NULL AND record ->> '$.gone' IS NULL ORDER BY id
            """)
    }

    private func find(_ db: Database, _ sql: String) throws -> [(key: RecordKey, version: Int64)] {
        let statement = try db.cachedStatement(sql: sql)
        return try entities.sorted().flatMap { name in
            try Row.fetchAll(statement, arguments: [name]).map { (RecordKey($0[0], $0[1]), $0[2] as Int64) }
        }
    }

    static func decode(_ row: Row) throws -> UntoldRecord {
        guard case .object(let fields) = try FieldValue(json: row[5], maximumDepth: 80) else {
            throw StoreFailure(kind: .corrupt, message: "What a handler is to be told of cannot be read.")
        }
        let record = ServerRecord(
            key: RecordKey(row[1], row[2]), version: row[3], presence: presence(row[4]), fields: fields)
        return UntoldRecord(number: row[0], record: record)
    }

    private static func number(_ presence: ServerRecord.Presence) -> Int {
        switch presence {
        case .live: 0
        case .deleted: 1
        case .gone: 2
        }
    }

    private static func presence(_ number: Int) -> ServerRecord.Presence {
        switch number {
        case 1: .deleted
        case 2: .gone
        default: .live
        }
    }

    /// No number is given twice: who has told up to one looks behind it for what is new.
    private static let table = """
        CREATE TABLE sync_untold (
          number INTEGER PRIMARY KEY AUTOINCREMENT, entity TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL,
          presence INTEGER NOT NULL, fields TEXT NOT NULL, UNIQUE (entity, id))
        """
}

extension Store {
    /// What is to be told, for a transaction at work.
    var untold: Untold { Untold(entities: listeners.entities) }
}

extension Settlement.Outcome {
    /// The record that a verdict brought.
    var record: ServerRecord? {
        switch kind {
        case .merged(let record), .conflict(let record, _): record
        case .applied, .setAside, .unanswered: nil
        }
    }
}
