import GRDB
public import SyncCore

/// What became of everything that was written of a record.
public enum RecordFate: Sendable, Hashable {
    /// Nothing of it waits: all is acknowledged, or was taken back.
    case decided
    /// Something of it waits, or is on its way.
    case waiting
    /// Nothing of it goes on by itself: these changes were set aside, or wait behind one that was.
    case setAside([String])
}

extension Store {
    /// What became of a record's changes; of the record alone, not of what is under it.
    public func fate(of record: RecordKey) throws(StoreFailure) -> RecordFate {
        try collectIfDirty()
        return try look("looking for a record's changes") { db in
            let sql = "SELECT key, state FROM sync_change WHERE entity = ? AND id = ? ORDER BY position"
            var aside: [String] = []
            for row in try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [record.entity, record.id]) {
                switch StoredChange.State(rawValue: row[1]) {
                case .failed, .blocked, .blockedAfterSending: aside.append(row[0])
                case .pending, .uploading, .uncertain, nil: return .waiting
                }
            }
            return aside.isEmpty ? .decided : .setAside(aside)
        }
    }
}
