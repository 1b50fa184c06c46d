import GRDB
import SyncCore

/// Takes rows out of the file that are not asked for any more, and never what waits to be sent (DL-21).
enum Eviction {
    /// What went, and whether something stayed for its unsent changes.
    struct Result {
        var removed = 0
        var isComplete = true
    }

    /// The root and everything under it goes; a row with unsent changes stays, with all that it stands under.
    static func evict(_ db: Database, _ root: RecordKey, _ schema: Schema) throws -> Result {
        var kept: Set<RecordKey> = []
        for key in try Removal.family(db, root, schema).reversed() where try Base.hasRemaining(db, key) {
            kept.insert(key)
            kept.formUnion(try ancestors(db, of: key, schema))
        }
        return try evict(db, root, besides: kept, schema)
    }

    private static func evict(
        _ db: Database, _ root: RecordKey, besides kept: Set<RecordKey>, _ schema: Schema
    ) throws -> Result {
        var result = Result(isComplete: kept.isEmpty)
        for key in try Removal.family(db, root, schema).reversed() where !kept.contains(key) {
            guard let entity = schema[key.entity] else { continue }
            if try RowWriter(entity).delete(db, key.id) { result.removed += 1 }
            try StoredRecord.delete(db, key)
            try HeldRecords.forget(db, key)
        }
        return result
    }

    /// All roots that have rows here: records that name no parent.
    static func roots(_ db: Database, _ schema: Schema) throws -> [RecordKey] {
        var roots: [RecordKey] = []
        for entity in schema.entities where entity.parents.isEmpty {
            let column = RowWriter.quoted(entity.keyColumn)
            let sql = "SELECT \(column) FROM \(RowWriter.quoted(entity.table)) ORDER BY \(column)"
            roots += try String.fetchAll(db, sql: sql).map { RecordKey(entity.name, $0) }
        }
        return roots
    }

    private static func ancestors(_ db: Database, of key: RecordKey, _ schema: Schema) throws -> Set<RecordKey> {
        var found: Set<RecordKey> = []
        var rest = [key]
        while let next = rest.popLast() {
            guard let entity = schema[next.entity], let fields = try RowWriter(entity).read(db, next.id) else {
                continue
            }
            for field in entity.parents {
                guard let target = field.reference?.entity, case .string(let id)? = fields[field.name] else { continue }
                let parent = RecordKey(target, id)
                if found.insert(parent).inserted { rest.append(parent) }
            }
        }
        return found
    }
}
