import GRDB
import SyncCore

/// Takes rows out of the file that are not asked for any more, and never what waits to be sent (DL-21).
enum Eviction {
    /// What went, and whether something stayed for its unsent changes.
    struct Result {
        /// The records whose rows went.
        var removed: [RecordKey] = []
        /// Those under the root whose rows stayed for what is unsent, and what is moved out of it, unsent.
        var stayed: [RecordKey] = []
        var isComplete = true
    }

    /// The root and everything under it goes; a row with changes in the queue stays, with all that it stands under, also
    /// where they are set aside: tried again, they need it.
    ///
    /// Where a row is moved, and the server has not said yes, what is under it is of two roots: on the server of the one that
    /// it came from, or that somebody moved it to since. So all of that stays, and that place, too, until it is decided.
    static func evict(_ db: Database, _ root: RecordKey, _ changes: ChangeTable) throws -> Result {
        let schema = changes.schema
        var kept: Set<RecordKey> = []
        let family = try Removal.family(db, root, schema)
        for key in family.reversed() where try isQueued(db, key) || Drafts.kind(db, of: key) == .local {
            kept.insert(key)
            kept.formUnion(try ancestors(db, of: key, schema))
            if try !placesBefore(db, key, schema).isEmpty {
                kept.formUnion(try Removal.family(db, key, schema))
            }
        }
        var movedOut: [RecordKey] = []
        for (key, places) in try moves(db, schema) {
            let left = places.intersection(family)
            for place in left.sorted() {
                kept.insert(place)
                kept.formUnion(try ancestors(db, of: place, schema))
            }
            if !left.isEmpty { movedOut += try Removal.family(db, key, schema) }
        }
        for key in try moved(db, in: family, schema) where kept.contains(key) {
            kept.formUnion(try Removal.family(db, key, schema))
        }
        var result = try evict(db, root, besides: kept, changes)
        // What is deleted here has no row to keep; as long as it may come back, the root says when it is asked for again what left it.
        let hidden = try hidden(db, in: family, schema)
        result.stayed += movedOut + hidden
        if !hidden.isEmpty { result.isComplete = false }
        return result
    }

    /// What was deleted here, and is not decided, and stood under one of these.
    static func hidden(_ db: Database, in family: [RecordKey], _ schema: Schema) throws -> [RecordKey] {
        let deleted = "SELECT DISTINCT entity, id FROM sync_change WHERE operation = 2 ORDER BY entity, id"
        var below: [RecordKey: [RecordKey]] = [:]
        for row in try Row.fetchAll(db.cachedStatement(sql: deleted)) {
            let key = RecordKey(row[0], row[1])
            for place in try placesOfHidden(db, key, schema) { below[place, default: []].append(key) }  // any order
        }
        var seen = Set(family)
        var found: [RecordKey] = []
        var open = below.isEmpty ? [] : family
        while let place = open.popLast() {
            for key in below[place] ?? [] where seen.insert(key).inserted {
                found.append(key)
                open.append(key)
            }
        }
        return found
    }

    /// Where a record that is deleted here, unsent, may come back.
    private static func placesOfHidden(_ db: Database, _ key: RecordKey, _ schema: Schema) throws -> Set<RecordKey> {
        guard let entity = schema[key.entity], try !RowWriter(entity).exists(db, key.id) else { return [] }
        let changes = try Base.remaining(db, of: key, schema)
        let base = Base.state(stored: try StoredRecord.read(db, key), changes: changes, row: nil, entity: entity)
        guard !changes.isEmpty, base.isLive || changes.contains(where: { $0.operation == .create }) else { return [] }
        let written = changes.flatMap { change in
            entity.parents(in: change.fields.compactMapValues(\.old))
                + entity.parents(in: change.fields.mapValues(\.new))
        }
        return Set(written + entity.parents(in: base.fields))
    }

    /// What of a family the server has put elsewhere, and its word of that is held, for whatever reason.
    private static func moved(_ db: Database, in family: [RecordKey], _ schema: Schema) throws -> [RecordKey] {
        guard try !HeldRecords.isEmpty(db) else { return [] }
        let members = Set(family)
        return try family.dropFirst().filter { key in
            guard let held = try HeldRecords.find(db, key), held.presence == .live, let entity = schema[key.entity]
            else { return false }
            return entity.parents(in: held.fields).contains { !members.contains($0) }
        }
    }

    /// What the server has moved to where its word is held, for a parent that is only deleted here, unsent, or since it does not fit
    /// its table, is not of this root any more: its row goes, and its word waits on, with what is under it (seed 10665).
    private static func evict(
        _ db: Database, _ root: RecordKey, besides kept: Set<RecordKey>, _ changes: ChangeTable
    ) throws -> Result {
        let family = try Removal.family(db, root, changes.schema)
        let moved = try moved(db, in: family, changes.schema).filter { !kept.contains($0) }
        let below = try moved.flatMap { try Family(schema: changes.schema).known(db, under: $0) }
        // Also what is not among those, since a newer word of it is held already.
        let staying = try Set(moved.flatMap { try Removal.family(db, $0, changes.schema) })
        var result = Result(stayed: family.dropFirst().filter(kept.contains), isComplete: kept.isEmpty)
        for key in family.reversed() where !kept.contains(key) {
            guard let entity = changes.schema[key.entity] else { continue }
            if try RowWriter(entity).delete(db, key.id) { result.removed.append(key) }
            try StoredRecord.delete(db, key)
            if !staying.contains(key) { try HeldRecords.forget(db, key) }
        }
        try forgetBroken(db, under: Set(family).subtracting(kept).subtracting(staying), changes.schema)
        for record in below { try changes.hold(db, record, .missingParent) }
        return result
    }

