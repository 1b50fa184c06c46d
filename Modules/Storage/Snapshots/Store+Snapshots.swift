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

extension Store {
    /// Whether derived data knows of all that the app has written, as a database says it.
    package static func areSnapshotsCurrent(_ db: Database) throws -> Bool {
        try ChangeRows.sequence(db) <= Meta.integer(db, .snapshotSequence) ?? 0
    }
}

extension ApplyContext {
    /// What the app wrote since the last time, as the change log has it.
    func catchUp(_ db: Database, now: Int64) throws {
        guard !snapshots.isEmpty else { return }
        guard try SnapshotTouches.areNoted(db) else {
            // The app took the connection's temporary tables away, as `PRAGMA temp_store` does: nobody knows what changed since.
            try SnapshotTouches.install(db, snapshots)
            try SnapshotMarks.write(db, [:])
            return try makeSnapshots(db, now: now)
        }
        let last = try ChangeRows.sequence(db)
        let done = try Meta.integer(db, .snapshotSequence) ?? 0
        let here = try SnapshotTouches.take(db)
        guard last > done || !here.keys.isEmpty else { return }
        let run = SnapshotRun(db, snapshots, now: now)
        // A successor has a new sequence at an old place. Each end by its own index: what waits may be long.
        let sql = """
            SELECT entity, id, fields FROM sync_change WHERE position > ?1
            UNION ALL SELECT entity, id, fields FROM sync_change INDEXED BY sync_change_successor
            WHERE sequence <> position AND sequence > ?1
            """
        var (keys, left) = (here.keys, here.left)
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
        if last > done { try Meta.set(db, .snapshotSequence, last) }
    }

    /// Runs `body`, and rebuilds what it touched.
    func deriving<T>(_ db: Database, now: Int64, _ body: () throws -> T) throws -> T {
        guard !snapshots.isEmpty else { return try body() }
        try catchUp(db, now: now)
        let result = try body()
        let found = try SnapshotTouches.take(db)
        let run = SnapshotRun(db, snapshots, now: now)
        try run.touch(found.keys, left: found.left)
        try run.rebuild()
        return result
    }

    /// Runs `body`, which may touch nearly everything: all is made anew.
    func derivingAll<T>(_ db: Database, now: Int64, _ body: () throws -> T) throws -> T {
        let result = try body()
        guard !snapshots.isEmpty else { return result }
        try SnapshotTouches.forget(db)
        try SnapshotMarks.write(db, [:])
        try makeSnapshots(db, now: now)
        return result
    }

    /// The account's data goes out of the file, and what follows from it; a builder that throws keeps it from being done.
    func emptySnapshots(_ db: Database) throws {
        guard !snapshots.isEmpty else { return }
        try SnapshotTouches.forget(db)
        for planned in snapshots.planned { try planned.builder.setUp(db) }
    }

    /// What the connection notes from here on, tables, and everything that no builder of this version has made yet; when the store
    /// opens.
    func setUpSnapshots(_ db: Database, now: Int64) throws {
        try SnapshotTouches.install(db, snapshots)
        if snapshots.isEmpty {
            // What happens without builders is not followed: a program that has them makes everything anew.
            if try Meta.text(db, .snapshots) != nil { try Meta.set(db, .snapshots, nil as String?) }
            return
        }
        try makeSnapshots(db, now: now)
    }

    private func makeSnapshots(_ db: Database, now: Int64) throws {
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
