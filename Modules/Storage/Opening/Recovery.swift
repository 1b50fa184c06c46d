import Foundation
import GRDB
import SyncCore

/// What is done with a file that is no usable database any more (PRC-14): it is moved aside, never deleted, and what can
/// be read of the engine's tables is copied into a new one.
enum Recovery {
    /// The engine's tables that are worth saving, the queue first; the app's rows come back with a full download.
    private static let tables = [
        "sync_clock", "sync_change", "sync_failure", "sync_identity", "sync_conflict", "sync_event", "sync_meta",
        "sync_draft",
    ]

    /// Moves the file and its companions aside, the file last: until then it is found corrupt again, and this goes on.
    static func moveAside(_ path: String, now: Int64) throws(StoreFailure) {
        let files = FileManager.default
        let note = AsideNote(database: path)
        // One that was moved before, and whose queue is not saved yet, is still to be saved; one that was only to be moved is this.
        let earlier = note.targets.filter { files.fileExists(atPath: $0) }
        var target = note.targets.first { !files.fileExists(atPath: $0) } ?? "\(path).corrupt-\(now)"
        var number = 1
        while files.fileExists(atPath: target) {
            number += 1
            target = "\(path).corrupt-\(now)-\(number)"
        }
        try note.set(targets: earlier + [target])
        do {
            for suffix in ["-wal", "-shm", "-corrupt", ""] where files.fileExists(atPath: path + suffix) {
                try files.moveItem(atPath: path + suffix, toPath: target + suffix)
            }
        } catch {
            throw StoreFailure(
                kind: .corrupt,
                message: "The database is corrupt, and cannot be moved aside: \(error.localizedDescription)")
        }
    }

    /// Copies what can be read of the engine's tables, row by row, into the new database.
    /// - Returns: how many changes were saved.
    static func salvage(_ db: Database, from path: String, _ schema: Schema, now: Int64) throws -> Int {
        var saved: [String: [Row]] = [:]
        let mended = try MendedHeader(of: path, like: db)
        defer { mended?.remove() }
        for table in tables { saved[table] = rows(of: table, in: mended?.path ?? path) }
        let old = Dictionary(
            (saved["sync_meta"] ?? []).compactMap { row in (row["key"] as String?).map { ($0, row) } },
            uniquingKeysWith: { $1 })
        if let clock = saved["sync_clock"]?.first {
            try db.execute(
                sql: "UPDATE sync_clock SET sequence = max(sequence, ?), stamp = max(stamp, ?)",
                arguments: [clock["sequence"] as Int64? ?? 0, clock["stamp"] as Int64? ?? 0])
        }
        for key in [Meta.Key.account, .dataset] {
            if let value = old[key.rawValue]?["value"] as String? { try Meta.set(db, key, value) }
        }
        for table in ["sync_failure", "sync_identity", "sync_conflict", "sync_event", "sync_draft"] {
            for row in saved[table] ?? [] { try insert(db, row, into: table) }
        }
        let device = old[Meta.Key.device.rawValue]?["value"] as String?
        var count = 0
        for row in saved["sync_change"] ?? [] where try insert(db, row, into: "sync_change") { count += 1 }
        try db.execute(
            sql: """
                UPDATE sync_change SET device = coalesce(device, ?), state = CASE state WHEN 1 THEN 2 ELSE state END
                """, arguments: [device])
        try db.execute(
            sql: """
                UPDATE sync_clock SET queued = (SELECT count(*) FROM sync_change),
                sequence = max(sequence, (SELECT coalesce(max(max(sequence), max(position)), 0) FROM sync_change)),
                stamp = max(stamp, (SELECT coalesce(max(stamp), 0) FROM sync_change))
                """)
        try freeOfLost(db, now: now)
        try showAgain(db, schema, now: now)
        try Journal.event(db, .movedAside, detail: path, at: now)
        try Journal.event(db, .salvaged, detail: "\(count) changes", at: now)
        return count
    }

