import GRDB
import SyncCore

/// The records that have entries in the queue, remembered from slice to slice: a page asks of each of its records whether
/// it is one of them.
///
/// Valid as long as no change was made (the sequence stands) and none has gone (the count stands). What a transaction saw
/// that was rolled back is forgotten with it (``forget()``). A long queue is not remembered: it is asked for each record.
/// Only the store's actor uses it.
final class UnsentRecords: @unchecked Sendable {  // guarded by the store's actor, whose transactions alone reach it
    private static let most = 2_000

    private var state: (sequence: Int64, count: Int)?
    private var records: Set<RecordKey> = []
    /// A bit for each id's mark: most records of a page are not among them, and a set would look at several ids for each.
    private var marks = [UInt64](repeating: 0, count: 1 << 10)

    /// - Returns: the places of those records that have entries; `nil` where each must be asked for.
    func places(in page: [ServerRecord]) -> [Int]? {
        guard state != nil else { return nil }
        let (marks, records) = (marks, records)
        return page.indices.filter { place in
            let mark = Self.mark(page[place].key.id)
            return marks[mark >> 6] & 1 << UInt64(mark & 63) != 0 && records.contains(page[place].key)
        }
    }

    /// A number below 2^16 that ids seldom share.
    private static func mark(_ id: String) -> Int {
        let letters = id.utf8.withContiguousStorageIfAvailable { bytes in
            // The last ones are those that differ.
            guard bytes.count >= 8 else { return bytes.reduce(0) { $0 << 8 | UInt64($1) } }
            return UnsafeRawBufferPointer(bytes).loadUnaligned(fromByteOffset: bytes.count - 8, as: UInt64.self)
        }
        return Int(truncatingIfNeeded: ((letters ?? 0) &* 0x9e37_79b9_7f4a_7c15) >> 48)
    }

    /// Looks whether what is remembered still holds, and reads it anew where it does not.
    func refresh(_ db: Database) throws {
        let (count, sequence) = try ChangeRows.extent(db)
        if let state, state == (sequence, count) { return }
        forget()
        guard count <= Self.most else { return }
        let statement = try RawStatement(db, "SELECT DISTINCT entity, id FROM sync_change")
        statement.begin()
        defer { statement.begin() }
        while try statement.step() {
            let record = RecordKey(statement.text(0), statement.text(1))
            let mark = Self.mark(record.id)
            marks[mark >> 6] |= 1 << UInt64(mark & 63)
            records.insert(record)
        }
        state = (sequence, count)
    }

    func forget() {
        state = nil
        records = []
        for place in marks.indices { marks[place] = 0 }
    }
}
