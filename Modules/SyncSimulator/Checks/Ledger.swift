import GRDB
import SyncCore

/// Every change that was ever committed on one device, and what is known of its fate; kept beside the engine.
struct Ledger {
    /// A committed change, as its transaction left it in the change log.
    struct Entry: Hashable {
        let key: String
        var sequence: Int64
        let record: RecordKey
        /// The record's id on the device, where it may be another than the canonical one.
        var here = ""
        let operation: Operation
        let stamp: Stamp
        /// What the app wrote; empty for what a cascade or the engine did.
        var values: [String: FieldValue] = [:]
        /// What was there before, for the same fields.
        var before: [String: FieldValue] = [:]
        /// The app made it; else it stands in the place of another, or undoes one.
        var isOriginal = false
        /// What the app asked all or none for: the records that it wrote with this one, itself among them, and the parents it named.
        var unit: Set<RecordKey> = []
    }

    /// What the app did to a change, or what nobody can hold against the engine.
    enum Fate: Hashable {
        case cancelled
        /// An inverse goes after it.
        case undone
        case discarded
        /// The device died over it: taken back or not, only the file knows.
        case unsure
        /// Another change stands in its place, under this key.
        case succeeded(by: String)
        /// It was made after the backup that the device was restored from.
        case lostWithTheDevice
    }

    private(set) var entries: [String: Entry] = [:]
    private(set) var fates: [String: Fate] = [:]
    /// Keys by record, in the order of their sequences.
    private(set) var byRecord: [RecordKey: [String]] = [:]
    /// What left the queue without a word of the server's or the app's, and the change that took it in.
    private(set) var absorbed: [String: String] = [:]
    /// Keys that were seen set aside: others may pass them, and their record may be gone when they are tried again.
    private(set) var wasAside: Set<String> = []
    /// Keys that stood in the queue as creates: an edit is one once the create before it has gone into it.
    private var creates: Set<String> = []
    /// Keys that an inverse undid, in whatever files.
    private var undone: Set<String> = []
    /// Records of which a create was given up here, in whatever files.
    private(set) var everGivenUp: Set<RecordKey> = []
    /// What was taken in, and was not looked for yet in what was sent of who took it in.
    private var unproved: Set<String> = []
    /// The queue when it was looked at last.
    private var queued: Set<String> = []
    private var known: Set<String> = []

    mutating func add(_ entry: Entry) {
        if let present = entries[entry.key] {
            // Seen in the queue before the app's call came back.
            if entry.isOriginal, !present.isOriginal { entries[entry.key] = entry }
            return
        }
        entries[entry.key] = entry
        var keys = byRecord[entry.record] ?? []
        let place = keys.firstIndex { (entries[$0]?.sequence ?? 0) > entry.sequence } ?? keys.count
        keys.insert(entry.key, at: place)
        byRecord[entry.record] = keys
    }

    /// A change has got another number, and stands where that is.
    mutating func moved(_ key: String, to sequence: Int64) {
        guard var entry = entries[key], entry.sequence != sequence else { return }
        entry.sequence = sequence
        entries[key] = entry
        byRecord[entry.record]?.sort { (entries[$0]?.sequence ?? 0) < (entries[$1]?.sequence ?? 0) }
    }

    mutating func set(_ fate: Fate, for keys: some Sequence<String>) {
        for key in keys where entries[key] != nil {
            fates[key] = fate
            if fate == .undone { undone.insert(key) }
            if fate == .cancelled || fate == .discarded, let entry = entries[key], entry.operation == .create {
                everGivenUp.insert(entry.record)
            }
        }
    }

    /// The device's files are older ones: what they hold counts again, and the rest is lost.
    mutating func restored(_ kept: Set<String>) {
        // A create is not lost that had gone into what is here: with it the record's life began (seed 206466).
        let within = absorbed.keys.filter { key in
            let heir = heir(of: key)
            return entries[key]?.operation == .create && !kept.contains(key) && kept.contains(heir)
                && creates.contains(heir)
        }
        let heirs = Dictionary(uniqueKeysWithValues: within.map { ($0, heir(of: $0)) })
        for key in entries.keys where heirs[key] == nil {  // any order
            // What an inverse undid before the backup is undone still, also where it was lost in between (seed 26593).
            fates[key] = !kept.contains(key) ? .lostWithTheDevice : undone.contains(key) ? .undone : nil
            absorbed[key] = nil
        }
        absorbed = heirs
        unproved = []
        queued = kept
        known = Set(entries.keys)
    }

