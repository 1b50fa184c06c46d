import Foundation
import GRDB
import SyncCore

/// Opening a file to read only: nothing is written, so that nobody who writes is waited for.
extension Opening {
    /// - Returns: `nil` where something is to be written first, or the file cannot be read as it is: the usual opening does it, or
    ///   says why.
    static func forReading(
        path: String, _ schema: Schema, account: String?, _ configuration: StoreConfiguration
    ) throws(StoreFailure) -> Opened? {
        guard path != ":memory:", FileManager.default.fileExists(atPath: path),
            AsideNote(database: path).targets.isEmpty, LogMark(database: path).look() == .asLeft,
            configuration.migrations == nil, !DirtyFlags.isUsed(schema)
        else { return nil }
        let patience = Patience(seconds: configuration.busyTimeout)
        patience.bind(spent: .zero)
        defer { patience.unbind() }
        do {
            var settings = Configuration()
            settings.label = "Storage"
            settings.readonly = true
            settings.busyMode = patience.mode
            let end = FileEnd(path)
            let database = try DatabaseQueue(path: path, configuration: settings)
            let reading = Reading(database, nil, configuration)
            try end.check(reading)
            try check(reading, path)
            try checkVersion(reading, configuration)
            let snapshots = try SnapshotPlan(configuration.snapshots, schema)
            let now = configuration.clock.nowMilliseconds
            let context = try reading { db -> ApplyContext? in
                guard try isReady(db, schema, account: account, snapshots, now: now) else { return nil }
                return try ApplyContext(db, schema, deltas: configuration.deltas, snapshots: snapshots)
            }
            guard let context else {
                try database.close()
                return nil
            }
            return Opened(database: database, context: context)
        } catch {
            let failure = StoreFailure(error, while: "opening \(path)")
            if failure.kind == .busy { throw failure }
            return nil
        }
    }

    /// Whether an opening has nothing to do but to count itself.
    private static func isReady(
        _ db: Database, _ schema: Schema, account: String?, _ snapshots: SnapshotPlan, now: Int64
    ) throws -> Bool {
        guard try EngineTables.found(db) == EngineTables.format,
            try Meta.text(db, .schema) == SchemaUpgrade.fingerprint(schema),
            try Meta.integer(db, .wiping) == nil, try Meta.integer(db, .migrating) ?? 0 == 0
        else { return false }
        if let account, try Meta.text(db, .account) != account { return false }
        // What was on its way when its sender died is without a verdict: somebody must say so.
        let sending = "SELECT 1 FROM sync_change WHERE state <> 0 AND state = 1 LIMIT 1"
        if try Row.fetchOne(db, sql: sending) != nil, try !Lease.isTaken(db, now: now) { return false }
        guard !snapshots.isEmpty else { return true }
        let marks = try SnapshotMarks.read(db)
        return try snapshots.planned.allSatisfy { marks[$0.builder.name] == Int64($0.builder.version) }
            && ChangeRows.sequence(db) <= (Meta.integer(db, .snapshotSequence) ?? 0)
    }
}
