import Orchestrator
import Storage
import SyncCore
import SyncTesting

/// What handlers of the app's own have been told on one device (``Syncable``), kept as an app would that has its records elsewhere: of each
/// the newest word. It outlives the processes.
final class ToldHandlers: @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    /// A word on a record.
    struct Word {
        var version: Int64
        var presence: ServerRecord.Presence
    }

    private(set) var words: [RecordKey: Word] = [:]
    /// Records that this device sent changes of: what became of those it need not be told.
    private(set) var written: Set<RecordKey> = []
    private(set) var deleted: Set<RecordKey> = []
    private var refused: Set<String> = []
    private let ids: CanonicalIDs
    /// Nothing is refused any more.
    var isWilling = false

    /// Of how many versions one is not heard: what ``PlantedBug/handlersUntold`` does.
    private let passesBy: Int64?

    init(_ ids: CanonicalIDs, passesBy: Int64? = nil) {
        self.ids = ids
        self.passesBy = passesBy
    }

    /// One for each entity of the app.
    /// - Parameter isDead: whether the process that asks has been killed.
    func handlers(_ schema: Schema, isDead: @escaping @Sendable () -> Bool) -> [any Syncable] {
        schema.entities.map { Handler(schema: $0, told: self, isDead: isDead) }
    }

    /// Begins with what the files say: they are older than what was told, or somebody else's.
    func begin(with facts: DeviceFacts?) {
        guard let facts else { return words = [:] }
        let shown = facts.versions.filter { facts.rows.rows[$0.key] != nil }
        // What waits to be shown was told of when it came (seed 213025 with `--damage --handlers`).
        words = words.filter { facts.held.contains($0.key) && !facts.heldForUnsent.contains($0.key) }
        for (key, version) in shown {  // any order
            // Of what only an edit of this device shows its handlers know that it is dead (seed 9026 with `--handlers --server-ids`).
            words[key] = Word(version: version, presence: facts.dead.contains(key) ? .deleted : .live)
        }
    }

    /// The device sends these.
    func note(_ changes: [Change]) {
        for change in changes {
            written.insert(ids.key(change.record))
            if change.operation == .delete { deleted.insert(ids.key(change.record)) }
        }
    }

    /// - Throws: for one word of seven the first time, as an app does whose disk is full.
    fileprivate func hear(_ record: ServerRecord) throws {
        if let passesBy, record.version % passesBy == 0 { return }
        let key = ids.key(record.key)
        let name = "\(key.entity) \(key.id) \(record.version)"
        let number = name.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01b3 }
        if !isWilling, number % 7 == 0, refused.insert(name).inserted { throw Refused() }
        words[key] = Word(version: record.version, presence: record.presence)
    }

    struct Refused: Error {}

    private struct Handler: Syncable {
        let schema: EntitySchema
        let told: ToldHandlers
        let isDead: @Sendable () -> Bool

        func applyResponse(_ record: ServerRecord) async throws {
            // Nothing of a killed process reaches the app's files.
            if isDead() { throw Refused() }
            try told.hear(record)
        }
    }
}

extension World {
    /// At the end: what the handlers of a device were told is what it shows, but for what it did itself.
    func checkTold(_ device: SimulatedDevice, _ facts: DeviceFacts, _ records: [ServerRecord], _ holding: Holding) {
        let told = device.told
        if let left = settle(device.index, { try await $0.store.lastUntold() }), left > 0 {
            record.violate("handlers", "device \(device.index): something is still to be told at the end")
        }
        let fields = Dictionary(records.map { ($0.key, $0.fields) }, uniquingKeysWith: { $1 })
        /// Whether this device deleted it, or what it stands under: such a death it need not be told.
        func isDeletedHere(_ key: RecordKey, _ depth: Int = 0) -> Bool {
            if told.deleted.contains(key) { return true }
            guard depth < 16 else { return false }
            return (options.schema[key.entity]?.parents ?? []).contains { field in
                guard let parent = field.reference?.entity, case .string(let id)? = fields[key]?[field.name] else {
                    return false
                }
                return isDeletedHere(RecordKey(parent, id), depth + 1)
            }
        }
        for each in records {
            let word = told.words[each.key]
            let isHere =
                each.presence == .live && holding.checkpoint(of: each.key) != nil && facts.rows.rows[each.key] != nil
            if isHere {
                // Nobody tells a handler that comes with an update what is here already.
                guard !told.written.contains(each.key), device.beganWith[each.key.entity] != nil else { continue }
                if word?.presence != .live || word?.version != each.version {
                    record.violate(
                        "handlers",
                        "device \(device.index): of \(each.key) at \(each.version) the last word was \(word.map { "\($0.presence) at \($0.version)" } ?? "none")"
                    )
                }
            } else if word?.presence == .live, !isDeletedHere(each.key) {
                record.violate(
                    "handlers",
                    "device \(device.index): nobody said that \(each.key), \(each.presence) at \(each.version), is not here any more"
                )
            }
        }
    }
}
