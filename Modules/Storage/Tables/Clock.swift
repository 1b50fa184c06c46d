import GRDB
import SyncCore

/// The one row of `sync_clock`: what the triggers read and move.
enum Clock {
    /// The most changes, and the most bytes of them, that a unit may have (DESIGN.md, *The states of a change*).
    static let unitChanges = 100
    static let unitBytes = 1 << 20

    /// Sets what the triggers write beside each change, until the same transaction takes it back.
    static func mark(_ db: Database, unit: String?, intent: String?) throws {
        try db.cachedStatement(
            sql: """
                UPDATE sync_clock SET "unit" = ?1, intent = ?2
                WHERE one = 1 AND ("unit" IS NOT ?1 OR intent IS NOT ?2)
                """
        ).execute(arguments: [unit, intent])
    }

    /// The time that triggers read, in milliseconds since 1970; `nil` is the system's.
    static func setWall(_ db: Database, _ milliseconds: Int64?) throws {
        try db.cachedStatement(sql: "UPDATE sync_clock SET wall = ?1 WHERE one = 1 AND wall IS NOT ?1")
            .execute(arguments: [milliseconds])
    }

    /// The key that belongs to the number that was given last by ``ChangeRows/nextSequence(_:)``, of the same source as the
    /// triggers'.
    static func key(_ db: Database) throws -> String {
        let sql = "SELECT \(CaptureSQL.key()) FROM sync_clock WHERE one = 1"
        return try String.fetchOne(db.cachedStatement(sql: sql)) ?? ""
    }

    /// A key that no change has; it uses up a sequence, so that a seeded one is new, too.
    static func freshKey(_ db: Database) throws -> String {
        _ = try ChangeRows.nextSequence(db)
        return try key(db)
    }

    /// - Throws: ``StoreFailure`` (`invalid`) for a unit that no request could carry.
    static func checkUnit(_ db: Database, _ unit: String) throws {
        // A unit's changes are the newest ones.
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT "unit", length(CAST(fields AS BLOB)) FROM sync_change ORDER BY position DESC LIMIT ?
                """, arguments: [unitChanges + 1])
        let own = rows.filter { $0[0] as String? == unit }
        let bytes = own.reduce(0) { $0 + ($1[1] as Int) }
        guard own.count <= unitChanges, bytes <= unitBytes else {
            throw StoreFailure(
                kind: .invalid,
                message:
                    "A unit may have \(unitChanges) changes and 1 MiB; this one has \(own.count) or more "
                    + "and \(bytes) bytes. Write it in several, or without `unit`.")
        }
    }

    /// Moves past a stamp that was seen.
    static func observe(_ db: Database, _ stamp: Stamp?) throws {
        // Above 2^63 is no time that any clock shows; the column is a signed integer.
        guard let stamp, let packed = Int64(exactly: stamp.packed) else { return }
        try db.cachedStatement(
            sql: "UPDATE sync_clock SET stamp = max(stamp, ?1), seen = max(seen, ?1) WHERE one = 1 AND seen < ?1"
        ).execute(arguments: [packed])
    }
}
