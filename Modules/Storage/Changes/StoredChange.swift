import GRDB
import SyncCore

/// One row of `sync_change`.
struct StoredChange: Hashable {
    /// Its place in the queue; its sequence, but for a successor, which keeps the place of what it succeeds.
    var position: Int64
    var sequence: Int64
    var key: String
    var record: RecordKey
    var operation: Operation
    var schema: Int
    var stamp: Stamp
    var madeAt: Int64
    var fields: [String: FieldDelta]
    var state: State
    var baseVersion: Int64?
    var unit: String?
    var intent: String?
    var device: String?
    var attempts: Int
    var conflicts: Int
    var blockedBy: String?
    /// Whether the stored deltas need the declared kinds to be read: a trigger wrote them, not yet the engine.
    var isRaw = false
    /// Fields that a create was sent with although they have no value: an earlier version of the framework did that, and
    /// what was sent is sent again as it was.
    var sentNulls: Set<String> = []

    /// The numbers in the column `state`.
    enum State: Int64, Hashable {
        case pending = 0
        case uploading = 1
        case uncertain = 2
        case blocked = 3
        case failed = 4
        /// Blocked, and was sent once: its key and content stand for ever.
        case blockedAfterSending = 5
    }

    /// Whether it was ever claimed: then it is never merged, edited or silently cancelled.
    var wasSent: Bool {
        switch state {
        case .uploading, .uncertain, .blockedAfterSending: true
        case .pending, .blocked, .failed: false
        }
    }

    static let columns = """
        position, sequence, key, entity, id, operation, schema, stamp, madeAt, fields, state, baseVersion, "unit", \
        intent, device, attempts, conflicts, blockedBy
        """
    static let columnCount: CInt = 18

    /// As the wire and the seams have it: a delete carries no fields.
    var change: Change {
        Change(
            id: key, sequence: sequence, record: record, operation: operation, schemaVersion: schema, stamp: stamp,
            baseVersion: baseVersion, fields: sentFields, unit: unit, intent: intent, deviceID: device)
    }

    private var sentFields: [String: FieldDelta] {
        switch operation {
        // Most creates name every field: then they are as they go out.
        case .create where !leavesOutAny: fields
        case .create: fields.filter { !$0.value.isLeftOut || sentNulls.contains($0.key) }
        case .update: fields
        case .delete: [:]
        }
    }

    /// Whether any field has no value.
    private var leavesOutAny: Bool { fields.values.contains { $0.isLeftOut } }

    /// With its place in life.
    var queued: QueuedChange {
        let place: QueuedChange.State =
            switch state {
            case .pending: .pending
            case .uploading: .uploading
            case .uncertain: .uncertain
            case .blocked, .blockedAfterSending: .blocked
            case .failed: .failed
            }
        return QueuedChange(
            change: change, state: place, attempts: attempts, conflicts: conflicts, blockedBy: blockedBy,
            madeAtMilliseconds: madeAt)
    }
}

extension StoredChange {
    /// Reads a row of ``columns``.
    /// - Throws: `JSONFailure` where the deltas cannot be read.
    init(_ row: Row, _ schema: Schema) throws {
        let entity = schema[row[3]]
        var isRaw = false
        self.init(row, fields: try DeltaCodec.deltas(row[9], of: entity, isRaw: &isRaw))
        self.isRaw = isRaw
        noteNulls()
        fillIn(entity)
    }

    /// Reads a row of ``columns`` without GRDB's row.
    /// - Throws: `JSONFailure` where the deltas cannot be read.
    init(_ row: RawStatement, _ schema: Schema) throws(JSONFailure) {
        let record = RecordKey(row.text(3) ?? "", row.text(4) ?? "")
        let entity = schema[record.entity]
        var isRaw = false
        let fields = try DeltaCodec.deltas(row.text(9) ?? "", of: entity, isRaw: &isRaw)
        self.init(
            position: row.integer(0) ?? 0, sequence: row.integer(1) ?? 0, key: row.text(2) ?? "", record: record,
            operation: Operation(number: row.integer(5) ?? 1), schema: Int(row.integer(6) ?? 1),
            stamp: Stamp(packed: UInt64(bitPattern: row.integer(7) ?? 0)), madeAt: row.integer(8) ?? 0, fields: fields,
            state: row.integer(10).flatMap(State.init) ?? .pending, baseVersion: row.integer(11), unit: row.text(12),
            intent: row.text(13), device: row.text(14), attempts: Int(row.integer(15) ?? 0),
            conflicts: Int(row.integer(16) ?? 0), blockedBy: row.text(17), isRaw: isRaw)
        noteNulls()
        fillIn(entity)
    }

    /// Nulls that a create names: one that was sent keeps them, another is written anew before it goes.
    private mutating func noteNulls() {
        guard operation == .create, leavesOutAny else { return }
        if wasSent { sentNulls = Set(fields.filter(\.value.isLeftOut).keys) } else { isRaw = true }
    }

    /// A create writes every declared field; the stored one leaves out those without a value.
    private mutating func fillIn(_ entity: EntitySchema?) {
        guard operation == .create, let entity, entity.fields.count > fields.count else { return }
        for field in entity.fields where fields[field.name] == nil {
            fields[field.name] = FieldDelta(old: nil, new: .null, rule: field.rule)
        }
    }

    /// Reads a row of ``columns``; deltas that cannot be read are none.
    init(lenient row: Row, _ schema: Schema) {
        let entity = schema[row[3]]
        do {
            self.init(row, fields: try DeltaCodec.deltas(row[9], of: entity))
            fillIn(entity)
        } catch {
            // A claim sets such a change aside with this as its reason; whoever only looks sees the rest of it.
            self.init(row, fields: [:])
        }
    }

    /// Reads a row of ``columns`` but for its deltas.
    init(_ row: Row, fields: [String: FieldDelta]) {
        position = row[0]
        sequence = row[1]
        key = row[2]
        record = RecordKey(row[3], row[4])
        operation = Operation(number: row[5])
        schema = row[6]
        stamp = Stamp(packed: UInt64(bitPattern: row[7]))
        madeAt = row[8]
        self.fields = fields
        state = State(rawValue: row[10]) ?? .pending
        baseVersion = row[11]
        unit = row[12]
        intent = row[13]
        device = row[14]
        attempts = row[15]
        conflicts = row[16]
        blockedBy = row[17]
    }
}

extension StoredChange {
    /// Whether it is an update that writes another form of the same set, as the empty one where there was none: the server keeps
    /// nothing of it (Decision 176), and the row is to be as the server has it.
    func hasEmptyDifference(_ deltas: any DeltaCalculation) -> Bool {
        operation == .update
            && fields.values.contains { delta in
                delta.rule == .union && !(delta.old ?? .null).isSame(as: delta.new)
                    && deltas.rebase(delta, onto: .null).isNull
            }
    }
}

extension StoredChange {
    /// Whether it is an update of a field whose value says nothing without the one before it.
    var hasRules: Bool { operation == .update && fields.values.contains { $0.rule != .lastWriter } }

    /// Whether what it writes by such rules was worked out from these values.
    func isWorkedOut(over base: [String: FieldValue]) -> Bool {
        fields.allSatisfy { name, delta in
            guard delta.rule != .lastWriter, let value = base[name] else { return true }
            return value.isSame(as: delta.old ?? .null)
        }
    }
}

extension Operation {
    /// The number in `sync_change.operation`.
    var number: Int64 {
        switch self {
        case .create: 0
        case .update: 1
        case .delete: 2
        }
    }

    init(number: Int64) {
        self =
            switch number {
            case 0: .create
            case 2: .delete
            default: .update
            }
    }
}