    /// What the queue holds as the app asks for something to be tried again or given up: it may have been set aside since the
    /// last look, or stand in another's place, be given up before it was ever sent, and be gone at the next (seed 53407).
    mutating func noteQueue(_ facts: DeviceFacts) {
        for change in facts.queue {
            add(
                Entry(
                    key: change.key, sequence: change.sequence, record: change.record,
                    operation: [.create, .update, .delete][Int(change.operation)], stamp: .zero))
            if change.state == 4 { wasAside.insert(change.key) }
            if change.operation == 0 { creates.insert(change.key) }
        }
    }

    /// Takes over what the queue holds now, and finds out what took in what is not there any more.
    /// - Parameters:
    ///   - accepted: keys that the server has done or merged.
    ///   - taken: keys of creates that it refused, since there is a record of that id.
    ///   - refused: keys that it refused.
    ///   - lives: whether it has a record, and the create with this key was answered in its present history.
    /// - Returns: changes that are gone although nothing took them in.
    mutating func look(
        _ facts: DeviceFacts, accepted: Set<String>, taken: Set<String>, refused: Set<String>,
        lives: (RecordKey, String) -> Bool = { _, _ in true }
    ) -> [Entry] {
        noteQueue(facts)
        let present = Set(facts.queue.map(\.key))
        var lost: [Entry] = []
        for (record, keys) in byRecord {  // any order
            for (place, key) in keys.enumerated() where !present.contains(key) && absorbed[key] == nil {
                guard !accepted.contains(key), fates[key] ?? .undone == .undone, let entry = entries[key]
                else {
                    continue
                }
                // Only what was there when it left can have taken it in, and stood behind it. A successor may stand before what
                // has a lower sequence: it keeps the place of the change that it succeeds. A create takes no delete in: a create
                // tried again stands before the delete that it goes with.
                let behind = entry.isOriginal ? keys.dropFirst(place + 1) : keys.filter { $0 != key }[...]
                let heir =
                    mended(entry, keys, refused)
                    ?? behind.first {
                        (queued.contains($0) || !known.contains($0)) && self.heir(of: $0) != key
                            && !(entry.operation == .delete && entries[$0]?.operation == .create)
                    }
                if endsItsCreate(entry, at: place, of: keys, facts, accepted, refused, lives) {
                    fates[key] = .cancelled
                } else if let heir {
                    // What ended with a refused create is in no later life of its record.
                    if facts.ended.contains(key) {
                        fates[key] = .cancelled
                    } else {
                        absorbed[key] = heir
                        unproved.insert(key)
                    }
                } else if entry.operation != .delete || facts.rows.rows[record] != nil
                    || !wasMade(record, accepted)
                {
                    // What is there is somebody else's: the delete ends with the refused create, just now, and with nothing else.
                    let endsRefusal = keys.contains {
                        taken.contains($0) && queued.contains($0) && !present.contains($0) && fates[$0] == nil
                    }
                    if isBack(entry, keys, facts, refused) || entry.operation == .delete && endsRefusal {
                        fates[key] = .cancelled
                    } else {
                        lost.append(entry)
                    }
                }
            }
        }
        queued = present
        known = Set(entries.keys)
        return lost.sorted { $0.sequence < $1.sequence }
    }

    /// The successor of a refused create that an edit has just gone into: it stands in front of the edit, and what was written
    /// behind that need not be in it (seed 2729). Where none was refused, a create that the queue made is the inverse of a
    /// delete (seed 40567).
    private func mended(_ edit: Entry, _ keys: [String], _ refused: Set<String>) -> String? {
        let wasRefused = keys.contains { key in
            entries[key]?.operation == .create && (refused.contains(key) || wasAside.contains(key))
        }
        guard edit.operation == .update, wasRefused else { return nil }
        return keys.first { key in
            guard let next = entries[key], next.operation == .create, !next.isOriginal else { return false }
            return !known.contains(key) && heir(of: key) != edit.key
        }
    }

    /// Whether a create came behind a delete that was refused or taken back, and says what is there again without it: nothing is left of it.
    /// What was there may have gone with its parent since, with the same answer (seed 233511).
    private func isBack(_ entry: Entry, _ keys: [String], _ facts: DeviceFacts, _ refused: Set<String>) -> Bool {
        guard entry.operation == .create,
            keys.contains(where: { entries[$0]?.operation == .delete && (refused.contains($0) || fates[$0] != nil) })
        else { return false }
        guard let row = facts.rows.rows[entry.record] else { return facts.ended.contains(entry.key) }
        return entry.values.allSatisfy { (row[$0.key] ?? .null).isSame(as: $0.value) }
    }

    /// Whether the record was made here and never came to the server: then its delete may go with it. A create that was done, and
    /// was tried again all the same, was done in another history and refused in this one: what stands in its place tells.
    private func wasMade(_ record: RecordKey, _ accepted: Set<String>) -> Bool {
        (byRecord[record] ?? []).contains {
            entries[$0]?.operation == .create && !accepted.contains(successor(of: $0))
        }
    }

