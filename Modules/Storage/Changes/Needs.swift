import GRDB
import SyncCore

/// What a change needs that was not accepted: the create of its record, or of one that it refers to; or what stands before it
/// in the queue, of the same record, and waits for such a one (Decision 265).
///
/// Each such change waits for the *root*, the create that was set aside, however many are between.
struct Needs {
    let schema: Schema

    init(schema: Schema) { self.schema = schema }

    /// The create for which this change must wait, if any.
    func blocker(_ db: Database, of change: StoredChange) throws -> Aside? {
        if change.operation != .create, let own = try asideCreate(db, of: change.record), own.position < change.position
        {
            return own
        }
        for record in references(of: change) where record != change.record {
            if let other = try asideCreate(db, of: record, for: change) { return other }
            if try Drafts.kind(db, of: record) == .local, try !Drafts.gone(db, schema).contains(record) {
                let root = Drafts.root(of: record, .local)
                return Aside(record: record, position: 0, key: root, root: root, isFailed: false)
            }
        }
        return try waiting(db, before: change)
    }

    /// The first change of the same record that waits, before this one.
    private func waiting(_ db: Database, before change: StoredChange) throws -> Aside? {
        let sql = """
            SELECT position, key, blockedBy FROM sync_change
            WHERE entity = ? AND id = ? AND position < ? AND state IN (3, 5) ORDER BY position LIMIT 1
            """
        let arguments: StatementArguments = [change.record.entity, change.record.id, change.position]
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: arguments) else { return nil }
        return Aside(
            record: change.record, position: row[0], key: row[1], root: row[2] ?? row[1], isFailed: false)
    }

    /// A create that is set aside, or itself waits for one.
    struct Aside: Hashable {
        var record: RecordKey
        var position: Int64
        var key: String
        /// The key that waiting changes name.
        var root: String
        var isFailed: Bool
    }

    /// The first create of a record that is set aside, or itself waits.
    /// - Parameter change: what refers to the record: a create behind a delete that came after it makes another life of that.
    func asideCreate(_ db: Database, of record: RecordKey, for change: StoredChange? = nil) throws -> Aside? {
        let sql = """
            SELECT position, key, state, blockedBy FROM sync_change c
            WHERE entity = ? AND id = ? AND operation = 0 AND state >= 3 AND ? > \(Self.deletedBefore)
            ORDER BY position LIMIT 1
            """
        let statement = try db.cachedStatement(sql: sql)
        let arguments: StatementArguments = [record.entity, record.id, change?.sequence ?? .max]
        guard let row = try Row.fetchOne(statement, arguments: arguments) else { return nil }
        return Aside(
            record: record, position: row[0], key: row[1], root: row[3] ?? row[1],
            isFailed: row[2] == StoredChange.State.failed.rawValue)
    }

    /// The place of the last delete of its record in front of a create `c`, which begins anew behind that (Decision 420); 0 for none.
    private static let deletedBefore = """
        coalesce((SELECT max(d.position) FROM sync_change d
          WHERE d.entity = c.entity AND d.id = c.id AND d.operation = 2 AND d.position < c.position), 0)
        """

    /// The key of the last create behind a change that makes what the change names: by the order of the queue that would come too late
    /// (QUE-07).
    ///
    /// Only a successor can stand so: it keeps the place of what it follows, and says what was written since.
    func createBehind(_ db: Database, of change: StoredChange) throws -> String? {
        guard change.sequence > change.position else { return nil }
        // What lives at the change's place is there for it, whatever is made anew behind its delete (seed 35311).
        let sql = """
            SELECT position, key FROM sync_change c
            WHERE entity = ? AND id = ? AND operation = 0 AND position > ? AND position < ?
            AND \(Self.deletedBefore) <= ? ORDER BY position LIMIT 1
            """
        var last: (position: Int64, key: String)?
        for record in references(of: change) where record != change.record {
            let arguments: StatementArguments = [
                record.entity, record.id, change.position, change.sequence, change.position,
            ]
            guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: arguments) else { continue }
            if last.map({ $0.position < row[0] }) ?? true { last = (row[0], row[1]) }
        }
        return last?.key
    }

    /// The records that a change's new values refer to.
    func references(of change: StoredChange) -> [RecordKey] {
        guard change.operation != .delete, let entity = schema[change.record.entity] else { return [] }
        return entity.fields.compactMap { field in
            guard let target = field.reference?.entity, case .string(let id)? = change.fields[field.name]?.new else {
                return nil
            }
            return RecordKey(target, id)
        }
    }

    /// After creates were set aside: everything behind `position` that needs one waits for it, visibly.
    ///
    /// One pass in the queue's order, so that what needs a blocked create is found in the same pass.
    func mark(_ db: Database, after position: Int64) throws {
        let asides = try asides(db)
        try block(db, following(db, position, among: asides.roots, from: asides.begins, and: asides.waiting))
        try noteChecked(db)
    }

    /// What was written since the last look, and needs a create that was set aside, waits for it, too.
    func markNew(_ db: Database) throws {
        try block(db, newlyBlocked(db))
        try noteChecked(db)
    }

    /// What ``markNew(_:)`` would mark. An edit of a refused record itself is not: it ends the refusal when it is claimed.
    func newlyBlocked(_ db: Database) throws -> [Following] {
        let checked = try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT value FROM sync_meta WHERE key = 'needsChecked'"))
        let latest = "SELECT 1 FROM sync_change WHERE position > ? LIMIT 1"
        guard try Row.fetchOne(db.cachedStatement(sql: latest), arguments: [checked ?? 0]) != nil else { return [] }
        let asides = try asides(db)
        return try following(
            db, checked ?? 0, among: asides.roots, from: asides.begins, and: asides.waiting, held: Drafts.newlyHeld(db)
        )
        .filter { !asides.refused.contains($0.record) }
    }

    /// What others may have to wait for.
    private struct Asides {
        /// The records whose create is set aside or waits, each with its root.
        var roots: [RecordKey: String]
        /// Behind which place the life of such a record begins that its create makes.
        var begins: [RecordKey: Int64] = [:]
        /// Those whose own create was set aside.
        var refused: Set<RecordKey> = []
        /// The first change of a record that waits and is no create.
        var waiting: [RecordKey: Waiting] = [:]
    }

    /// A change that waits: where it stands, and for what.
    struct Waiting: Hashable {
        var position: Int64
        var root: String
    }

    private func asides(_ db: Database) throws -> Asides {
        var asides = Asides(roots: try Drafts.localRoots(db))
        let gone = try asides.roots.isEmpty ? [] : Drafts.gone(db, schema)
        // What waits for one of these goes with the next claim.
        let freed = Set(gone.compactMap { asides.roots.removeValue(forKey: $0) })
        let sql = """
            SELECT entity, id, coalesce(blockedBy, key), state, operation, position,
              CASE operation WHEN 0 THEN \(Self.deletedBefore) END FROM sync_change c
            WHERE state <> 0 AND state IN (3, 4, 5) AND (state <> 4 OR operation = 0)
            """
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql))
        while let row = try rows.next() {
            let record = RecordKey(row[0], row[1])
            if freed.contains(row[2]) { continue }
            if Operation(number: row[4]) == .create {
                asides.roots[record] = row[2]
                asides.begins[record] = min(asides.begins[record] ?? .max, row[6])
                if row[3] == StoredChange.State.failed.rawValue { asides.refused.insert(record) }
            } else if asides.waiting[record].map({ $0.position > row[5] }) ?? true {
                asides.waiting[record] = Waiting(position: row[5], root: row[2])
            }
        }
        return asides
    }

    private func block(_ db: Database, _ changes: [Following]) throws {
        for item in changes {
            try ChangeRows.setState(
                db, position: item.position, item.wasSent ? .blockedAfterSending : .blocked, blockedBy: item.root)
        }
    }

    private func noteChecked(_ db: Database) throws {
        let sql = """
            INSERT INTO sync_meta (key, value) SELECT 'needsChecked', sequence FROM sync_clock WHERE one = 1
            ON CONFLICT (key) DO UPDATE SET value = excluded.value
            """
        try db.cachedStatement(sql: sql).execute()
    }

    /// A change that needs one of several records.
    struct Following: Hashable {
        var position: Int64
        var key: String
        var record: RecordKey
        var wasSent: Bool
        var root: String
    }

    /// The changes behind `position`, blocked ones left out, that need one of the records, each with the root of that one.
    /// - Parameters:
    ///   - begins: behind which places the records' lives begin: what was written before that does not need them.
    ///   - waiting: what waits by itself; what stands behind one of these, or behind one that is found, waits with it.
    ///     `nil` where only what needs a record is asked for.
    ///   - held: what waits without any of these, by its place.
    func following(
        _ db: Database, _ position: Int64, among roots: [RecordKey: String], from begins: [RecordKey: Int64] = [:],
        and waiting: [RecordKey: Waiting]? = nil, held: [Int64: String] = [:], withBlocked: Bool = false
    ) throws -> [Following] {
        var (roots, begins, waiting) = (roots, begins, waiting)
        // What cannot refer to any of them needs no look at its fields.
        var referring = self.referring(to: Set(roots.keys.map(\.entity)))
        let sql = """
            SELECT position, key, entity, id, operation, state, sequence FROM sync_change
            WHERE position > ? AND state IN (\(withBlocked ? "0, 1, 2, 3, 5" : "0, 2")) ORDER BY position
            """
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: [position])
        var found: [Following] = []
        while let row = try rows.next() {
            let record = RecordKey(row[2], row[3])
            let operation = Operation(number: row[4])
            let sequence: Int64 = row[6]
            func needed(_ record: RecordKey) -> String? { sequence > begins[record] ?? 0 ? roots[record] : nil }
            var root = held[row[0]] ?? (operation == .create ? nil : needed(record))
            if root == nil, operation != .delete, referring.contains(record.entity) {
                root = try referred(db, row[0], by: record, needed)
            }
            if root == nil, let before = waiting?[record], before.position < row[0] { root = before.root }
            // Of two that name each other, the one for which the other waits goes first.
            guard let root, root != row[1] else {
                // Made anew: what comes behind it needs this create, not the one before.
                if operation == .create { roots[record] = nil }
                continue
            }
            let state = StoredChange.State(rawValue: row[5])
            found.append(
                Following(
                    position: row[0], key: row[1], record: record,
                    wasSent: state == .uncertain || state == .uploading || state == .blockedAfterSending, root: root))
            if operation == .create {
                (roots[record], begins[record]) = (root, nil)
                referring.formUnion(self.referring(to: [record.entity]))
            } else if waiting?[record] == nil {
                waiting?[record] = Waiting(position: row[0], root: root)
            }
        }
        return found
    }

    private func referring(to entities: Set<String>) -> Set<String> {
        Set(
            schema.entities.filter { entity in
                entity.fields.contains { $0.reference.map { entities.contains($0.entity) } ?? false }
            }.map(\.name))
    }

    /// The root of the first record that the change at a place refers to and needs; only its references are read.
    private func referred(
        _ db: Database, _ position: Int64, by record: RecordKey, _ needed: (RecordKey) -> String?
    ) throws -> String? {
        let fields = schema[record.entity]?.fields.filter { $0.reference != nil } ?? []
        // A field's name is letters, digits and _, so it stands in a path as it is.
        let columns = fields.map { "fields ->> '$.\($0.name).new'" }.joined(separator: ", ")
        let sql = "SELECT \(columns) FROM sync_change WHERE position = ? AND json_valid(fields)"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [position]) else { return nil }
        for (index, field) in fields.enumerated() {
            guard let target = field.reference?.entity, let id = String.fromDatabaseValue(row[index]) else { continue }
            let other = RecordKey(target, id)
            if other != record, let root = needed(other) { return root }
        }
        return nil
    }
}
