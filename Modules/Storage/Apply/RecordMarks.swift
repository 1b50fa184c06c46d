import GRDB
import SyncCore

/// The versions held of a slice's records, and which of them have unsent changes: asked once for a slice, written once.
///
/// What is noted stands in `sync_record` after ``flush()``,
/// which comes before anything that reads or writes one record's row there.
final class RecordMarks {
    private let db: Database
    private let pass: PassState
    private let hasQueue: Bool
    private var asked: Set<RecordKey> = []
    private var held: [RecordKey: (version: Int64, pass: Int64?)] = [:]
    private var unsent: Set<RecordKey> = []
    private var noted: [(record: RecordKey, version: Int64, extra: String?)] = []
    private var versions: RawStatement?
    private var changes: RawStatement?
    private var writes: RawStatement?

    init(_ db: Database, _ pass: PassState, hasQueue: Bool) {
        self.db = db
        self.pass = pass
        self.hasQueue = hasQueue
    }

    /// Asks for all records of a slice. Where all are newer than anything that is held, as in a first download, nobody
    /// need ask for their versions.
    func lookUp(_ records: [ServerRecord]) throws {
        let highest = try Meta.integer(db, .highest) ?? .max
        let isNew = !pass.isRunning && records.allSatisfy { $0.version > highest }
        for record in records where asked.insert(record.key).inserted {
            if !isNew, let row = try find(record.key) { held[record.key] = row }
            if hasQueue, try hasChanges(record.key) { unsent.insert(record.key) }
        }
    }

    private func find(_ key: RecordKey) throws -> (version: Int64, pass: Int64?)? {
        let statement =
            try versions ?? RawStatement(db, "SELECT version, pass FROM sync_record WHERE entity = ? AND id = ?")
        versions = statement
        statement.begin()
        statement.add(key.entity)
        statement.add(key.id)
        defer { statement.begin() }
        guard try statement.step(), let version = statement.integer(0) else { return nil }
        return (version, statement.integer(1))
    }

    private func hasChanges(_ key: RecordKey) throws -> Bool {
        let statement =
            try changes ?? RawStatement(db, "SELECT 1 FROM sync_change WHERE entity = ? AND id = ? LIMIT 1")
        changes = statement
        statement.begin()
        statement.add(key.entity)
        statement.add(key.id)
        defer { statement.begin() }
        return try statement.step()
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
        noted.append((record.key, record.version, extra))
    }

    /// Writes what was noted.
    func flush() throws {
        guard !noted.isEmpty else { return }
        let statement =
            try writes
            ?? RawStatement(
                db,
                """
                INSERT INTO sync_record (entity, id, version, extra, pass) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (entity, id) DO UPDATE SET version = excluded.version, base = NULL, extra = excluded.extra,
                pass = excluded.pass
                """)
        writes = statement
        for row in noted {
            statement.begin()
            statement.add(row.record.entity)
            statement.add(row.record.id)
            statement.add(row.version)
            statement.add(row.extra)
            statement.add(pass.number)
            try statement.run()
        }
        noted.removeAll(keepingCapacity: true)
    }

    /// What is known of a record may have changed.
    func forget(_ key: RecordKey) { if asked.remove(key) != nil { held[key] = nil } }
}
