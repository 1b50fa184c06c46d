import GRDB
import SyncCore

/// Rows of one table and one shape that go by one statement: its way through GRDB and SQLite costs more than a row does.
struct RowBatch {
    /// One record of it.
    struct Member {
        let record: ServerRecord
        /// Fields that are not declared here, as they are stored.
        let extra: String?
        /// What unsent changes on top of it ask for; the row then shows those.
        let replayed: Replayed?
    }

    let table: AppliedTable
    let shape: AppliedTable.Shape
    private(set) var records: [Member] = []
    /// The values of all rows, one row after the other.
    private var values: [FieldValue] = []

    init(_ table: AppliedTable, _ shape: AppliedTable.Shape) {
        self.table = table
        self.shape = shape
        records.reserveCapacity(table.mostRows)
        values.reserveCapacity(table.mostRows * shape.count)
    }

    var isFull: Bool { records.count >= table.mostRows }

    mutating func add(_ member: Member, _ row: [FieldValue]) {
        records.append(member)
        values.append(contentsOf: row)
    }

    /// So many rows go by one statement where their ids come in no order: each is on a page of its own of an index then.
    ///
    /// To undo a statement alone SQLite keeps a copy of each page that it touches; more than 64 KiB of them, sixteen pages, it
    /// keeps in a file, and from there on so for all statements of the transaction (Decision 225).
    static let scattered = 4

    /// Whether each id is greater than the one before it.
    static func isInOrder(_ ids: some Sequence<String>) -> Bool {
        var last: String?
        for id in ids {
            if let last, id <= last { return false }
            last = id
        }
        return true
    }

    /// Writes the rows: a full batch by one statement, or by a few where its ids come in no order; others one by one.
    /// - Parameter written: how many stand, also where one after them fails.
    /// - Throws: what the first row that fails throws.
    func write(_ written: inout Int) throws {
        var most = 1
        if isFull { most = Self.isInOrder(records.lazy.map(\.record.key.id)) ? records.count : Self.scattered }
        while written < records.count {
            let rows = min(most, records.count - written)
            let start = written * shape.count
            try table.upsert(values[start..<start + rows * shape.count], shape, rows: rows)
            written += rows
        }
    }
}

/// The batches of a slice, at most one for each table.
///
/// What they hold is written before anything else looks at a row; parents' rows are written before their children's.
final class RowBatches {
    private var open: [RowBatch] = []
    /// Records in the batches that another one may refer to.
    private(set) var pending: Set<RecordKey> = []
    /// The row at work, kept for its memory.
    var row: [FieldValue] = []

    var isEmpty: Bool { open.isEmpty }

    /// Whether rows of the table wait that have other columns.
    func hasOther(_ table: AppliedTable, _ shape: AppliedTable.Shape) -> Bool {
        open.contains { $0.table === table && $0.shape != shape }
    }

    /// Adds the row at work.
    /// - Returns: whether the table's batch is full now.
    func add(_ member: RowBatch.Member, _ table: AppliedTable, _ shape: AppliedTable.Shape) -> Bool {
        if table.isReferred { pending.insert(member.record.key) }
        let index: Int
        if let known = open.firstIndex(where: { $0.table === table }) {
            index = known
        } else {
            index = open.firstIndex { $0.table.rank > table.rank } ?? open.count
            open.insert(RowBatch(table, shape), at: index)
        }
        open[index].add(member, row)
        return open[index].isFull
    }

    /// Takes out what waits of this table; all there is where its rows may refer to others, parents first.
    func takeOut(_ table: AppliedTable?) -> [RowBatch] {
        guard let table, table.needs.isEmpty, let index = open.firstIndex(where: { $0.table === table }) else {
            defer { (open, pending) = ([], []) }
            return open
        }
        let batch = open.remove(at: index)
        if table.isReferred { for member in batch.records { pending.remove(member.record.key) } }
        return [batch]
    }
}

extension SliceApplier {
    /// Puts the common record, a live one of which nothing is unsent, to those that are written by one statement.
    /// - Returns: whether it is done with; what is held up or cannot stand in its columns is looked at by itself.
    func goesWithOthers(
        _ record: ServerRecord, _ look: RecordMarks.Look, _ waiting: inout [(record: ServerRecord, missing: RecordKey)]
    ) throws -> Bool {
        guard record.presence == .live, !look.isUnsent, !pass.journalsLosses, let table = try table(record.key.entity),
            table.isNarrow, !localRows.contains(record.key)
        else { return false }
        if marks.isBelow(record, look.held) { return !hasHeld }
        batches.row.removeAll(keepingCapacity: true)
        let shape: AppliedTable.Shape
        do { shape = try table.bind(record, into: &batches.row) } catch is ValueMismatch { return false }
        if !table.needs.isEmpty, try table.isMissingOne(record.key, record.fields, besides: batches.pending) {
            return false
        }
        if shape.count <= table.entity.fields.count { try noteMissingFields(record, table) }
        let extra = try extra(record, shape, table.entity)
        try putToOthers(RowBatch.Member(record: record, extra: extra, replayed: nil), table, shape, &waiting)
        return true
    }

    /// The row at work waits with others of its table and shape.
    func putToOthers(
        _ member: RowBatch.Member, _ table: AppliedTable, _ shape: AppliedTable.Shape,
        _ waiting: inout [(record: ServerRecord, missing: RecordKey)]
    ) throws {
        if batches.hasOther(table, shape) {
            let row = batches.row
            try writeBatches(of: table, &waiting)
            batches.row = row
        }
        if batches.add(member, table, shape) { try writeBatches(of: table, &waiting) }
    }

    /// Writes the rows that wait. Where a table does not take one, it and all that were to follow go by themselves: what
    /// is at fault is held, and what refers to it waits.
    func writeBatches(
        of table: AppliedTable? = nil, _ waiting: inout [(record: ServerRecord, missing: RecordKey)]
    ) throws {
        var hasFailed = false
        for batch in batches.takeOut(table) {
            var written = 0
            if !hasFailed {
                do {
                    try batch.write(&written)
                } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                    hasFailed = true
                }
            }
            for member in batch.records.prefix(written) {
                marks.note(member.record, extra: member.extra, base: member.replayed?.base)
                if let replayed = member.replayed { try note(replayed.conflicts, of: member.record.key) }
                try noteApplied(member.record)
            }
            if hasHeld { for member in batch.records.prefix(written) { try release(member.record.key) } }
            for member in batch.records.dropFirst(written) { try takeOne(member.record, &waiting) }
        }
    }

    /// Whether the record's table has references, or none is declared.
    func refers(_ record: ServerRecord) throws -> Bool { try table(record.key.entity)?.needs.isEmpty != true }
}
