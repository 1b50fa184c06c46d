import GRDB
import SyncCore

/// How many changes of a record, and of all that is under it, the tables hold, in which state (I8, OBS-02).
///
/// It goes down from the record, over one picture of who stands under whom; the store goes up from each change.
struct CountsUnder {
    /// The changes, in the queue's order.
    private var changes: [(record: RecordKey, state: Int64)] = []
    private var above: [RecordKey: Set<RecordKey>] = [:]
    private var below: [RecordKey: Set<RecordKey>] = [:]

    init(_ db: Database, _ schema: Schema) throws {
        var deleted: Set<RecordKey> = []
        try PlainRows(db, "SELECT entity, id, state, operation FROM sync_change ORDER BY position").forEach { row in
            let record = RecordKey(row.text(0), row.text(1))
            changes.append((record, row.integer(2)))
            if row.integer(3) == 2 { deleted.insert(record) }
        }
        for entity in schema.entities {
            let parents = entity.parents.compactMap { field in
                field.reference.map { (field: field, entity: $0.entity) }
            }
            guard !parents.isEmpty else { continue }
            let columns = ([entity.keyColumn] + parents.map(\.field.column)).map { "\"\($0)\"" }.joined(separator: ", ")
            try PlainRows(db, "SELECT \(columns) FROM \"\(entity.table)\"").forEach { row in
                let record = RecordKey(entity.name, row.text(0))
                deleted.remove(record)
                for (place, parent) in parents.enumerated() where !row.isNull(CInt(place + 1)) {
                    add(record, under: RecordKey(parent.entity, row.text(CInt(place + 1))))
                }
            }
            guard deleted.contains(where: { $0.entity == entity.name }) else { continue }
            // Of what has no row, its last delete says where it stood.
            let olds = parents.map { "fields ->> '$.\($0.field.name).old'" }.joined(separator: ", ")
            let sql = """
                SELECT id, \(olds) FROM sync_change AS own WHERE entity = '\(entity.name)' AND operation = 2
                AND NOT EXISTS (SELECT 1 FROM sync_change AS later WHERE later.entity = own.entity
                  AND later.id = own.id AND later.operation = 2 AND later.position > own.position)
                """
            try PlainRows(db, sql).forEach { row in
                let record = RecordKey(entity.name, row.text(0))
                guard deleted.contains(record) else { return }
                for (place, parent) in parents.enumerated() where !row.isNull(CInt(place + 1)) {
                    add(record, under: RecordKey(parent.entity, row.text(CInt(place + 1))))
                }
            }
        }
    }

    private mutating func add(_ record: RecordKey, under parent: RecordKey) {
        above[record, default: []].insert(parent)
        below[parent, default: []].insert(record)
    }

    /// The record of one of the changes in the queue, or one that it stands under.
    /// - Parameters:
    ///   - place: which of the changes, from the first.
    ///   - steps: how far up, at most.
    func subject(at place: Int, steps: Int) -> RecordKey? {
        guard changes.indices.contains(place) else { return nil }
        var record = changes[place].record
        for _ in 0..<steps {
            guard let next = above[record]?.min() else { break }
            record = next
        }
        return record
    }

    func counts(under record: RecordKey) -> StateCounts {
        var (family, rest): (Set<RecordKey>, [RecordKey]) = ([record], [record])
        while let next = rest.popLast() {
            for child in below[next] ?? [] where family.insert(child).inserted { rest.append(child) }  // any order
        }
        var counts = StateCounts()
        for change in changes where family.contains(change.record) {
            switch change.state {
            case 4: counts.failed += 1
            case 1, 2: counts.uploading += 1
            default: counts.waiting += 1
            }
        }
        return counts
    }
}
