public import GRDB
import SyncCore

extension Store {
    /// Rebuilds derived data for what the app wrote since the last time, inside the app's own transaction.
    ///
    /// The engine does the same before each of its own steps; an app that wants its derived rows to be right at once calls
    /// it at the end of its write.
    public nonisolated func refreshSnapshots(_ db: Database) throws {
        try context.catchUp(db, now: configuration.clock.nowMilliseconds)
    }
}

extension ApplyContext {
    /// What the app wrote since the last time, as the change log has it.
    func catchUp(_ db: Database, now: Int64) throws {
        guard !snapshots.isEmpty else { return }
        let last = try ChangeRows.sequence(db)
        let done = try Meta.integer(db, .snapshotSequence) ?? 0
        guard last > done else { return }
        let run = SnapshotRun(db, snapshots, now: now)
        // A successor has a new sequence at an old place. Each end by its own index: what waits may be long.
        let sql = """
            SELECT entity, id, fields FROM sync_change WHERE position > ?1
            UNION ALL SELECT entity, id, fields FROM sync_change INDEXED BY sync_change_successor
            WHERE sequence <> position AND sequence > ?1
            """
        var keys: [RecordKey] = []
        var left: [SnapshotRun.Left: Set<String>] = [:]
        for row in try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [done]) {
            let key = RecordKey(row[0], row[1])
            guard snapshots.sources.contains(key.entity), let entity = schema[key.entity] else { continue }
            for (name, delta) in try DeltaCodec.deltas(row[2], of: entity) {  // any order
                guard entity.field(name)?.reference != nil, case .string(let old)? = delta.old else { continue }
                left[.init(entity: key.entity, field: name), default: []].insert(old)
            }
            keys.append(key)
        }
        try run.touch(keys, left: left)
        try run.rebuild()
        try Meta.set(db, .snapshotSequence, last)
    }

    /// Runs `body`, and rebuilds what it touched: it says which records at its end, and `ahead` which it may touch.
    func deriving<T>(
        _ db: Database, now: Int64, ahead: [RecordKey] = [], _ body: () throws -> (T, [RecordKey])
    ) throws -> T {
        guard !snapshots.isEmpty else { return try body().0 }
        try catchUp(db, now: now)
        let run = SnapshotRun(db, snapshots, now: now)
        try run.touch(ahead)
        let (result, touched) = try body()
        try run.touch(ahead + touched)
        try run.rebuild()
        return result
    }

    /// Runs `body`, which says nothing of what it touches: everything is made anew.
    func derivingAll<T>(_ db: Database, now: Int64, _ body: () throws -> T) throws -> T {
        let result = try body()
        guard !snapshots.isEmpty else { return result }
        try SnapshotMarks.write(db, [:])
        try setUpSnapshots(db, now: now)
        return result
    }

    /// The records of these changes, which were sent or are set aside; empty where nothing is derived.
    ///
    /// Keys have no index: what was sent is found by its state, and what is set aside by its failure.
    func records(_ db: Database, of changes: [String]) throws -> [RecordKey] {
        guard !snapshots.isEmpty, !changes.isEmpty else { return [] }
        let sql = """
            SELECT entity, id FROM sync_change
            WHERE state <> 0 AND state IN (1, 2, 5) AND key IN (SELECT value FROM json_each(?1))
            UNION SELECT entity, id FROM sync_failure CROSS JOIN sync_change USING (key, position)
            WHERE sync_failure.key IN (SELECT value FROM json_each(?1))
            """
        let list = try FieldValue.array(changes.map(FieldValue.string)).jsonText()
        return try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [list]).map { RecordKey($0[0], $0[1]) }
    }

    /// The account's data goes out of the file, and what follows from it; a builder that throws keeps it from being done.
    func emptySnapshots(_ db: Database) throws {
        for planned in snapshots.planned { try planned.builder.setUp(db) }
    }

    /// Makes tables, and everything that no builder of this version has made yet; when the store opens.
    func setUpSnapshots(_ db: Database, now: Int64) throws {
        if snapshots.isEmpty {
            // What happens without builders is not followed: a program that has them makes everything anew.
            if try Meta.text(db, .snapshots) != nil { try Meta.set(db, .snapshots, nil as String?) }
            return
        }
        var marks = try SnapshotMarks.read(db)
        let before = marks
        var whole: Set<String> = []
        for planned in snapshots.planned
        where planned.depends(on: whole) || marks[planned.builder.name] != Int64(planned.builder.version) {
            let isDone = try SnapshotRun.whole(db, planned.builder, snapshots, now: now)
            marks[planned.builder.name] = isDone ? Int64(planned.builder.version) : nil
            if isDone { whole.insert(planned.builder.name) }
        }
        // One that was taken out of the app, and comes back some day, is made anew.
        let names = Set(snapshots.planned.map(\.builder.name))
        marks = marks.filter { names.contains($0.key) }
        if marks != before { try SnapshotMarks.write(db, marks) }
        try catchUp(db, now: now)
    }
}
