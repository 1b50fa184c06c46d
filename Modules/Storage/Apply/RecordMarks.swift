import GRDB
import SyncCore

/// The versions held of a slice's records, and which of them have unsent changes: asked by statements that are prepared
/// once.
///
/// What is noted stands in `sync_record` after ``flush()``,
/// which comes before anything that reads or writes one record's row there.
final class RecordMarks {
    /// What is known of a record before its slice is applied.
    struct Look {
        /// The version held, and the full pass that brought it.
        var held: (version: Int64, pass: Int64?)?
        /// It has entries in the queue.
        var isUnsent = false
        /// The base that is kept of it, in its stored form; asked for where it is unsent.
        var base: String?
    }

    private let db: Database
    private let pass: PassState
    private let hasQueue: Bool
    private let unsent: UnsentRecords?
    private var noted: [(record: RecordKey, version: Int64, extra: String?, base: String?)] = []
    private var versions: RawStatement?
    private var changes: RawStatement?
    private var write: RawStatement?

    /// - Parameter unsent: what is remembered of the queue, where this is a slice of a page.
    init(_ db: Database, _ pass: PassState, hasQueue: Bool, _ unsent: UnsentRecords?) {
        self.db = db
        self.unsent = unsent
        self.pass = pass
        self.hasQueue = hasQueue
    }

    /// Looks at all records of a slice, in their order. Where all are newer than anything that is held, as in a first
    /// download, nobody need ask for their versions; but for those of 0, which what another history left has.
    func look(at records: [ServerRecord]) throws -> [Look] {
        let highest = try Meta.integer(db, .highest) ?? .max
        let isNew = !pass.isRunning && !pass.isInOtherHistory && records.allSatisfy { $0.version > highest }
        guard hasQueue || !isNew else { return Array(repeating: Look(), count: records.count) }
        var looks = Array(repeating: Look(), count: records.count)
        var unsentPlaces: [Int] = []
        if hasQueue {
            try unsent?.refresh(db)
            unsentPlaces = try unsent?.places(in: records) ?? records.indices.filter { try hasChanges(records[$0].key) }
        }
        for place in unsentPlaces { looks[place].isUnsent = true }
        for place in isNew ? unsentPlaces : Array(records.indices) {
            looks[place] = try find(records[place].key, isUnsent: looks[place].isUnsent)
        }
        return looks
    }

    private func find(_ key: RecordKey, isUnsent: Bool = false) throws -> Look {
        let sql = "SELECT version, pass, base FROM sync_record WHERE entity = ? AND id = ?"
        let statement = try versions ?? RawStatement(db, sql)
        versions = statement
        statement.begin()
        statement.add(key.entity)
        statement.add(key.id)
        defer { statement.begin() }
        guard try statement.step(), let version = statement.integer(0) else { return Look(isUnsent: isUnsent) }
        return Look(
            held: (version, statement.integer(1)), isUnsent: isUnsent, base: isUnsent ? statement.text(2) : nil)
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
    func isUnsent(_ key: RecordKey) throws -> Bool { try hasQueue && hasChanges(key) }

    /// Whether a newer version is held.
    func isBelowHeld(_ record: ServerRecord) throws -> Bool {
        try flush()
        return isBelow(record, try find(record.key).held)
    }

    /// Whether a record is older than the version held. In a full pass, one that the pass has not brought yet is taken
    /// whatever was held before: another history counts anew. Else the mark of a pass says nothing.
    func isBelow(_ record: ServerRecord, _ held: (version: Int64, pass: Int64?)?) -> Bool {
        guard let held, record.version < held.version else { return false }
        return !pass.isRunning || (held.pass ?? -1) >= pass.number
    }

    /// The server says this of the record.
    /// - Parameter base: its state in the stored form, where unsent changes stand on top of it; else the row says it.
    func note(_ record: ServerRecord, extra: String?, base: String? = nil) {
        noted.append((record.key, record.version, extra, base))
    }

    /// Writes what was noted where this record is among it: it stands twice in the slice.
    func flush(for key: RecordKey) throws {
        if noted.contains(where: { $0.record.id == key.id }) { try flush() }
    }

    /// Writes what was noted, row by row: a statement of several rows copies each page that it touches, to be able to take
    /// all of it back, and these rows stand in no order (Decision 230).
    func flush() throws {
        guard !noted.isEmpty else { return }
        let statement = try write ?? RawStatement(db, Self.replacing)
        write = statement
        for row in noted {
            statement.begin()
            statement.add(row.record.entity)
            statement.add(row.record.id)
            statement.add(row.version)
            statement.add(row.base)
            statement.add(row.extra)
            statement.add(pass.number)
            try statement.runUnseen()
        }
        noted.removeAll(keepingCapacity: true)
    }

    /// It names every column of the table, which has no index but its key, and no trigger: one row of one tree.
    static let replacing = """
        INSERT OR REPLACE INTO sync_record (entity, id, version, base, extra, pass) VALUES (?, ?, ?, ?, ?, ?)
        """
}
