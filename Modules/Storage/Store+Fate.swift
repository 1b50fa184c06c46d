import GRDB
public import SyncCore

/// What became of everything that was written of a record.
public enum RecordFate: Sendable, Hashable {
    /// Nothing of it waits: all is acknowledged, or was taken back.
    case decided
    /// Something of it waits, or is on its way.
    case waiting
    /// Nothing of it goes on by itself: these changes were set aside, or wait behind one that was, or for the app's word on a row that
    /// is held back.
    case setAside([String])
}

extension Store {
    /// What became of a record's changes; of the record alone, not of what is under it.
    public func fate(of record: RecordKey) throws(StoreFailure) -> RecordFate {
        try collectIfDirty()
        return try look("looking for a record's changes") { db in
            let sql = """
                SELECT key, state, blockedBy, position FROM sync_change WHERE entity = ? AND id = ? ORDER BY position
                """
            var aside: [String] = []
            // What no claim has looked at since it was written, and none will while nothing else is to go.
            let unmarked = try context.changes.unmarkedRoots(db)
            for row in try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [record.entity, record.id]) {
                let key: String = row[0]
                switch StoredChange.State(rawValue: row[1]) {
                case .failed: aside.append(key)
                case .blocked, .blockedAfterSending:
                    if try Self.goes(db, context.changes, row[2]) { return .waiting }
                    aside.append(key)
                case .pending:
                    guard let root = unmarked[row[3]], try !Self.goes(db, context.changes, root) else {
                        return .waiting
                    }
                    aside.append(key)
                case .uploading, .uncertain, nil: return .waiting
                }
            }
            return aside.isEmpty ? .decided : .setAside(aside)
        }
    }

    /// Whether what a change waits for goes by itself, as a create behind it does, and needs nobody's word.
    private static func goes(_ db: Database, _ table: ChangeTable, _ root: String?) throws -> Bool {
        var (key, seen) = (root, Set<String>())
        while let root = key, seen.insert(root).inserted, let change = try table.find(db, root) {
            switch change.state {
            case .failed: return false
            case .blocked, .blockedAfterSending: key = change.blockedBy
            case .pending, .uploading, .uncertain: return true
            }
        }
        // Drafts are named by their records, and wait for the app; for a row that is gone nothing waits.
        guard let key, key.hasPrefix("local:") else { return false }
        return try Drafts.gone(db, table.schema).contains { Drafts.root(of: $0, .local) == key }
    }
}
