import GRDB
public import SyncCore

/// Contents, told by one number (PROTOCOL.md, *Records*, `checksum`).
extension Store {
    /// The checksum of the server's records as they are held here; `nil` while something unsent, or a full pass, keeps them
    /// from being compared, or where this file stands at another version. Records that are held for a reason count as well.
    public func contentChecksum(at version: Int64) throws(StoreFailure) -> String? {
        try look("adding up contents") { db in
            let scopes = try Scopes.read(db)
            let stands =
                try scopes.map { $0.leaving.isEmpty && $0.asked.values.allSatisfy { $0 == version } }
                ?? (Meta.integer(db, .checkpoint) == version)
            guard stands, try Meta.integer(db, .passRuns) != 1, try !Self.isUndecided(db) else { return nil }
            // By the ids that the server has for them; what lies aside may keep a version from being held that was told (Decision 503).
            let sql = """
                SELECT entity, coalesce(
                  (SELECT serverID FROM sync_identity WHERE entity = live.entity AND id = live.id), id), version
                FROM (
                  SELECT entity, id, max(version, coalesce(base ->> '$.told', 0)) AS version FROM sync_record AS known
                  WHERE known.version > 0 AND (base IS NULL OR coalesce(base ->> '$.deleted', 0) = 0)
                  AND NOT EXISTS (SELECT 1 FROM sync_held WHERE entity = known.entity AND id = known.id)
                  UNION ALL SELECT entity, id, version FROM sync_held
                  WHERE record ->> '$.deleted' IS NULL AND record ->> '$.gone' IS NULL) AS live
                """
            var sum: UInt64 = 0
            let rows = try Row.fetchCursor(db.cachedStatement(sql: sql))
            while let row = try rows.next() { sum &+= Self.hash(row[0], row[1], row[2]) }
            let digits = String(sum, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }
    }

    /// Whether nothing unsent keeps contents from being compared now.
    public func mayCompareContents() throws(StoreFailure) -> Bool {
        try look("looking for unsent changes") { db in try !Self.isUndecided(db) }
    }

    private static func isUndecided(_ db: Database) throws -> Bool {
        try Row.fetchOne(db.cachedStatement(sql: "SELECT 1 FROM sync_change WHERE state <> 4 LIMIT 1")) != nil
    }

    /// Whether a record is known here, or held, in a version of the server's below this one.
    public func holdsRecords(below version: Int64) throws(StoreFailure) -> Bool {
        try look("looking for old versions") { db in
            let known = "SELECT 1 FROM sync_record WHERE version > 0 AND version < ?"
            let held = "SELECT 1 FROM sync_held WHERE version > 0 AND version < ?"
            return try Row.fetchOne(db, sql: "\(known) UNION ALL \(held) LIMIT 1", arguments: [version, version]) != nil
        }
    }

    /// FNV-1a-64 over entity LF id LF version.
    private static func hash(_ entity: String, _ id: String, _ version: Int64) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in "\(entity)\n\(id)\n\(version)".utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return hash
    }

    /// When contents were last compared, milliseconds since 1970.
    public func contentsComparedMilliseconds() throws(StoreFailure) -> Int64? {
        try look("reading when contents were compared") { db in try Meta.integer(db, .comparedAt) }
    }

    public func setContentsCompared(milliseconds: Int64) throws(StoreFailure) {
        try perform("noting a comparison") { db in try Meta.set(db, .comparedAt, milliseconds) }
    }

    /// The server held other contents at the same checkpoint.
    public func noteDivergence(mine: String, theirs: String) throws(StoreFailure) {
        let now = now
        try perform("noting a divergence") { db in
            try Journal.event(db, .diverged, detail: "\(mine) here, \(theirs) there", at: now)
        }
    }
}
