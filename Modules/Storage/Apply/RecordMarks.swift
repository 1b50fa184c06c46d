import GRDB
import SyncCore

/// The versions held of a slice's records, and which of them have unsent changes: asked once for a slice, written once.
///
/// One statement for many records costs a fraction of one for each. What is noted stands in `sync_record` after ``flush()``,
/// which comes before anything that reads or writes one record's row there.
final class RecordMarks {
    private let db: Database
    private let pass: PassState
    private let hasQueue: Bool
    private var asked: Set<RecordKey> = []
    private var held: [RecordKey: (version: Int64, pass: Int64?)] = [:]
    private var unsent: Set<RecordKey> = []
    private var noted: [String: [FieldValue]] = [:]

    init(_ db: Database, _ pass: PassState, hasQueue: Bool) {
        self.db = db
        self.pass = pass
        self.hasQueue = hasQueue
    }

    /// Asks for all records of a slice.
    func lookUp(_ records: [ServerRecord]) throws {
        var ids: [String: [FieldValue]] = [:]
        for record in records where asked.insert(record.key).inserted {
            ids[record.key.entity, default: []].append(.string(record.key.id))
        }
        let versions = try db.cachedStatement(
            sql: """
                SELECT id, version, pass FROM sync_record
                WHERE entity = ? AND id IN (SELECT value FROM json_each(?))
                """)
        let changed = try db.cachedStatement(
            sql: "SELECT DISTINCT id FROM sync_change WHERE entity = ? AND id IN (SELECT value FROM json_each(?))")
        for (entity, all) in ids.sorted(by: { $0.key < $1.key }) {
            let list = try FieldValue.array(all).jsonText()
            let rows = try Row.fetchCursor(versions, arguments: [entity, list])
            while let row = try rows.next() { held[RecordKey(entity, row[0])] = (row[1], row[2]) }
            guard hasQueue else { continue }
            for id in try String.fetchAll(changed, arguments: [entity, list]) { unsent.insert(RecordKey(entity, id)) }
        }
    }

    /// Whether the record has entries in the queue.
    func isUnsent(_ key: RecordKey) throws -> Bool {
        guard hasQueue else { return false }
        return try asked.contains(key) ? unsent.contains(key) : Base.hasRemaining(db, key)
    }

    /// Whether a newer version is held. A record of a full pass is taken whatever was held before: another history
    /// counts anew.
    func isBelowHeld(_ record: ServerRecord) throws -> Bool {
        if !asked.contains(record.key) {
            try flush()
            try lookUp([record])
        }
        guard let known = held[record.key], record.version < known.version else { return false }
        return (known.pass ?? -1) >= pass.floor
    }

    /// The record's row is what the server says in this version.
    func note(_ record: ServerRecord, extra: String?) {
        held[record.key] = (record.version, pass.number)
        noted[record.key.entity, default: []].append(
            [.string(record.key.id), .int(record.version), extra.map(FieldValue.string) ?? .null])
    }

    /// Writes what was noted.
    func flush() throws {
        guard !noted.isEmpty else { return }
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO sync_record (entity, id, version, extra, pass)
                SELECT ?1, value ->> 0, value ->> 1, value ->> 2, ?3 FROM json_each(?2) WHERE true
                ON CONFLICT (entity, id) DO UPDATE SET version = excluded.version, base = NULL, extra = excluded.extra,
                pass = excluded.pass
                """)
        for (entity, rows) in noted.sorted(by: { $0.key < $1.key }) {
            try statement.execute(arguments: [entity, try FieldValue.array(rows).jsonText(), pass.number])
        }
        noted = [:]
    }

    /// What is known of a record may have changed.
    func forget(_ key: RecordKey) { if asked.remove(key) != nil { held[key] = nil } }
}