    /// What was lost holds nothing up and hides nothing: a change that waited for one that is not there looks anew for what it needs,
    /// and one that was set aside for a reason that is not there is told with another, and counts as without a verdict.
    static func freeOfLost(_ db: Database, now: Int64) throws {
        try db.execute(
            sql: """
                UPDATE sync_change SET state = CASE state WHEN 5 THEN 2 ELSE 0 END, blockedBy = NULL
                WHERE state IN (3, 5) AND coalesce(blockedBy, '') NOT IN (SELECT key FROM sync_change)
                AND coalesce(blockedBy, '') NOT IN (
                  SELECT CASE kind WHEN 1 THEN 'held:' ELSE 'local:' END || entity || '/' || id FROM sync_draft)
                """)
        let reason = try ReasonCodec.json(.reasonLost)
        let isLost = "state = 4 AND key NOT IN (SELECT key FROM sync_failure)"
        try db.execute(
            sql: """
                INSERT INTO sync_event (at, kind, entity, id, key, detail)
                SELECT ?, 'setAside', entity, id, key, ? FROM sync_change WHERE \(isLost)
                """, arguments: [now, reason])
        try db.execute(
            sql: """
                INSERT INTO sync_failure (key, position, reason, failedAt, uncertain)
                SELECT key, position, ?, ?, ? FROM sync_change WHERE \(isLost)
                """, arguments: [reason, now, Failures.Doubt.shown.rawValue])
    }

    /// The rows that the saved changes make by themselves are there again at once (I6); updates find theirs when the
    /// download brings it.
    ///
    /// What cannot stand yet, for want of its parent most of all, is held: the download brings the parent, and nothing else would
    /// look for the row, not even the verdict of its create, which finds it made where nothing is held.
    private static func showAgain(_ db: Database, _ schema: Schema, now: Int64) throws {
        let keys = try Row.fetchAll(
            db, sql: "SELECT entity, id FROM sync_change WHERE operation = 0 ORDER BY position")
        let replay = Replay(deltas: LastWriterDeltas())
        try RowWriter.applying(db) {
            for key in keys.map({ RecordKey($0[0], $0[1]) }) {
                guard let entity = schema[key.entity] else { continue }
                let shown = replay.state(of: try Base.remaining(db, of: key, schema), onto: .absent)
                guard shown.isLive else { continue }
                let fields = shown.fields.filter { entity.field($0.key) != nil }
                let table = AppliedTable(db, entity, schema, foreignKeys: [:])
                let unsaid = ServerRecord(key: key, version: 0, presence: .deleted)
                if let missing = try table.missing(key, fields) {
                    let detail = "its unsent changes refer to \(missing), which is not here"
                    try HeldRecords.hold(db, unsaid, .unsent, detail: detail, waits: missing)
                    continue
                }
                do {
                    try db.inSavepoint {
                        try RowWriter(entity).upsert(db, key.id, fields)
                        return .commit
                    }
                } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                    try HeldRecords.hold(db, unsaid, .constraint, detail: error.message)
                    try Journal.event(db, .quarantined, key, detail: error.message, at: now)
                }
            }
        }
    }

    /// All rows of a table that can be read; reading goes on after each place that cannot.
    private static func rows(of table: String, in path: String) -> [Row] {
        var settings = Configuration()
        settings.readonly = true
        do {
            let queue = try DatabaseQueue(path: path, configuration: settings)
            return try queue.read { db in try readable(db, table) }
        } catch {
            // kept: nothing of it can be read: that is what the file was moved aside for.
            return []
        }
    }

    /// Forwards up to the broken page, then backwards from the end.
    private static func readable(_ db: Database, _ table: String) throws -> [Row] {
        let isQueue = table == "sync_change"
        let orders = isQueue ? ["ORDER BY position", "ORDER BY position DESC"] : [""]
        var found: [Row] = []
        var places: Set<Int64> = []
        for order in orders {
            do {
                let cursor = try Row.fetchCursor(db, sql: "SELECT * FROM \(table) \(order)")
                while let row = try cursor.next() {
                    if isQueue, let place = row["position"] as Int64?, !places.insert(place).inserted { continue }
                    found.append(row.copy())
                }
                break
            } catch is DatabaseError {
                continue
            }
        }
        return found
    }

    /// - Returns: whether the row is in; one that the new table does not take is left in the old file.
    @discardableResult
    private static func insert(_ db: Database, _ row: Row, into table: String) throws -> Bool {
        let columns = row.columnNames.map { "\"\($0)\"" }.joined(separator: ", ")
        let marks = row.columnNames.map { _ in "?" }.joined(separator: ", ")
        do {
            try db.execute(
                sql: "INSERT OR IGNORE INTO \(table) (\(columns)) VALUES (\(marks))",
                arguments: StatementArguments(row.databaseValues))
            return db.changesCount > 0
        } catch let error as DatabaseError where error.resultCode != .SQLITE_FULL && error.resultCode != .SQLITE_IOERR {
            return false
        }
    }
}

extension SetAsideReason {
    /// The reason stood on a page that is gone.
    static let reasonLost = SetAsideReason(
        code: "reasonLost", message: "The change was set aside, and a damaged file does not say why.")
}
