import GRDB
import Storage
import SyncCore

/// Which rows of the app's the engine changed in one process, and which it told of (``AppliedNotice``).
///
/// Triggers of the connection's own note the rows, so that nothing of it is in the file, and no call of the store is asked.
final class ToldRows: @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    private var told: Set<RecordKey> = []
    private var isOfMany = false

    init(_ store: Store) throws {
        try store.database.write { try Self.install($0, store.schema) }
        store.tapNotices { [weak self] in self?.hear($0) }
    }

    private static func install(_ db: Database, _ schema: Schema) throws {
        try db.execute(sql: "CREATE TEMP TABLE seen_row (entity TEXT, id TEXT)")
        for entity in schema.entities {
            let columns = [entity.keyColumn] + entity.fields.map(\.column)
            let differs = columns.map { "old.\"\($0)\" IS NOT new.\"\($0)\"" }.joined(separator: " OR ")
            for (event, row, condition) in [
                ("INSERT", "new", "true"), ("UPDATE", "new", differs), ("DELETE", "old", "true"),
            ] {
                try db.execute(
                    sql: """
                        CREATE TEMP TRIGGER "seen_row_\(entity.name)_\(event)" AFTER \(event) ON main."\(entity.table)"
                        WHEN (SELECT applying FROM sync_clock WHERE one = 1) = 1 AND (\(condition))
                        BEGIN INSERT INTO seen_row VALUES ('\(entity.name)', \(row)."\(entity.keyColumn)"); END
                        """)
            }
        }
    }

    private func hear(_ notice: AppliedNotice) {
        told.formUnion(notice.records)
        if notice.records.isEmpty { isOfMany = true }
    }

    /// The rows that changed since this was asked last, and of which nothing was told.
    /// - Parameter db: the writing connection.
    func untold(_ db: Database) throws -> [RecordKey] {
        let rows = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT DISTINCT entity, id FROM temp.seen_row ORDER BY entity, id"))
        if !rows.isEmpty { try db.cachedStatement(sql: "DELETE FROM temp.seen_row").execute() }
        defer { (told, isOfMany) = ([], false) }
        return isOfMany ? [] : rows.map { RecordKey($0[0], $0[1]) }.filter { !told.contains($0) }
    }
}

extension SimulatedDevice {
    /// The rows that the engine changed, and told nobody of, since this was asked last.
    func untoldRows() -> [RecordKey] {
        guard let process, let told = process.told else { return [] }
        let wasLookedAt = hook.isLookedAt
        hook.isLookedAt = true
        defer { hook.isLookedAt = wasLookedAt }
        do {
            return try process.store.database.writeWithoutTransaction { try told.untold($0) }
        } catch let error as DatabaseError where [.SQLITE_INTERRUPT, .SQLITE_ABORT].contains(error.resultCode) {
            // kept: the app is suspended; the next look finds the same.
            return []
        } catch {
            record.violate("simulator", "device \(index)'s notes cannot be read: \(error)")
            return []
        }
    }

    /// What is made for that is none of the disk's faults.
    func listening(to store: Store) throws -> ToldRows {
        hook.isClearing = true
        defer { hook.isClearing = false }
        return try ToldRows(store)
    }
}
