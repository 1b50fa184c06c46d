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
    /// Another history came once: a version of 0 is held of what it has not told of yet.
    var isInOtherHistory: Bool

    var journalsLosses: Bool { isRunning && isOfNewEpoch }

    static func read(_ db: Database) throws -> PassState {
        let number = try Meta.integer(db, .pass) ?? 0
        let isRunning = try Meta.integer(db, .passRuns) == 1
        // Without a pass there was no other history.
        let epochPass = try number > 0 ? Meta.integer(db, .epochPass) : nil
        return PassState(
            number: number, isRunning: isRunning, isOfNewEpoch: isRunning && epochPass == number,
            isInOtherHistory: epochPass != nil)
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
