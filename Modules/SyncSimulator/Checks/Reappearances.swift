import SyncCore

/// I6 for deletes: what the app deleted, and the server has done, shows again only where somebody says so.
///
/// That is a page or a verdict that tells of the record as living, something that the app wrote of it since, or a full pass.
struct Reappearances {
    /// What a look found.
    private struct Seen {
        var rows: Set<RecordKey>
        var held: Set<RecordKey>
        var epoch: String?
        var pass: Int64
        var isInFullPass: Bool
    }

    private var last: Seen?
    /// Records that an answer, or a page as far as the device read it, told to be living since they were seen to go.
    private var told: Set<RecordKey> = []

    /// The device's files are older ones, or another user's.
    mutating func restored() { self = Reappearances() }

    /// The user chose what the device holds: what comes until the next look, comes for that.
    mutating func chose() { last = nil }

    /// The device reads these records of a page or of a verdict.
    mutating func heard(_ records: some Sequence<ServerRecord>) {
        for record in records where record.presence == .live { told.insert(record.key) }
    }

    /// Deletes of these records found nothing, whether now or long ago, or were decided nobody knows how: only a page tells, and until then
    /// a record that is held shows (seeds 2560017 with `--single`, and 400070 with `--server-ids --roots --bias asides`).
    mutating func leftOpen(of records: some Sequence<RecordKey>) { told.formUnion(records) }

    /// Records that are back since the last look although the last that the app did was to delete them, and the server did that.
    /// - Parameter accepted: keys that the server has done or merged, and that this device heard of.
    mutating func unexplained(_ facts: DeviceFacts, _ ledger: Ledger, accepted: Set<String>) -> [RecordKey] {
        let rows = Set(facts.rows.rows.keys)
        defer {
            if let last { told.subtract(last.rows.subtracting(rows)) }
            last = Seen(
                rows: rows, held: facts.held, epoch: facts.epoch, pass: facts.pass, isInFullPass: facts.isInFullPass)
        }
        // A record that has two names for a while goes by the one and comes by the other.
        guard let last, last.epoch == facts.epoch, last.pass == facts.pass, !last.isInFullPass, !facts.isInFullPass,
            !facts.rows.hasUnnamed, facts.rows.twins.isEmpty
        else { return [] }
        let waiting = Set(facts.queue.lazy.filter { $0.state != 4 }.map(\.record))
        return rows.subtracting(last.rows).filter { key in
            guard !told.contains(key), !last.held.contains(key), !waiting.contains(key),
                let newest = ledger.byRecord[key]?.last, let entry = ledger.entries[newest]
            else { return false }
            return entry.operation == .delete && accepted.contains(newest) && ledger.fates[newest] == nil
        }.sorted()
    }
}
