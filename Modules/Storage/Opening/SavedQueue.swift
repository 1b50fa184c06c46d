import GRDB
import SyncCore

/// The queue of a broken file, on its way into the new one (PRC-14).
struct SavedQueue {
    typealias Columns = SavedRow.Columns

    /// In the order of the queue.
    private(set) var rows: [Columns]
    /// Added to each place in the queue.
    private var offset: Int64 = 0

    /// - Parameter device: who made what says nothing of that itself.
    init(_ rows: [Row], device: String?) {
        self.rows = rows.map { row in
            SavedRow.columns(of: row).map { name, value in
                switch name {
                case "device" where value.isNull: (name, device?.databaseValue ?? .null)
                // Who was sending is not at work any more.
                case "state" where value == 1.databaseValue: (name, 2.databaseValue)
                // No version of any record is here: a server that leaves out what follows from it would never tell of the record (seed 1060
                // with `--damage --handlers --server-ids`).
                case "baseVersion": (name, .null)
                default: (name, value)
                }
            }
        }
    }

    /// What is in the new queue goes behind what is saved, and is numbered anew: it was made of rows that the app put into the new file
    /// itself, and never sent. Of a record that is saved, the user's own word counts, and that is none. What was saved of an older file
    /// stays in front, and keeps its sequences, which the server knows.
    mutating func makeRoom(_ db: Database) throws {
        let present = try Row.fetchAll(db, sql: "SELECT position, device, entity, id, key FROM sync_change")
        guard !present.isEmpty else { return }
        // A file may have an older one's queue already.
        let keys = Set(present.map { $0[4] as String })
        rows.removeAll { SavedRow.text($0, "key").map(keys.contains) ?? false }
        guard let first = rows.compactMap({ SavedRow.number($0, "position") }).min() else { return }
        let records = Set(rows.map { RecordKey(SavedRow.text($0, "entity") ?? "", SavedRow.text($0, "id") ?? "") })
        for row in present where (row[1] as DatabaseValue).isNull && records.contains(RecordKey(row[2], row[3])) {
            try ChangeRows.delete(db, position: row[0])
        }
        let taken = present.filter { !($0[1] as DatabaseValue).isNull }.map { $0[0] as Int64 }.max() ?? 0
        offset = first <= taken ? taken : 0
        rows = rows.map(moved)
        let last = rows.flatMap { [SavedRow.number($0, "position"), SavedRow.number($0, "sequence")] }.compactMap(
            \.self
        ).max()
        let step = max(last ?? 0, present.map { $0[0] as Int64 }.max() ?? 0)
        try db.execute(
            sql: "UPDATE sync_change SET position = position + ?1, sequence = sequence + ?1 WHERE device IS NULL",
            arguments: [step])
    }

    /// The row at its place in the new queue; also one of `sync_failure`.
    func moved(_ row: Row) -> Columns { moved(SavedRow.columns(of: row)) }

    private func moved(_ row: Columns) -> Columns {
        guard offset > 0 else { return row }
        return row.map { name, value in
            guard name == "position", let place = Int64.fromDatabaseValue(value) else { return (name, value) }
            return (name, (place + offset).databaseValue)
        }
    }
}
