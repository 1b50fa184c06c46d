import SyncCore

extension LogBook {
    /// One outcome; about what is no longer there, or was already set aside, it says nothing (a late answer).
    mutating func settle(_ outcome: Settlement.Outcome, now: Int64, ids: any IDSource) {
        guard let place = place(of: outcome.changeID), var entry = self[place], !entry.isFailed else { return }
        let change = entry.change
        if outcome.isClamped { note(change.id, .clamped) }
        switch outcome.kind {
        case .applied(let version, let overwrote, _):
            if !overwrote.isEmpty { note(change.id, .overwrote, values: overwrote) }
            moveBase(change, version: version)
            leave(place)
        case .merged(let record):
            note(change.id, .merged, record: record, values: change.fields.mapValues(\.new))
            take(record)
            leave(place)
        case .conflict(let record, let successor):
            note(change.id, .conflicted, record: record, values: change.fields.mapValues(\.new))
            take(record)
            guard let successor else {
                leave(place)
                return
            }
            var next = succeeded(entry, ids: ids)
            next.change.fields = successor
            next.conflicts = entry.conflicts + 1
            self[place] = next
        case .setAside(let reason, _)
        where Rejection.Code(rawValue: reason.code).meansDecided(under: entry.change.deviceID):
            leave(place)
        case .setAside(let reason, let staysUncertain):
            if let missing = missing(entry, reason) {
                entry = succeeded(entry, ids: ids)
                entry.missing = missing
            } else {
                entry.standing = .failed(reason, at: now, staysUncertain: staysUncertain)
                entry.blockedBy = nil
            }
            self[place] = entry
            needsBlocking()
        case .unanswered(let attempts):
            entry.standing = .queued
            entry.attempts = attempts
            self[place] = entry
        }
    }

    /// What is claimed is with nobody any more: the sender has died.
    mutating func crash() {
        for place in range {
            guard var entry = self[place], case .claimed = entry.standing else { continue }
            entry.standing = .queued
            self[place] = entry
        }
    }

    /// A new change in the old one's place: new key and sequence, the same stamps, sent by nobody yet.
    func successor(of entry: LogEntry, key: String, sequence: Int64) -> LogEntry {
        var next = entry
        next.change.id = key
        next.change.sequence = sequence
        next.change.baseVersion = nil
        next.change.deviceID = nil
        next.standing = .queued
        next.wasSent = false
        next.attempts = 0
        next.blockedBy = nil
        next.isSuccessor = true
        return next
    }

    private mutating func succeeded(_ entry: LogEntry, ids: any IDSource) -> LogEntry {
        successor(of: entry, key: ids.makeID(), sequence: nextSequence())
    }

    /// Takes a change out: what it kept waiting for its record is free.
    mutating func leave(_ place: Int) {
        if hasBlocked, self[place]?.change.operation == .create { needsBlocking() }
        self[place] = nil
    }

    /// The record that the server misses, if its create is in the queue: then the change is blocked by it, not failed.
    private func missing(_ entry: LogEntry, _ reason: SetAsideReason) -> RecordKey? {
        guard reason.code == Rejection.Code.missingReference.rawValue, let id = reason.reference else { return nil }
        for place in range {
            guard let other = self[place], other.change.operation == .create, other.change.record.id == id else {
                continue
            }
            if other.change.record != entry.change.record { return other.change.record }
        }
        return nil
    }

    private mutating func moveBase(_ change: Change, version: Int64?) {
        guard change.operation != .delete else {
            bases[change.record] = nil
            return
        }
        var base = bases[change.record] ?? ServerRecord(key: change.record, version: 0)
        base.fields.merge(change.fields.mapValues(\.new)) { $1 }
        base.version = max(base.version, version ?? base.version)
        bases[change.record] = base
    }

    private mutating func take(_ record: ServerRecord) {
        guard record.version >= bases[record.key]?.version ?? .min else { return }
        bases[record.key] = record.presence == .live ? record : nil
    }

    private mutating func note(
        _ id: String, _ kind: InMemoryChangeLog.JournalEntry.Kind, record: ServerRecord? = nil,
        values: [String: FieldValue] = [:]
    ) {
        journal.append(InMemoryChangeLog.JournalEntry(changeID: id, kind: kind, record: record, values: values))
    }
}
