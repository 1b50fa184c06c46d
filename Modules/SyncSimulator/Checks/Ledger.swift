import GRDB
import SyncCore

/// Every change that was ever committed on one device, and what the app knows of its fate; kept beside the engine.
struct Ledger {
    /// A committed change, as its transaction left it in the change log.
    struct Entry: Hashable {
        let key: String
        let sequence: Int64
        let record: RecordKey
        let operation: Operation
        let stamp: Stamp
        /// What the app wrote; empty for what a cascade or the engine did.
        var values: [String: FieldValue]
    }

    /// What the app did to a change, or what nobody can hold against the engine.
    enum Fate: Hashable {
        case cancelled
        /// An inverse goes after it.
        case undone
        case discarded
        /// Another change stands in its place.
        case succeeded
        /// It was made after the backup that the device was restored from.
        case lostWithTheDevice
    }

    private(set) var entries: [String: Entry] = [:]
    private(set) var fates: [String: Fate] = [:]
    /// Keys by record, in the order in which they were made.
    private(set) var byRecord: [RecordKey: [String]] = [:]

    mutating func add(_ entry: Entry) {
        guard entries[entry.key] == nil else { return }
        entries[entry.key] = entry
        byRecord[entry.record, default: []].append(entry.key)
    }

    mutating func set(_ fate: Fate, for keys: some Sequence<String>) {
        for key in keys where entries[key] != nil { fates[key] = fate }
    }

    /// Changes of the change log with a sequence above `sequence`.
    static func changes(_ db: Database, above sequence: Int64) throws -> [Entry] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT key, sequence, entity, id, operation, stamp FROM sync_change WHERE sequence > ? ORDER BY sequence
                """, arguments: [sequence]
        ).map { row in
            let operation: Operation = [.create, .update, .delete][Int(row[4] as Int64)]
            return Entry(
                key: row[0], sequence: row[1], record: RecordKey(row[2], row[3]), operation: operation,
                stamp: Stamp(packed: UInt64(bitPattern: row[5] as Int64)), values: [:])
        }
    }

    /// The sequence that was given last.
    static func lastSequence(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "SELECT sequence FROM sync_clock") ?? 0
    }
}
