import GRDB
import SyncCore

/// What was seen of a device before, against which the present is held: nothing that it has read is taken back, and what it
/// heard leaves the marks that it must.
struct Memory {
    /// A verdict that must leave a durable line, once its change has left the queue (I13).
    private var owed: [String: Verdict] = [:]
    private var clamped: Set<String> = []
    /// Changes that were made under an earlier id of the device.
    private var copied: Set<String> = []
    private var last:
        (
            epoch: String?, pass: Int64, checkpoint: Int64, versions: [RecordKey: Int64], waiting: Set<String>,
            roots: [RecordKey: Int64]?
        )?
    /// The versions that were held of records of which the tables say nothing any more.
    private var gone: [RecordKey: Int64] = [:]
    /// Records that are dead by the last word that the device read of them, and under which version.
    private var tombstones: [RecordKey: Int64] = [:]
    /// The version that the device heard last of a record, in the history of the last answer.
    private var heard: (epoch: String, versions: [RecordKey: Int64]) = ("", [:])
    /// Keys that were sent for the first time in the request that is under way, and edits that brought a record back
    /// (DAT-05).
    private var new: Set<String> = []
    private var revivals: [String: RecordKey] = [:]
    /// Pages are read beside requests with changes: one may bring what an edit revived before the edit's own verdict is taken in (seed
    /// 1244 with `--single`).
    private let readsBeside: Bool
    /// Stamps of pages that were heard, by what the checkpoint is once they are applied.
    private var stamps: [(epoch: String, version: Int64, stamp: Stamp)] = []

    init(readsBeside: Bool = false) { self.readsBeside = readsBeside }

    /// An answer came through to the engine.
    mutating func heard(_ answer: ExchangeAnswer, of request: ExchangeRequest) {
        // Another history's answer is none.
        guard request.epoch == nil || request.epoch == answer.epoch else { return }
        let asked = Set(request.changes.map(\.id))
        copied.formUnion(request.changes.lazy.filter { $0.deviceID != nil }.map(\.id))
        noteRevivals(answer, request)
        for result in answer.results where asked.contains(result.changeID) {
            owed[result.changeID] = result.verdict
            if result.isClamped { clamped.insert(result.changeID) }
        }
        // Where there are records, the checkpoint comes there only with this answer, or a later one of no lower stamp.
        // A page for roots that were chosen anew meanwhile is dropped, so of those nothing is said.
        if let stamp = answer.stamp, answer.page.count > 0, !answer.hasMore, request.scopes == nil {
            stamps.append((answer.epoch, answer.currentSyncVersion, stamp))
        }
    }

    /// A request leaves the device, with these keys for the first time.
    mutating func sends(new keys: some Sequence<String>) { new = Set(keys) }

    /// The device reads these records of a page; those of verdicts come with their answer (``heard(_:of:)``).
    mutating func read(_ records: some Sequence<ServerRecord>) {
        for record in records {
            // A verdict that was heard before it was read may know more (seed 143182 with `--single --conditions`).
            if readsBeside, record.version < heard.versions[record.key] ?? 0 { continue }
            note(record)
            guard readsBeside, record.presence == .live else { continue }
            revivals = revivals.filter { $0.value != record.key }
        }
    }

    private mutating func note(_ record: ServerRecord) {
        heard.versions[record.key] = record.version
        tombstones[record.key] = record.presence == .deleted ? record.version : nil
    }

    /// An edit that was sent over the tombstone, and done at once, brings the record back. What is sent again may find
    /// it alive, and so does what comes behind an edit that was done, whatever version is held (seed 1508).
    private mutating func noteRevivals(_ answer: ExchangeAnswer, _ request: ExchangeRequest) {
        if heard.epoch != answer.epoch { heard = (answer.epoch, [:]) }
        for change in request.changes {
            guard let result = answer.results.first(where: { $0.changeID == change.id }) else { continue }
            // The verdict of a change before it may show that somebody else brought the record back (seed 12541), or that it was dead
            // before the change behind it was done (seed 31335).
            if let told = result.verdict.record {
                // Said once more it may be older than what was read (seed 28178).
                if told.version >= heard.versions[told.key] ?? 0 { note(told) }
                continue
            }
            guard change.operation != .delete, case .applied(let version, _, _) = result.verdict else { continue }
            if let version { heard.versions[change.record] = max(heard.versions[change.record] ?? 0, version) }
            guard let dead = tombstones[change.record] else { continue }
            tombstones[change.record] = nil
            if change.operation == .update, new.contains(change.id), change.baseVersion == dead, version != nil,
                !result.isDuplicate
            {
                revivals[change.id] = change.record
            }
        }
    }

