import SyncCore

/// The ids that an answer gives to what its request creates (`serverID`).
///
/// What else the request does with such a record was asked under the device's id, and is answered under the server's.
struct ToldNames {
    private var names: [RecordKey: String] = [:]

    mutating func note(_ serverID: String?, for change: Change) {
        guard let serverID else { return }
        names[change.record] = serverID
    }

    /// Whether the server tells `record` under `key`.
    func isName(_ key: RecordKey, of record: RecordKey) -> Bool {
        names[record].map { key == RecordKey(record.entity, $0) } ?? false
    }
}
