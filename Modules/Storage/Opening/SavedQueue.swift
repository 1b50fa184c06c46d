import GRDB
import SyncCore

/// The queue of a broken file, on its way into the new one (PRC-14).
struct SavedQueue {
    /// A row of `sync_change`, by its columns.
    typealias Columns = [(String, DatabaseValue)]

    /// In the order of the queue.
    private(set) var rows: [Columns]
    /// Added to each place in the queue.
    private var offset: Int64 = 0

    /// - Parameter device: who made what says nothing of that itself.
    init(_ rows: [Row], device: String?) {
        self.rows = rows.map { row in
            zip(row.columnNames, row.databaseValues).map { name, value in
                switch name {
                case "device" where value.isNull: (name, device?.databaseValue ?? .null)
                // Who was sending is not at work any more.
                case "state" where value == 1.databaseValue: (name, 2.databaseValue)
                default: (name, value)
                }
            }
        }
    }

    /// What is in the new queue goes behind what is saved, and is numbered anew: it was made of rows that the app put into the new file
    /// itself, and never sent. Of a record that is saved, the user's own word counts, and that is none. What was saved of an older file
    /// stays in front, and keeps its sequences, which the server knows.
    mutating func makeRoom(_ db: Database) throws {
        let present = try Row.fetchAll(db, sql: "SELECT position, device, entity, id FROM sync_change")
        guard !present.isEmpty else { return }
        guard let first = rows.compactMap({ Self.number($0, "position") }).min() else { return }
        let records = Set(rows.map { RecordKey(Self.text($0, "entity") ?? "", Self.text($0, "id") ?? "") })
        for row in present where (row[1] as DatabaseValue).isNull && records.contains(RecordKey(row[2], row[3])) {
            try ChangeRows.delete(db, position: row[0])
        }
        let taken = present.filter { !($0[1] as DatabaseValue).isNull }.map { $0[0] as Int64 }.max() ?? 0
        offset = first <= taken ? taken : 0
        rows = rows.map(moved)
        let last = rows.flatMap { [Self.number($0, "position"), Self.number($0, "sequence")] }.compactMap(\.self).max()
        let step = max(last ?? 0, present.map { $0[0] as Int64 }.max() ?? 0)
        try db.execute(
            sql: "UPDATE sync_change SET position = position + ?1, sequence = sequence + ?1 WHERE device IS NULL",
            arguments: [step])
    }

    /// The row at its place in the new queue; also one of `sync_failure`.
    func moved(_ row: Row) -> Columns { moved(Array(zip(row.columnNames, row.databaseValues))) }

    private func moved(_ row: Columns) -> Columns {
        guard offset > 0 else { return row }
        return row.map { name, value in
            guard name == "position", let place = Int64.fromDatabaseValue(value) else { return (name, value) }
            return (name, (place + offset).databaseValue)
        }
    }

    private static func number(_ row: Columns, _ name: String) -> Int64? {
        row.first { $0.0 == name }.flatMap { Int64.fromDatabaseValue($0.1) }
    }

    private static func text(_ row: Columns, _ name: String) -> String? {
        row.first { $0.0 == name }.flatMap { String.fromDatabaseValue($0.1) }
    }
}
