import GRDB
import SyncCore

/// What applying needs to know of the schema and the file; made once when the store opens.
struct ApplyContext: Sendable {
    let schema: Schema
    let deltas: any DeltaCalculation
    /// The queue, which verdicts and pages work on together.
    let changes: ChangeTable
    /// Derived data, in the order in which it is rebuilt.
    let snapshots: SnapshotPlan
    /// The names of each entity's declared fields.
    let fieldNames: [String: Set<String>]
    /// By entity and column (in lower case), what the app's table holds the column to.
    let foreignKeys: [String: [String: ForeignKey]]

    /// Entities whose records may need each other, as parents or by foreign keys.
    let circular: Set<String>

    /// The row that a foreign key of the app's table asks for.
    struct ForeignKey: Sendable {
        var table: String
        var column: String
        /// The entity of that table, or its name where it is none.
        var target: String
    }

    init(_ db: Database, _ schema: Schema, deltas: any DeltaCalculation, snapshots: SnapshotPlan) throws {
        self.schema = schema
        self.snapshots = snapshots
        self.deltas = deltas
        changes = ChangeTable(
            schema: schema, deltas: deltas,
            map: { db, record, serverID in try IdentityMap.keep(db, record, serverID, schema) },
            hold: { db, record, reason in try Self.hold(db, record, reason, schema) })
        fieldNames = Dictionary(
            uniqueKeysWithValues: schema.entities.map { ($0.name, Set($0.fields.map(\.name))) })
        var keys: [String: [String: ForeignKey]] = [:]
        for entity in schema.entities {
            for key in try db.foreignKeys(on: entity.table) where key.mapping.count == 1 {
                let table = key.destinationTable
                let owner = schema.entities.first { $0.table.lowercased() == table.lowercased() }
                keys[entity.name, default: [:]][key.mapping[0].origin.lowercased()] = ForeignKey(
                    table: table, column: key.mapping[0].destination, target: owner?.name ?? table)
            }
        }
        foreignKeys = keys
        circular = Self.circular(
            schema.entities.reduce(into: [:]) { needs, entity in
                needs[entity.name] = Set(entity.parents.compactMap(\.reference?.entity))
                    .union((keys[entity.name] ?? [:]).values.map(\.target))
            })
    }

    /// Those that come to themselves by what they need.
    private static func circular(_ needs: [String: Set<String>]) -> Set<String> {
        Set(
            needs.keys.filter { name in
                var seen: Set<String> = []
                var open = Array(needs[name] ?? [])
                while let next = open.popLast() {
                    if seen.insert(next).inserted { open += needs[next] ?? [] }
                }
                return seen.contains(name)
            })
    }

    /// The unsent changes of a record that left all scopes are set aside; their values stay with the failure.
    func setAsideGone(_ db: Database, _ key: RecordKey, _ now: Int64) throws {
        let reason = SetAsideReason(
            code: "gone",
            message: "The record left what this account may see; its unsent changes are kept here.")
        try changes.setAside(db, allOf: key, reason, now: now)
    }

    /// The unsent moves of a record under one of those that left all scopes are set aside; its row goes back to where it was.
    /// - Returns: the records whose rows changed.
    func setMovesAside(
        _ db: Database, _ key: RecordKey, under left: Set<RecordKey>, _ now: Int64
    ) throws -> [RecordKey] {
        let reason = SetAsideReason(
            code: "gone",
            message: "Where the record was moved to left what this account may see; the move, unsent, is kept here.")
        return try changes.setAside(db, movesOf: key, under: left, reason, now: now)
    }

    /// What a verdict brought cannot stand in the app's table now.
    private static func hold(
        _ db: Database, _ record: ServerRecord, _ reason: ChangeTable.HoldReason, _ schema: Schema
    ) throws {
        // What left waits for its changes only, whatever they come to.
        if record.presence == .live, try HeldRecords.find(db, record.key)?.presence == .gone { return }
        switch reason {
        case .unsentUnder:
            try HeldRecords.hold(db, record, .unsent, detail: "something under it has unsent changes")
        case .broken(let detail): try HeldRecords.hold(db, record, .constraint, detail: detail)
        case .missingParent, .strayed:
            guard let entity = schema[record.key.entity] else { return }
            let table = AppliedTable(db, entity, schema, foreignKeys: [:])
            guard let missing = try table.missing(record.key, record.fields) else { return }
            let waits: HeldRecord.Reason = reason == .strayed ? .stray : .parent
            try HeldRecords.hold(db, record, waits, detail: "\(missing) is not here", waits: missing)
        }
    }
}