    /// Whether a delete ended with the create in front of it, of which the server knows nothing: it never came there, or was refused, in
    /// this history at least. What shows since is a record that others made under this id, or that this device makes again.
    private func endsItsCreate(
        _ entry: Entry, at place: Int, of keys: [String], _ facts: DeviceFacts, _ accepted: Set<String>,
        _ refused: Set<String>, _ lives: (RecordKey, String) -> Bool
    ) -> Bool {
        let aside = Set(facts.queue.lazy.filter { $0.state == 4 }.map(\.key))
        guard entry.operation == .delete,
            let create = keys[..<place].last(where: {
                // One that was made after the backup is another life's (seed 6217), or has gone into an edit that the backup
                // has (seed 84516).
                (entries[$0]?.operation == .create || creates.contains($0)) && fates[$0] != .lostWithTheDevice
                    // It ends the first that was set aside; others are still the user's (seed 3005648 with `--bias histories`).
                    && !aside.contains(successor(of: $0))
            }).map(successor),
            // It may have been done in a history before, and not in this one (seed 145018 with `--conditions --handlers --derived`), where
            // the record may live that was before it (seed 3002959 with `--bias histories`).
            !accepted.contains(create) || refused.contains(create)
                || facts.ended.isSuperset(of: [create, entry.key]) && !lives(entry.record, create),
            !facts.queue.contains(where: { $0.key == create })
        else { return false }
        return facts.rows.rows[entry.record] == nil || facts.versions[entry.record] != nil
            || keys[place...].contains { entries[$0]?.operation == .create }
    }

    /// The last that was put in the place of a change by the app's trying it again; itself where none was.
    private func successor(of key: String) -> String {
        var key = key
        while case .succeeded(let next)? = fates[key] { key = next }
        return key
    }

    /// Whether a create of the record was given up here; the server may have one by somebody else all the same (seed 73421).
    func gaveUp(_ record: RecordKey) -> Bool {
        let keys = byRecord[record] ?? []
        func isGivenUp(_ key: String) -> Bool { fates[key] == .cancelled || fates[key] == .discarded }
        return keys.contains { key in
            guard entries[key]?.operation == .create else { return false }
            var (last, before) = (key, "")
            while last != before {
                if isGivenUp(last) { return true }
                (last, before) = (heir(of: successor(of: last)), last)
            }
            // What was tried again, and at once merged into what stood behind it, was never seen by itself (seed 102764).
            return entries[last] == nil && keys.contains(where: isGivenUp)
        }
    }

    /// Whether the unit of a change may wait for itself: what a record of it was made by, before it, has gone into a change that was
    /// written behind it, or another create stands in its place (seed 125003).
    func mayBeCircular(_ entry: Entry) -> Bool {
        entry.unit.contains { record in
            let keys = byRecord[record] ?? []
            return keys.contains { key in
                guard let create = entries[key], create.operation == .create, create.sequence < entry.sequence
                else { return false }
                return entries[heir(of: key)].map { $0.sequence > entry.sequence } ?? false
                    || keys.contains { entries[$0]?.operation == .create && entries[$0]?.isOriginal == false }
            }
        }
    }

    /// Whether any change of the record up to a sequence says something of a field, or this very value; a create says something
    /// of all.
    func names(_ field: String, _ value: FieldValue?, in record: RecordKey, upTo sequence: Int64) -> Bool {
        (byRecord[record] ?? []).compactMap { entries[$0] }.contains { entry in
            guard entry.sequence <= sequence else { return false }
            guard entry.isOriginal, entry.operation == .create || entry.values[field] != nil else {
                return !entry.isOriginal
            }
            return value?.isSame(as: entry.values[field] ?? .null) ?? true
        }
    }

    /// The ids of records that were made here.
    var made: Set<String> {
        Set(entries.values.lazy.filter { $0.operation == .create }.map(\.record.id))
    }

    /// What was written as records were made here, each for the first time.
    var makings: [RecordKey: [String: FieldValue]] {
        let creates = entries.values.filter { $0.operation == .create && $0.isOriginal }
        return Dictionary(creates.map { ($0.record, $0) }) { $0.sequence < $1.sequence ? $0 : $1 }.mapValues(\.values)
    }

    /// The change that stands for this one in the queue.
    func heir(of key: String) -> String {
        var key = key
        while let next = absorbed[key] { key = next }
        return key
    }

