import GRDB
import SyncCore

/// Marks picked changes as being sent, each with the `baseVersion` that it keeps for ever.
enum Marking {
    /// - Parameters:
    ///   - groups: the changes in the order of the queue, and whether their stored form is another by now.
    ///   - held: the versions held of their records, by the changes' places.
    /// - Returns: them as they go out.
    static func mark(
        _ db: Database, _ groups: [(changes: [StoredChange], isRewritten: Bool)], held: [Int64: Int64]
    ) throws -> [QueuedChange] {
        guard !groups.isEmpty else { return [] }
        var claimed: [QueuedChange] = []
        claimed.reserveCapacity(groups.count)
        let epoch = try QueueFigures.epochSequence(db)
        // One row by one statement: of several rows in one SQLite would keep a journal, to take back half of them.
        let mark = try RawStatement(db, "UPDATE sync_change SET state = 1, baseVersion = ? WHERE position = ?")
        for (changes, isRewritten) in groups {
            for var change in changes {
                switch change.state {
                case .uploading: break
                case .uncertain: try ChangeRows.setState(db, position: change.position, .uploading)
                case .pending, .blocked, .failed, .blockedAfterSending:
                    change.baseVersion = baseVersion(of: change, held: held, epoch)
                    try markFresh(db, change, isRewritten: isRewritten || change.isRaw, mark)
                }
                let wasSent = change.wasSent
                change.state = .uploading
                var queued = change.queued
                queued.wasSent = wasSent
                claimed.append(queued)
            }
        }
        return claimed
    }

    /// PROTOCOL.md, `baseVersion`: the version last accepted here; none for a create, for what the server never
    /// acknowledged, and for a change made in an earlier epoch.
    private static func baseVersion(of change: StoredChange, held: [Int64: Int64], _ epoch: Int64) -> Int64? {
        change.operation != .create && change.sequence > epoch ? held[change.position] : nil
    }

    private static func markFresh(
        _ db: Database, _ change: StoredChange, isRewritten: Bool, _ mark: RawStatement
    ) throws {
        // What is sent once must read the same whatever is declared later.
        if isRewritten, change.operation == .create { return try markAnew(db, change) }
        if isRewritten { try ChangeRows.rewrite(db, change) }
        mark.begin()
        mark.add(change.baseVersion)
        mark.add(change.position)
        try mark.run()
    }

    /// The mark and the stored form of a create in one statement: it has no `baseVersion`.
    private static func markAnew(_ db: Database, _ change: StoredChange) throws {
        let row = try RawStatement(
            db,
            "UPDATE sync_change SET operation = ?, stamp = ?, fields = ?, state = 1, baseVersion = NULL WHERE position = ?"
        )
        row.begin()
        row.add(change.operation.number)
        row.add(Int64(bitPattern: change.stamp.packed))
        row.add(try DeltaCodec.json(change.fields, operation: change.operation))
        row.add(change.position)
        try row.run()
    }

    /// Takes the marks of changes away that had never been sent before, and were not sent since.
    static func unmark(_ db: Database, _ keys: [String]) throws {
        let sql = """
            UPDATE sync_change SET state = 0, baseVersion = NULL
            WHERE state <> 0 AND state = 1 AND key IN (SELECT value FROM json_each(?))
            """
        try db.cachedStatement(sql: sql).execute(arguments: [Payloads.list(keys)])
    }
}