    /// The device's files are older ones.
    mutating func restored() { self = Memory(readsBeside: readsBeside) }

    /// The device had not taken the verdicts of these changes in: it died over the answer, or nothing could be written. The app gives
    /// the changes up, or they are asked again, or wait still as the next process finds them. Of what the verdicts said there will be no
    /// line, before they are said once more: that may not come to be (seed 72224).
    mutating func tookNothing(of keys: some Sequence<String>) {
        for key in keys {
            owed[key] = nil
            clamped.remove(key)
            revivals[key] = nil
        }
    }

    /// The user chose what the device holds: from here on other positions count.
    mutating func chose() {
        last?.checkpoint = 0
        last?.roots = nil
        stamps = []
    }

    /// The highest stamp that the device must have taken notice of.
    func seenStamp(_ facts: DeviceFacts) -> Stamp? {
        guard facts.scopes == nil else { return nil }
        return stamps.filter {
            $0.epoch == facts.epoch && $0.version <= facts.checkpoint && !facts.isInFullPass
        }
        .map(\.stamp).max()
    }

    /// Monotonic reads: within one history, neither the checkpoint nor a record's version falls.
    /// - Parameter isSaved: whether the queue was saved from a damaged file: of a record that it edits nothing is known under this device's id,
    ///   and another's page may tell of it under the server's for a while (seed 1056 with `--damage`).
    /// - Parameter isBehind: whether verdicts are of another history than the device knows of: by REST no request says which it means, so
    ///   that what is made anew may be answered by what is there now (seed 3680070 with `--rest --roots --handlers --bias histories`).
    mutating func falls(_ facts: DeviceFacts, isSaved: Bool = false, isBehind: Bool = false) -> [String] {
        let waiting = facts.queue.filter { $0.state != 4 }
        defer {
            last = (
                facts.epoch, facts.pass, facts.checkpoint, facts.versions, Set(waiting.map(\.key)),
                facts.scopes?.reached
            )
        }
        guard let last, last.epoch == facts.epoch, last.pass == facts.pass else {
            gone = [:]
            // Verdicts of another history owe nothing to this one.
            if last?.epoch != facts.epoch { (owed, clamped, stamps) = ([:], [], []) }
            return []
        }
        var found: [String] = []
        if facts.checkpoint < last.checkpoint {
            found.append("the checkpoint fell from \(last.checkpoint)")
        }
        for (root, version) in last.roots ?? [:] {  // any order
            guard let present = facts.scopes?.reached[root], present < version else { continue }
            found.append("the checkpoint of \(root) fell from \(version) to \(present)")
        }
        for (key, version) in last.versions {  // any order
            guard let present = facts.versions[key] else {
                gone[key] = max(version, gone[key] ?? 0)
                continue
            }
            guard present < version else { continue }
            // A tombstone takes what was known of a record with its row, unless something of it waited all the time; what
            // is made of it later, from what had been set aside, begins at 0.
            let wasKept = waiting.contains { $0.record == key && last.waiting.contains($0.key) }
            if present == 0, !wasKept || isSaved { continue }
            found.append("\(key) fell from version \(version) to \(present)")
        }
        // What comes back, comes back later: what is made anew here begins at 0.
        for (key, version) in gone {  // any order: what is found is sorted
            guard let present = facts.versions[key], present > 0 else { continue }
            if present < version, !isBehind {
                found.append("\(key) came back at version \(present), and was at \(version)")
            }
            gone[key] = nil
        }
        return found.sorted()
    }

    /// Whether a verdict is owed a line for a change that the queue does not hold any more.
    func owes(_ facts: DeviceFacts) -> Bool {
        guard !owed.isEmpty else { return false }
        let waiting = Set(facts.queue.map(\.key))
        return owed.keys.contains { !waiting.contains($0) }
    }

