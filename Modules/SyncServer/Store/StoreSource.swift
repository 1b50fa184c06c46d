internal import SyncCore

/// The rules' view of one account's data, within the request's transaction.
final class StoreSource: RecordSource {
    let store: ServerStore
    let account: AccountContext
    private let readsAliases: Bool
    private let guardsKeys: Bool
    /// The device that made the record that was read last.
    private var lastDevice = ""
    private var walk: RecordWalk
    private let runs: OutcomeRuns

    /// - Parameter guardsKeys: Whether the caller begins again without it after a ``KeyIsKnown``.
    init(store: ServerStore, account: AccountContext, readsAliases: Bool, guardsKeys: Bool) {
        self.store = store
        self.account = account
        self.readsAliases = readsAliases
        self.guardsKeys = guardsKeys
        walk = RecordWalk(statements: store.statements, account: account.row)
        runs = OutcomeRuns(store: store)
    }

    /// Everything was asked; what was decided may be written now.
    func end() { walk.end() }

    func isGuarded(sequence: Int64, device: String) throws -> Bool {
        guard guardsKeys else { return false }
        guard let device = try store.device(device, of: account) else { return true }
        return !device.usesREST && sequence > max(device.top, device.settled)
    }

    func record(_ key: RecordKey) throws -> StoredRecord? {
        try walk.first(key) { row in
            let fields = row.bytes(3)
            let (created, size) = row.withBytes(4) { (RecordCodec.createAlone($0, &lastDevice), $0.count) }
            let state =
                if let created { try RecordCodec.state(fields: fields, created: created) } else {
                    try RecordCodec.state(fields: fields, writes: row.bytes(4), device: &lastDevice)
                }
            return StoredRecord(
                row: row[0], root: row[5], version: row[1], isDead: (row[2] as Int64) != 0, state: state,
                size: fields.count + size)
        }
    }

    func children(of row: Int64) throws -> [RecordKey] {
        var keys: [RecordKey] = []
        try store.statements.each(
            """
            SELECT record.entity, record.id FROM link JOIN record ON record.n = link.child
            WHERE link.parent = ? ORDER BY link.child
            """, [row]
        ) { row in
            keys.append(RecordKey(row[0], row[1]))
            return true
        }
        return keys
    }

    func nextRow() -> Int64 { store.nextRow() }

    func outcome(device: String, key: String) throws -> StoredOutcome? {
        guard let device = try store.device(device, of: account) else { return nil }
        if device.usesREST, let used = try ReplyStore(store: store).reply(device: device, key: key) {
            // Never equal to a change's: the key was used for something else.
            return StoredOutcome(verdict: "applied", members: "", digest: used.digest)
        }
        let row = try store.statements.first(
            "SELECT verdict, members, first, second FROM outcome WHERE device = ? AND key = ?", [device.row, key]
        ) { row in
            StoredOutcome(
                verdict: row[0], members: row[1],
                digest: ContentDigest(
                    first: UInt64(bitPattern: row[2] as Int64), second: UInt64(bitPattern: row[3] as Int64)))
        }
        return try row ?? runs.outcome(key, of: device)
    }

    func isTaken(sequence: Int64, device: String, byOtherThan key: String) throws -> Bool {
        guard let device = try store.device(device, of: account), sequence <= device.top else { return false }
        let row = try store.statements.first(
            "SELECT key FROM outcome WHERE device = ? AND sequence = ?", [device.row, sequence]
        ) { $0[0] as String }
        return try (row ?? runs.key(ofSequence: sequence, of: device)).map { $0 != key } ?? false
    }

    func settled(device: String) throws -> Int64 {
        try store.device(device, of: account)?.settled ?? 0
    }

    func alias(of key: RecordKey) throws -> String? {
        guard readsAliases else { return nil }
        return try store.statements.first(
            "SELECT given FROM alias WHERE account = ? AND entity = ? AND id = ?", [account.row, key.entity, key.id]
        ) { $0[0] }
    }
}

/// An outcome was to be stored under a key that has one; every key of the request must be looked up.
struct KeyIsKnown: Error {}
