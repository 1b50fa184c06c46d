internal import SyncCore

/// How large a record may grow, change by change, so that it always fits into a page and into SQLite.
struct RecordLimits: Sendable, Hashable {
    /// Fields of one record.
    var fields = 4_096
    /// Bytes that it takes in the store.
    var bytes = 16 << 20

    /// What makes a change too large for its record; `size` of the entry is brought up to date otherwise.
    func refusal(of change: IncomingChange, to entry: inout Ledger.Entry) throws -> Rejection? {
        let all = entry.state.fields.count + change.fields.count
        if all > fields, newFields(of: change, in: entry) + entry.state.fields.count > fields {
            return Rejection(code: .tooLarge, message: "a record has at most \(fields) fields")
        }
        entry.size += change.size
        guard entry.size > bytes else { return nil }
        // Every change was counted as if it only added; count again what is there.
        let there =
            try RecordCodec.fields(of: entry.state).bytes.count + RecordCodec.writes(of: entry.state).bytes.count
        entry.size = there + change.size
        guard entry.size > bytes else { return nil }
        entry.size = there
        return Rejection(code: .tooLarge, message: "a record has at most \(bytes) bytes")
    }

    private func newFields(of change: IncomingChange, in entry: Ledger.Entry) -> Int {
        let there = Set(entry.state.fields.map(\.name))
        return change.fields.count { !there.contains($0.name) }
    }
}
