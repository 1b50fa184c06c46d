import GRDB
import SyncCore

/// Rebuilds what one transaction touched, at both ends of what was moved.
final class SnapshotRun {
    private let db: Database
    private let plan: SnapshotPlan
    private let now: Int64
    /// The subjects to rebuild, by builder.
    private var subjects: [String: Set<String>] = [:]

    init(_ db: Database, _ plan: SnapshotPlan, now: Int64) {
        self.db = db
        self.plan = plan
        self.now = now
    }

    /// These records have changed.
    private func touch(_ keys: [RecordKey]) throws {
        var ids: [String: Set<String>] = [:]
        for key in keys where plan.sources.contains(key.entity) { ids[key.entity, default: []].insert(key.id) }
        guard !ids.isEmpty else { return }
        try spread { name in ids[name] ?? [] }
    }

    /// What the records of an entity named by one of its fields before they changed.
    struct Left: Hashable {
        var entity: String
        var field: String
    }

    /// These records have changed, and this is what they named before. All at once: the way from each to what is derived of it
    /// goes on from everything that was found so far.
    func touch(_ keys: [RecordKey], left: [Left: Set<String>]) throws {
        var isLeft = false
        for planned in plan.planned {
            for steps in planned.links.flatMap({ link in link.steps.indices.map { link.steps[$0...] } }) {
                guard let step = steps.first, let old = left[Left(entity: step.entity.name, field: step.field.name)]
                else { continue }
                let found = try lead(old, steps.dropFirst())
                subjects[planned.builder.name, default: []].formUnion(found)
                isLeft = true
            }
        }
        if keys.isEmpty, isLeft { try spread { _ in [] } }
        try touch(keys)
    }

    /// From entities to builders, and from each builder on to those that depend on it, as rows stand now.
    private func spread(_ ids: (String) -> Set<String>) throws {
        for planned in plan.planned {
            for link in planned.links {
                let start: Set<String> =
                    switch link.source {
                    case .entity(let name): ids(name)
                    case .snapshot(let name): subjects[name] ?? []
                    }
                for (start, steps) in [(start, link.steps[...])] + link.through.map({ (ids($0.entity), $0.steps) })
                where !start.isEmpty {
                    subjects[planned.builder.name, default: []].formUnion(try lead(start, steps))
                }
            }
        }
    }

    private func lead(_ ids: Set<String>, _ steps: ArraySlice<SnapshotPlan.Step>) throws -> Set<String> {
        var ids = ids
        for step in steps {
            guard !ids.isEmpty else { return [] }
            let (table, key) = (RowWriter.quoted(step.entity.table), RowWriter.quoted(step.entity.keyColumn))
            let column = RowWriter.quoted(step.field.column)
            let sql = """
                SELECT DISTINCT \(column) FROM \(table) \
                WHERE \(key) IN (SELECT value FROM json_each(?)) AND \(column) IS NOT NULL
                """
            let list = try FieldValue.array(ids.sorted().map(FieldValue.string)).jsonText()
            ids = try Set(String.fetchAll(db.cachedStatement(sql: sql), arguments: [list]))
        }
        return ids
    }

    /// Rebuilds in dependency order, each builder in a savepoint of its own.
    func rebuild() throws {
        var built = subjects.isEmpty ? nil : try SnapshotMarks.read(db)
        let before = built
        var whole: Set<String> = []
        for planned in plan.planned {
            let name = planned.builder.name
            let touched = subjects[name] ?? []
            let isBelowWhole = planned.depends(on: whole)
            guard built != nil, !touched.isEmpty || isBelowWhole else { continue }
            // One that failed before is made anew in whole, and so is what it may have led astray.
            let isWhole = isBelowWhole || built?[name] != Int64(planned.builder.version)
            let isDone =
                isWhole
                ? try Self.whole(db, planned.builder, plan, now: now)
                : try Self.attempt(db, planned.builder, now: now) {
                    try planned.builder.rebuild(db, touched.sorted())
                }
            built?[name] = isDone ? Int64(planned.builder.version) : nil
            if isWhole, isDone { whole.insert(name) }
        }
        if let built, built != before { try SnapshotMarks.write(db, built) }
    }

    /// Runs what an app declared; what it throws undoes it alone and is reported.
    static func attempt(
        _ db: Database, _ builder: SnapshotBuilder, now: Int64, _ body: () throws -> Void
    ) throws -> Bool {
        var failure: (any Error)?
        try db.inSavepoint {
            do {
                try RowWriter.applying(db) { try body() }
                return .commit
            } catch {
                failure = error
                return .rollback
            }
        }
        guard let failure else { return true }
        // What breaks the whole transaction is not the builder's to survive.
        if let failure = failure as? DatabaseError,
            [.SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CORRUPT].contains(failure.resultCode)
        {
            throw failure
        }
        try Journal.event(db, .snapshotFailed, detail: "\(builder.name): \(failure)", at: now)
        return false
    }

    /// Makes the tables, empty, and everything in them.
    static func whole(_ db: Database, _ builder: SnapshotBuilder, _ plan: SnapshotPlan, now: Int64) throws -> Bool {
        let ids = try all(db, builder, plan)
        return try attempt(db, builder, now: now) {
            try builder.setUp(db)
            try builder.rebuild(db, ids)
        }
    }

    private static func all(_ db: Database, _ builder: SnapshotBuilder, _ plan: SnapshotPlan) throws -> [String] {
        guard let entity = plan.schema[builder.subject] else { return [] }
        let key = RowWriter.quoted(entity.keyColumn)
        return try String.fetchAll(db, sql: "SELECT \(key) FROM \(RowWriter.quoted(entity.table)) ORDER BY \(key)")
    }
}

/// Which version of each builder made what is in the file; one that is missing, or failed, is made anew.
enum SnapshotMarks {
    static func read(_ db: Database) throws -> [String: Int64] {
        guard let text = try Meta.text(db, .snapshots), case .object(let members) = try FieldValue(json: text) else {
            return [:]
        }
        return members.compactMapValues { if case .int(let version) = $0 { version } else { nil } }
    }

    static func write(_ db: Database, _ marks: [String: Int64]) throws {
        try Meta.set(db, .snapshots, FieldValue.object(marks.mapValues(FieldValue.int)).jsonText())
    }
}
