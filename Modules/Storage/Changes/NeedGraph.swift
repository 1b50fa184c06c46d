import GRDB
import SyncCore

/// What every change of the queue needs, read once where much is asked of it: it answers as ``Needs/following(_:_:among:and:withBlocked:)``
/// does for one create, without another pass over the queue, and of what stands in front of that create, too: a successor keeps the old
/// place, and may name what was made behind that (``Needs/createBehind(_:of:)``).
struct NeedGraph {
    /// What needs a record's create: later changes of the record, and what refers to it.
    private var needing: [RecordKey: [Place]] = [:]

    /// Where a record is made anew, in order: what is written behind the second create needs that one.
    private var makings: [RecordKey: [Int64]] = [:]

    private struct Place {
        var position: Int64
        /// The number of what is written there: a successor's is above its place.
        var sequence: Int64
        /// The record that the change there creates.
        var made: RecordKey?
    }

    private static let waiting = "state IN (0, 1, 2, 3, 5)"

    init(_ db: Database, _ schema: Schema) throws {
        let own = """
            SELECT entity, id, position FROM sync_change WHERE position > 0 AND operation <> 0 AND \(Self.waiting)
            """
        let rows = try Row.fetchCursor(db.cachedStatement(sql: own))
        while let row = try rows.next() {
            needing[RecordKey(row[0], row[1]), default: []].append(Place(position: row[2], sequence: row[2], made: nil))
        }
        for entity in schema.entities { try readReferences(db, of: entity) }
        try readMakings(db)
    }

    private mutating func readMakings(_ db: Database) throws {
        var seen: Set<RecordKey> = []
        let sql = "SELECT entity, id, position FROM sync_change WHERE position > 0 AND operation = 0 ORDER BY position"
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql))
        while let row = try rows.next() {
            let record = RecordKey(row[0], row[1])
            if !seen.insert(record).inserted { makings[record, default: []].append(row[2]) }
        }
    }

    /// What the waiting changes of an entity refer to.
    private mutating func readReferences(_ db: Database, of entity: EntitySchema) throws {
        let fields = entity.fields.compactMap { field in field.reference.map { (field.name, $0.entity) } }
        guard !fields.isEmpty else { return }
        // A field's name is letters, digits and _, so it stands in a path as it is.
        let columns = fields.map { "fields ->> '$.\($0.0).new'" }.joined(separator: ", ")
        let sql = """
            SELECT position, id, operation, sequence, \(columns) FROM sync_change
            WHERE entity = ? AND operation <> 2 AND \(Self.waiting) AND json_valid(fields)
            """
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: [entity.name])
        while let row = try rows.next() {
            let record = RecordKey(entity.name, row[1])
            let place = Place(
                position: row[0], sequence: row[3], made: Operation(number: row[2]) == .create ? record : nil)
            for (index, field) in fields.enumerated() {
                guard let id = String.fromDatabaseValue(row[4 + index]) else { continue }
                let other = RecordKey(field.1, id)
                if other != record { needing[other, default: []].append(place) }
            }
        }
    }

    /// Where that stands which needs a create, or what needs it.
    func positions(needing create: StoredChange) -> [Int64] {
        var found: Set<Int64> = []
        var open = [Place(position: create.position, sequence: create.sequence, made: create.record)]
        while let next = open.popLast() {
            guard let made = next.made else { continue }
            // Only what was written after a create needs it, and before another one of the same record.
            let end = makings[made]?.first { $0 > next.position } ?? .max
            for place in needing[made] ?? [] where place.sequence > next.position && place.sequence < end {
                if found.insert(place.position).inserted { open.append(place) }
            }
        }
        return found.sorted()
    }
}
