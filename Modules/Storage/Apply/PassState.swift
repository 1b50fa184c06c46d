import GRDB
import SyncCore

/// Where a full pass stands (PROTOCOL.md, *Another history*).
struct PassState {
    /// The number that records are marked with, in a pass and between passes.
    var number: Int64
    /// A pass has begun and not ended.
    var isRunning: Bool
    /// The pass began with another epoch: what was in step and is not brought as it was is journalled.
    var isOfNewEpoch: Bool

    var journalsLosses: Bool { isRunning && isOfNewEpoch }

    /// The present number, in SQL.
    static let present = "(SELECT value FROM sync_meta WHERE key = 'pass')"

    static func read(_ db: Database) throws -> PassState {
        let number = try Meta.integer(db, .pass) ?? 0
        let isRunning = try Meta.integer(db, .passRuns) == 1
        let epochPass = try isRunning ? Meta.integer(db, .epochPass) : nil
        return PassState(number: number, isRunning: isRunning, isOfNewEpoch: epochPass == number)
    }

    /// Whether this pass has not brought the record yet.
    func isNew(_ db: Database, _ key: RecordKey) throws -> Bool {
        guard isRunning else { return false }
        let marked = try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT pass FROM sync_record WHERE entity = ? AND id = ?"),
            arguments: [key.entity, key.id])
        return (marked ?? -1) < number
    }

    func mark(_ db: Database, _ key: RecordKey) throws {
        try db.cachedStatement(sql: "UPDATE sync_record SET pass = ? WHERE entity = ? AND id = ?")
            .execute(arguments: [number, key.entity, key.id])
    }
}