    /// I13: what is missing of the lines that verdicts must leave.
    /// - Parameters:
    ///   - sent: what this device sent under a key; a copy of it may have merged other neighbours (seed 362716).
    ///   - made: the ids of records that were made here.
    mutating func missingLines(
        _ db: Database, _ facts: DeviceFacts, sent: (String) -> Change?, made: Set<String>
    ) throws -> [String] {
        let waiting = Set(facts.queue.map(\.key))
        let settled = owed.keys.filter { !waiting.contains($0) }.sorted()
        guard !settled.isEmpty else { return [] }
        var found: [String] = []
        for key in settled {
            guard let verdict = owed.removeValue(forKey: key), let change = sent(key) else { continue }
            let fields = Set(
                try String.fetchAll(
                    db.cachedStatement(sql: "SELECT coalesce(field, '') FROM sync_conflict WHERE key = ?"),
                    arguments: [key]))
            let kinds = try String.fetchAll(
                db.cachedStatement(sql: "SELECT kind FROM sync_event WHERE key = ?"), arguments: [key])
            let events = Set(kinds)
            let revived = kinds.filter { $0 == "revived" }.count
            let isRevival = revivals.removeValue(forKey: key) != nil
            if revived > (change.operation == .update ? 1 : 0) || isRevival && revived == 0 {
                found.append("\(key): \(revived) events “revived” of the \(change.operation)")
            }
            if try !isToldOtherwise(db, key) {
                found += Self.lines(verdict, change).filter { !fields.contains($0) }
                    .map { "\(key): no line about “\($0)”" }
                found += Self.events(verdict, change, isCopied: copied.contains(key), made)
                    .filter { !events.contains($0) }.map { "\(key): no event “\($0)”" }
            }
            if clamped.remove(key) != nil, !events.contains("clamped") {
                found.append("\(key): no event “clamped”")
            }
        }
        return found
    }

    /// Whether a verdict named another record's id: done or not, the change counts as without one, and its event says why (seed 27810). Or the
    /// change had been refused, for a reason that went with a damaged page: then it is set aside again, and not told as `expired`
    /// (Decision 352; seed 2114 with `--damage`).
    private func isToldOtherwise(_ db: Database, _ key: String) throws -> Bool {
        let sql = """
            SELECT 1 FROM sync_event
            WHERE key = ? AND kind = 'setAside' AND detail ->> '$.code' IN ('serverIDTaken', 'reasonLost') LIMIT 1
            """
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [key]) != nil
    }

    /// The fields of the journal that the verdict asks for; an empty name is the whole record.
    private static func lines(_ verdict: Verdict, _ change: Change) -> [String] {
        switch verdict {
        case .applied(_, let overwrote, _): return overwrote.keys.sorted()
        case .merged(let record) where record.presence == .live:
            guard change.operation != .delete else { return [""] }
            return change.fields.keys.sorted().filter { name in
                guard let delta = change.fields[name], let theirs = record.fields[name] else {
                    return false
                }
                let isPlain = delta.rule == .lastWriter || delta.rule == .check
                return isPlain && !theirs.isSame(as: delta.new)
            }
        case .conflict(let record):
            return change.fields.keys.sorted().filter { name in
                guard let delta = change.fields[name], delta.rule == .check,
                    let theirs = record.fields[name]
                else {
                    return false
                }
                return !theirs.isSame(as: delta.old ?? .null) && !theirs.isSame(as: delta.new)
            }
        case .merged, .rejected, .blocked, .retry: return []
        }
    }

    private static func events(
        _ verdict: Verdict, _ change: Change, isCopied: Bool, _ made: Set<String>
    ) -> [String] {
        switch verdict {
        case .merged(let record) where record.presence != .live && change.operation != .delete: ["died"]
        // It waits for that record's own create, and says so in the queue.
        case .rejected(let rejection)
        where rejection.code == .missingReference && made.contains(rejection.reference ?? ""): []
        case .rejected(let rejection):
            [rejection.code.meansDecided(under: isCopied ? "" : nil) ? "expired" : "setAside"]
        default: []
        }
    }
}
