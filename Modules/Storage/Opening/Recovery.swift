import Foundation
import GRDB
import SyncCore

/// What is done with a file that is no usable database any more (PRC-14): it is moved aside, not deleted before its account signs out,
/// and what can be read of the engine's tables is copied into a new one.
enum Recovery {
    /// The engine's tables that are worth saving, the queue first; the app's rows come back with a full download.
    private static let tables = [
        "sync_clock", "sync_change", "sync_failure", "sync_identity", "sync_conflict", "sync_event", "sync_meta",
        "sync_draft",
    ]

    /// Begins the ending of a file's name that was moved aside.
    static let suffix = ".corrupt-"

    /// Moves the file and its companions aside, the file last: until then it is found corrupt again, and this goes on.
    static func moveAside(_ path: String, now: Int64) throws(StoreFailure) {
        let files = FileManager.default
        let note = AsideNote(database: path)
        // One that was moved before, and whose queue is not saved yet, is still to be saved; one that was only to be moved is this.
        let earlier = note.targets.filter { files.fileExists(atPath: $0) }
        var target = note.targets.first { !files.fileExists(atPath: $0) } ?? "\(path)\(suffix)\(now)"
        var number = 1
        while files.fileExists(atPath: target) {
            number += 1
            target = "\(path)\(suffix)\(now)-\(number)"
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

    /// Copies what can be read of the engine's tables, row by row, into the new database, and of the app's what stands nowhere else.
    ///
    /// What is in the new one's queue by now, made of rows that the app put there itself, goes behind what is saved. Of several broken
    /// files the oldest comes first.
    /// - Returns: how many changes were saved; none where this file was saved before, and nobody could note that any more.
    static func salvage(_ db: Database, from path: String, _ context: ApplyContext, now: Int64) throws -> Int {
        guard try !isSaved(db, path) else { return 0 }
        let mended = try MendedHeader(of: path, like: db)
        defer { mended?.copy.remove() }
        let file = mended?.copy.path ?? path
        let known = try BrokenFile(file).knows(tables + ["sync_dirty"], of: db)
        let legible = known ? nil : MendedTables(of: file)
        defer { legible?.copy.remove() }
        let broken = BrokenFile(legible?.copy.path ?? file)
        var saved: [String: [Row]] = [:]
        for table in tables { saved[table] = broken.rows(of: table) }
        let old = Dictionary(
            (saved["sync_meta"] ?? []).compactMap { row in
                SavedRow.text(row, "key").flatMap { key in SavedRow.text(row, "value").map { (key, $0) } }
            },
            uniquingKeysWith: { $1 })
        if let clock = saved["sync_clock"]?.first {
            let (sequence, stamp) = (SavedRow.number(clock, "sequence"), SavedRow.number(clock, "stamp"))
            try db.execute(
                sql: "UPDATE sync_clock SET sequence = max(sequence, ?), stamp = max(stamp, ?)",
                arguments: [SavedRow.isPlace(sequence) ? sequence : 0, SavedRow.isStamp(stamp) ? stamp : 0])
        }
        for key in [Meta.Key.account, .dataset] {
            if let value = old[key.rawValue] { try Meta.set(db, key, value) }
        }
        try askForRoots(db, old[Meta.Key.scopes.rawValue])
        let changes = try (saved["sync_change"] ?? []).filter {
            try SavedRow.isSound(SavedRow.columns(of: $0), in: "sync_change", db)
        }
        var queue = SavedQueue(changes, device: old[Meta.Key.device.rawValue])
        try queue.makeRoom(db)
        for row in saved["sync_failure"] ?? [] { try insert(db, queue.moved(row), into: "sync_failure") }
        for table in ["sync_identity", "sync_draft"] {
            for row in saved[table] ?? [] { try insert(db, SavedRow.columns(of: row), into: table) }
        }
        // The triggers were made before there was such a row (seed 1015 with `--damage --drafts`).
        if try !Drafts.localRoots(db).isEmpty { try TriggerSetup.watchLocal(db, context.schema) }
        for table in ["sync_conflict", "sync_event"] {
            for row in saved[table] ?? [] { try insert(db, entry: SavedRow.columns(of: row), into: table) }
        }
        var count = 0
        for row in queue.rows where try insert(db, row, into: "sync_change") { count += 1 }
        try db.execute(
            sql: """
                UPDATE sync_clock SET queued = (SELECT count(*) FROM sync_change),
                sequence = max(sequence, (SELECT coalesce(max(max(sequence), max(position)), 0) FROM sync_change)),
                stamp = max(stamp, (SELECT coalesce(max(stamp), 0) FROM sync_change))
                """)
        count += try SavedRows(db, context, broken, now: now).collectMarked()
        try freeOfLost(db, now: now)
        try SavedRows(db, context, broken, now: now).show()
        try Journal.event(db, .movedAside, detail: path, at: now)
        try Journal.event(db, .salvaged, detail: "\(count) changes", at: now)
        return count
    }

    /// What is saved stands in one transaction with the event that tells of the file. Its name counts, since folders move.
    private static func isSaved(_ db: Database, _ path: String) throws -> Bool {
        let told = "SELECT 1 FROM sync_event WHERE kind = ? AND substr(detail, -length(?2)) = ?2 LIMIT 1"
        let name = "/" + URL(fileURLWithPath: path).lastPathComponent
        return try Row.fetchOne(db, sql: told, arguments: [Journal.Event.movedAside.rawValue, name]) != nil
    }

    /// The roots that were held are asked for again, each from 0 (DL-21): else all that the account may see would come.
    private static func askForRoots(_ db: Database, _ json: String?) throws {
        guard let json else { return }
        do {
            guard var scopes = try Scopes(json: json) else { return }
            scopes.restart()
            try scopes.write(db)
        } catch is JSONFailure {
            // kept: a text on a damaged page; the app chooses anew.
        }
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

    /// An entry of a journal keeps its number, unless the new file gave that one to another entry.
    private static func insert(_ db: Database, entry: [(String, DatabaseValue)], into table: String) throws {
        if try !insert(db, entry, into: table) { try insert(db, entry.filter { $0.0 != "number" }, into: table) }
    }

    /// - Returns: whether the row is in; one that the new table does not take is left in the old file.
    @discardableResult
    private static func insert(_ db: Database, _ row: [(String, DatabaseValue)], into table: String) throws -> Bool {
        guard try SavedRow.isSound(row, in: table, db) else { return false }
        let columns = row.map { "\"\($0.0)\"" }.joined(separator: ", ")
        let marks = row.map { _ in "?" }.joined(separator: ", ")
        do {
            try db.execute(
                sql: "INSERT OR IGNORE INTO \(table) (\(columns)) VALUES (\(marks))",
                arguments: StatementArguments(row.map(\.1)))
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
