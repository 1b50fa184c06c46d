import SyncCore

extension LogBook {
    /// Marks what goes next as being sent, and gives it: in the queue's order, no unit divided, nothing past a limit
    /// but a first change or unit that passes it alone.
    mutating func claim(_ limits: ClaimLimits) -> [QueuedChange] {
        var claimed: [Int] = []
        var bytes = 0
        var place = range.lowerBound
        while place < range.upperBound {
            guard let entry = self[place], !entry.isFailed, entry.blockedBy == nil else {
                place += 1
                continue
            }
            if limits.merges { merge(from: place) }
            guard self[place] != nil else { continue }
            let group = group(at: place)
            let size = group.reduce(0) { $0 + (self[$1]?.change.approximateBytes ?? 0) }
            let isTooMuch = claimed.count + group.count > limits.maxChanges || bytes + size > limits.maxBytes
            if isTooMuch, !claimed.isEmpty { break }
            claimed += group
            bytes += size
            place = (group.last ?? place) + 1
            if isTooMuch { break }
        }
        return claimed.compactMap { mark($0) }
    }

    /// The places of a change's unit, or of it alone. A unit is written in one transaction, so its members are neighbours.
    private func group(at place: Int) -> [Int] {
        guard let unit = self[place]?.change.unit else { return [place] }
        var group = [place]
        var next = place + 1
        while next < range.upperBound {
            if let entry = self[next] {
                guard entry.change.unit == unit else { break }
                if !entry.isFailed { group.append(next) }
            }
            next += 1
        }
        return group
    }

    private mutating func mark(_ place: Int) -> QueuedChange? {
        guard var entry = self[place] else { return nil }
        let wasSent = entry.wasSent
        if !wasSent {
            entry.wasSent = true
            // Said at the first sending, and kept from then on.
            if entry.change.operation != .create { entry.change.baseVersion = bases[entry.change.record]?.version }
        }
        entry.standing = .claimed
        self[place] = entry
        var queued = entry.queued
        queued.wasSent = wasSent
        return queued
    }

    /// Merges what stands at this place with its neighbours of the same record, as long as none of them was ever sent.
    ///
    /// create + update = create; update + update = update; update + delete = delete; create + delete = nothing; a
    /// delete and a create after it stay two.
    private mutating func merge(from place: Int) {
        var next = place + 1
        while next < range.upperBound, let first = self[place] {
            guard let second = self[next] else {
                next += 1
                continue
            }
            guard first.isMergeable(with: second) else { return }
            self[next] = nil
            if first.change.operation == .create, second.change.operation == .delete {
                self[place] = nil
                if hasBlocked { needsBlocking() }
                return
            }
            // The later one's key and sequence stand for both, at the earlier one's place.
            self[place] = merged(first, second)
            next += 1
        }
    }

    private func merged(_ first: LogEntry, _ second: LogEntry) -> LogEntry {
        var result = second
        result.madeAt = first.madeAt
        result.needs.formUnion(first.needs)
        result.isSuccessor = first.isSuccessor || second.isSuccessor
        guard second.change.operation != .delete else {
            result.change.fields = [:]
            return result
        }
        result.change.operation = first.change.operation
        var fields = second.change.fields
        for (name, delta) in first.change.fields {  // any order
            var earlier = delta
            earlier.stamp = delta.stamp ?? first.change.stamp
            if var later = fields[name] {
                later.stamp = later.stamp ?? second.change.stamp
                var one = deltas.compose(earlier, later)
                if one.stamp == second.change.stamp { one.stamp = nil }
                fields[name] = one
            } else {
                fields[name] = earlier
            }
        }
        result.change.fields = fields
        return result
    }
}

extension LogEntry {
    /// Whether the two may become one: neighbours of one record, never sent, in no unit, of one intent and schema version.
    fileprivate func isMergeable(with next: LogEntry) -> Bool {
        guard change.record == next.change.record, state == .pending, next.state == .pending else { return false }
        guard change.unit == nil, next.change.unit == nil, change.intent == next.change.intent else { return false }
        guard change.schemaVersion == next.change.schemaVersion, missing == nil, next.missing == nil else {
            return false
        }
        switch (change.operation, next.change.operation) {
        case (.create, .update), (.update, .update), (.update, .delete), (.create, .delete): return true
        case (_, .create), (.delete, _): return false
        }
    }
}

extension Change {
    /// About as many bytes as its fields take on the wire.
    var approximateBytes: Int {
        fields.reduce(200) { $0 + $1.key.utf8.count + $1.value.new.approximateBytes + 16 }
            + fields.reduce(0) { $0 + ($1.value.old?.approximateBytes ?? 0) }
    }
}

extension FieldValue {
    fileprivate var approximateBytes: Int {
        switch self {
        case .null, .bool: 5
        case .int, .double: 12
        case .string(let text): text.utf8.count + 2
        case .data(let bytes): bytes.count * 4 / 3 + 12
        case .array(let elements): elements.reduce(2) { $0 + $1.approximateBytes + 1 }
        case .object(let members): members.reduce(2) { $0 + $1.key.utf8.count + $1.value.approximateBytes + 4 }
        }
    }
}