    /// What must be in changes that took others in and were sent since this was asked last: each with all that went
    /// into it, in the order of writing, itself among them.
    ///
    /// Which one took another in is known where the app made all there is of a record and took nothing back: then it is
    /// the next one. Of the rest nothing is said.
    /// - Parameters:
    ///   - sent: what was sent under a key by this device.
    ///   - wasSent: whether any device sent the key: then it was merged into nothing, if it was this one. Where it was the device
    ///     before, or a copy, it may be either (seed 10433).
    mutating func takenIn(
        sent: (String) -> Change?, wasSent: (String) -> Bool
    ) -> [(written: [Entry], sent: Change)] {
        var heirs: Set<String> = []
        for key in unproved {  // any order: the heirs are sorted
            let heir = heir(of: key)
            guard sent(heir) != nil else { continue }
            heirs.insert(heir)
            unproved.remove(key)
        }
        return heirs.sorted().compactMap { heir in
            guard let change = sent(heir), isPlain(change.record) else { return nil }
            let all = (byRecord[change.record] ?? []).filter { self.heir(of: $0) == heir }
            guard all.allSatisfy({ $0 == heir || !wasSent($0) || sent($0) != nil }) else { return nil }
            let written = all.filter { key in
                // What went into one that was sent is in that one, and need not be the last that was written (seed 128557).
                var (place, isOwn) = (key, key == heir || !wasSent(key))
                while isOwn, place != heir, let next = absorbed[place] {
                    (place, isOwn) = (next, next == heir || !wasSent(next))
                }
                return isOwn
            }
            return (written.compactMap { entries[$0] }, change)
        }
    }

    /// Whether the app made all there is of a record, and nothing of it was taken back, set aside, or lost with the
    /// device.
    func isPlain(_ record: RecordKey) -> Bool {
        (byRecord[record] ?? []).allSatisfy {
            entries[$0]?.isOriginal == true && fates[$0] == nil && !wasAside.contains($0)
        }
    }

    /// Changes of the change log with a sequence above `sequence`.
    static func changes(
        _ db: Database, above sequence: Int64, _ ids: CanonicalIDs = CanonicalIDs()
    ) throws -> [Entry] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT key, sequence, entity, id, operation, stamp FROM sync_change WHERE sequence > ? ORDER BY sequence
                    """), arguments: [sequence]
        ).map { row in
            let operation: Operation = [.create, .update, .delete][Int(row[4] as Int64)]
            return Entry(
                key: row[0], sequence: row[1], record: ids.key(RecordKey(row[2], row[3])), here: row[3],
                operation: operation,
                stamp: Stamp(packed: UInt64(bitPattern: row[5] as Int64)))
        }
    }

    /// The same, each with the values that stand in it: what a dirty flag marked may be of several writes.
    static func collected(
        _ db: Database, above sequence: Int64, _ schema: Schema, _ ids: CanonicalIDs
    ) throws -> [Entry] {
        // What stands in another's place is the engine's own (mixed seed 337).
        let sql = "SELECT key, fields FROM sync_change WHERE sequence > ? AND position = sequence"
        let rows = try Row.fetchAll(db.cachedStatement(sql: sql), arguments: [sequence])
        let texts = Dictionary(rows.map { ($0[0] as String, $0[1] as String) }) { first, _ in first }
        return try changes(db, above: sequence, ids).map { entry in
            guard case .object(let deltas)? = try texts[entry.key].map({ try FieldValue(json: $0) }) else {
                return entry
            }
            var entry = entry
            entry.isOriginal = true
            for (name, delta) in deltas {
                guard let field = schema[entry.record.entity]?.field(name), case .object(let sides) = delta else {
                    continue
                }
                if let new = sides["new"] { entry.values[name] = ids.value(new, of: field) }
                if let old = sides["old"] { entry.before[name] = ids.value(old, of: field) }
            }
            return entry
        }
    }

    /// Deletes that were collected, and ended with a refused create before anybody looked (seeds 7029 and 7047 with
    /// `--rest --capture dirtyFlag`): their events are what is left.
    static func endedAtOnce(_ db: Database, above sequence: Int64, _ ids: CanonicalIDs) throws -> [Entry] {
        let sql = "SELECT key, entity, id FROM sync_event WHERE kind = 'cancelled' AND key IS NOT NULL"
        return try Row.fetchAll(db.cachedStatement(sql: sql)).compactMap { row in
            let key: String = row[0]
            // A key ends with its sequence.
            guard let number = Int64(key.suffix(12), radix: 16), number > sequence else { return nil }
            var entry = Entry(
                key: key, sequence: number, record: ids.key(RecordKey(row[1], row[2])), here: row[2],
                operation: .delete, stamp: .zero)
            entry.isOriginal = true
            return entry
        }
    }

    /// The sequence that was given last.
    static func lastSequence(_ db: Database) throws -> Int64 {
        let sql = "SELECT max(sequence, coalesce((SELECT max(position) FROM sync_change), 0)) FROM sync_clock"
        return try Int64.fetchOne(db.cachedStatement(sql: sql)) ?? 0
    }
}
