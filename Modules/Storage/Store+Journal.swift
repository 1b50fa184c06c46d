import GRDB
public import SyncCore

extension Store {
    /// Values that were overridden, newest first.
    /// - Parameter before: only those that are older than the one with this number, for a journal that is read part by part.
    public func conflicts(before: Int64 = .max, limit: Int = 1000) throws(StoreFailure) -> [ConflictEntry] {
        try look("reading the conflict journal") { db in
            let sql = """
                SELECT number, key, entity, id, field, mine, theirs, winner, rule, at, kind FROM sync_conflict
                WHERE number < ? ORDER BY number DESC LIMIT ?
                """
            return try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [before, limit]).map(ConflictEntry.init)
        }
    }

    /// Records of the server's that could not be applied yet.
    public func held() throws(StoreFailure) -> [HeldRecord] {
        try look("reading held records") { db in
            let sql = "SELECT entity, id, version, reason, detail FROM sync_held ORDER BY version, entity, id"
            return try Row.fetchAll(db.cachedStatement(sql: sql)).map { row in
                HeldRecord(
                    record: RecordKey(row[0], row[1]), version: row[2],
                    reason: HeldRecord.Reason(rawValue: row[3]) ?? .constraint, detail: row[4])
            }
        }
    }

    /// How many records of the server's could not be applied yet, by what keeps them.
    public func heldCounts() throws(StoreFailure) -> [HeldRecord.Reason: Int] {
        try look("counting held records") { db in
            let sql = "SELECT reason, count(*) FROM sync_held GROUP BY reason"
            return try Row.fetchAll(db.cachedStatement(sql: sql)).reduce(into: [:]) { counts, row in
                counts[HeldRecord.Reason(rawValue: row[0]) ?? .constraint, default: 0] += row[1] as Int
            }
        }
    }

    /// What happened that nobody asked for, oldest first.
    public func events() throws(StoreFailure) -> [StoreEvent] {
        try look("reading events") { db in
            let sql = "SELECT number, at, kind, entity, id, key, detail FROM sync_event ORDER BY number"
            return try Row.fetchAll(db.cachedStatement(sql: sql)).map(StoreEvent.init)
        }
    }
}

/// A value that was overridden, with both sides.
public struct ConflictEntry: Sendable, Hashable {
    public var number: Int64
    /// The change whose value it is about, where there is one.
    public var changeID: String?
    public var record: RecordKey
    /// The field; `nil` where it is about the whole record.
    public var field: String?
    public var mine: FieldValue?
    public var theirs: FieldValue?
    /// Whose value stands: `mine` or `theirs`.
    public var winner: String?
    public var rule: MergeRule
    public var atMilliseconds: Int64
    /// How it came about: `replayed`, `lost`, `overwrote`, `lostByServer`, `leftOut`, ….
    public var kind: String

    init(_ row: Row) throws {
        number = row[0]
        changeID = row[1]
        record = RecordKey(row[2], row[3])
        field = row[4]
        mine = try (row[5] as String?).map { try FieldValue(json: $0, maximumDepth: 80) }
        theirs = try (row[6] as String?).map { try FieldValue(json: $0, maximumDepth: 80) }
        winner = row[7]
        rule = (row[8] as String?).flatMap(MergeRule.init(rawValue:)) ?? .lastWriter
        atMilliseconds = row[9]
        kind = row[10]
    }
}

/// Something that happened and that nobody asked for; durable (DESIGN.md, I13).
public struct StoreEvent: Sendable, Hashable {
    public var number: Int64
    public var atMilliseconds: Int64
    /// What it is: `quarantined`, `unknownEntity`, `newDevice`, `clamped`, ….
    public var kind: String
    public var record: RecordKey?
    public var changeID: String?
    /// More, in words.
    public var detail: String?

    init(_ row: Row) {
        number = row[0]
        atMilliseconds = row[1]
        kind = row[2]
        if let entity = row[3] as String? { record = RecordKey(entity, row[4] ?? "") }
        changeID = row[5]
        detail = row[6]
    }
}
