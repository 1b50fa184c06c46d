import GRDB
import SyncCore

/// Marks picked changes as being sent, each with the `baseVersion` that it keeps for ever: one statement for all.
enum Marking {
    /// - Parameter groups: the changes in the order of the queue, and whether their stored form is another by now.
    /// - Returns: them as they go out.
    static func mark(
        _ db: Database, _ groups: [(changes: [StoredChange], isRewritten: Bool)]
    ) throws -> [QueuedChange] {
        var fresh: [Int64] = []
        for (changes, isRewritten) in groups {
            for change in changes {
                switch change.state {
                case .uploading: break
                case .uncertain: try ChangeRows.setState(db, position: change.position, .uploading)
                case .pending, .blocked, .failed, .blockedAfterSending:
                    // What is sent once must read the same whatever is declared later.
                    if change.operation == .create, isRewritten || change.isRaw {
                        try markAnew(db, change)
                        continue
                    }
                    if isRewritten || change.isRaw { try ChangeRows.rewrite(db, change) }
                    fresh.append(change.position)
                }
            }
        }
        let versions = try markFresh(db, fresh)
        var claimed: [QueuedChange] = []
        claimed.reserveCapacity(groups.count)
        for (changes, _) in groups {
            for var change in changes {
                if let version = versions[change.position] { change.baseVersion = version }
                let wasSent = change.wasSent
                change.state = .uploading
                var queued = change.queued
                queued.wasSent = wasSent
                claimed.append(queued)
            }
        }
        return claimed
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

    /// PROTOCOL.md, `baseVersion`: the version last accepted here; none for a create, for what the server never
    /// acknowledged, and for a change made in an earlier epoch.
    /// - Returns: the base versions that there are, by place.
    private static func markFresh(_ db: Database, _ positions: [Int64]) throws -> [Int64: Int64] {
        guard !positions.isEmpty else { return [:] }
        let sql = """
            UPDATE sync_change SET state = 1, baseVersion = CASE WHEN operation <> 0 AND sequence > ?2 THEN (
              SELECT version FROM sync_record r
              WHERE r.entity = sync_change.entity AND r.id = sync_change.id AND r.version > 0) END
            WHERE position IN (SELECT value FROM json_each(?1)) RETURNING position, baseVersion
            """
        let list = "[\(positions.map(String.init).joined(separator: ","))]"
        let epoch = try QueueFigures.epochSequence(db)
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: [list, epoch])
        var versions: [Int64: Int64] = [:]
        while let row = try rows.next() {
            if let version = row[1] as Int64? { versions[row[0]] = version }
        }
        return versions
    }
}