    /// What never had a row, since it does not fit its table, goes with what it is under.
    private static func forgetBroken(_ db: Database, under left: Set<RecordKey>, _ schema: Schema) throws {
        guard try !HeldRecords.isEmpty(db) else { return }
        for record in try HeldRecords.held(db, for: [.type, .constraint], limit: .max) {
            guard let entity = schema[record.key.entity], !left.isDisjoint(with: entity.parents(in: record.fields)),
                try !RowWriter(entity).exists(db, record.key.id), try !isQueued(db, record.key)
            else { continue }
            try HeldRecords.forget(db, record.key)
        }
    }

    /// What waits for a record of which nothing is known here goes, and so on with what waits for that; a row of an earlier
    /// version goes with it, with what is under it, but for what waits to be sent (Decision 191).
    ///
    /// For a device that asks for chosen roots, and has all of them as they are at one moment: what is under a root comes with
    /// all that it stands under, so this came for a root that is dropped by now, or by a verdict from under another one.
    /// - Returns: the records whose rows went.
    static func evictStrays(_ db: Database, _ changes: ChangeTable) throws -> [RecordKey] {
        var removed: [RecordKey] = []
        // Each once: what stays for what is unsent still waits, and so does what this program does not know.
        var seen: Set<RecordKey> = []
        while true {
            let strays = try HeldRecords.strays(db, changes.schema).filter { seen.insert($0).inserted }
            guard !strays.isEmpty else { return removed }
            for stray in strays { removed += try evict(db, stray, changes).removed }
        }
    }

    /// All roots of which something is here: records that name no parent, and have rows, or are deleted here, unsent (seed 8799), or
    /// wait to fit their tables.
    static func roots(_ db: Database, _ schema: Schema) throws -> Set<RecordKey> {
        var roots: Set<RecordKey> = []
        for entity in schema.entities where entity.parents.isEmpty {
            let column = RowWriter.quoted(entity.keyColumn)
            let sql = "SELECT \(column) FROM \(RowWriter.quoted(entity.table))"
            roots.formUnion(try String.fetchAll(db, sql: sql).map { RecordKey(entity.name, $0) })
        }
        let hidden = """
            SELECT entity, id FROM sync_change WHERE operation = 2
            UNION SELECT entity, id FROM sync_held WHERE reason IN ('type', 'constraint')
            """
        let others = try Row.fetchAll(db.cachedStatement(sql: hidden)).map { RecordKey($0[0], $0[1]) }
        roots.formUnion(others.filter { schema[$0.entity]?.parents.isEmpty == true })
        return roots
    }

    private static func isQueued(_ db: Database, _ key: RecordKey) throws -> Bool {
        let sql = "SELECT 1 FROM sync_change WHERE entity = ? AND id = ? LIMIT 1"
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [key.entity, key.id]) != nil
    }

    /// The records with moves that are not decided, each with the parents that it had before, and those that the server says it has.
    private static func moves(_ db: Database, _ schema: Schema) throws -> [(RecordKey, Set<RecordKey>)] {
        // A create may have been done, and its record moved since, before its verdict came; or it makes elsewhere what is deleted
        // before it.
        let moves = """
            SELECT DISTINCT entity, id FROM sync_change c WHERE operation = 1 OR operation = 0 AND (EXISTS (
              SELECT 1 FROM sync_record r WHERE r.entity = c.entity AND r.id = c.id AND r.base IS NOT NULL)
              OR EXISTS (
              SELECT 1 FROM sync_change d WHERE d.entity = c.entity AND d.id = c.id AND d.operation = 2))
            """
        return try Row.fetchAll(db.cachedStatement(sql: moves)).map { row in
            let key = RecordKey(row[0], row[1])
            return (key, try placesBefore(db, key, schema))
        }
    }

    static func placesBefore(_ db: Database, _ key: RecordKey, _ schema: Schema) throws -> Set<RecordKey> {
        guard let entity = schema[key.entity], !entity.parents.isEmpty else { return [] }
        let remaining = try Base.remaining(db, of: key, schema)
        let changes = remaining.filter { $0.operation == .update }
        var places: Set<RecordKey> = []
        if let row = try RowWriter(entity).read(db, key.id) {
            if let base = try StoredRecord.read(db, key)?.base, base.isLive {
                places = Set(entity.parents(in: base.fields))
            }
            // What is made anew after it is, until the delete is decided, where it was, too (seed 42255).
            for change in remaining where change.operation == .delete {
                places.formUnion(entity.parents(in: change.fields.compactMapValues(\.old)))
            }
            places.subtract(entity.parents(in: row))
        }
        for field in entity.parents {
            guard let target = field.reference?.entity else { continue }
            for change in changes {
                guard case .string(let id)? = change.fields[field.name]?.old else { continue }
                places.insert(RecordKey(target, id))
            }
        }
        return places
    }

    static func ancestors(_ db: Database, of key: RecordKey, _ schema: Schema) throws -> Set<RecordKey> {
        var found: Set<RecordKey> = []
        var rest = [key]
        while let next = rest.popLast() {
            guard let entity = schema[next.entity], let fields = try RowWriter(entity).read(db, next.id) else {
                continue
            }
            for parent in entity.parents(in: fields) where found.insert(parent).inserted { rest.append(parent) }
        }
        return found
    }
}
