import SyncCore

extension LogBook {
    /// What would go with a change: what needs the create that it is, the members of its unit, and what needs those.
    func dependants(of id: String) throws(StoreFailure) -> [String] {
        try places(with: id).dropFirst().compactMap { self[$0]?.change.id }
    }

    /// Puts a failed change back: itself where it is uncertain, else a successor.
    mutating func retry(_ id: String, ids: any IDSource) throws(StoreFailure) -> String {
        let key = try putBack(id, ids: ids)
        needsBlocking()
        block()
        return key
    }

    /// The same for several, one after another; what waits for them is worked out once.
    mutating func retry(_ keys: [String], ids: any IDSource) throws(StoreFailure) -> [RetryOutcome] {
        var outcomes: [RetryOutcome] = []
        for key in keys {
            do throws(StoreFailure) {
                outcomes.append(.retried(try putBack(key, ids: ids)))
            } catch {
                outcomes.append(try RetryOutcome(error))
            }
        }
        needsBlocking()
        block()
        return outcomes
    }

    private mutating func putBack(_ id: String, ids: any IDSource) throws(StoreFailure) -> String {
        let place = try known(id)
        guard var entry = self[place], case .failed(_, _, let staysUncertain) = entry.standing else {
            throw StoreFailure(kind: .invalid, message: "The change \(id) is not set aside, so it cannot be retried.")
        }
        if staysUncertain {
            entry.standing = .queued
            entry.attempts = 0
        } else {
            entry = successor(of: entry, key: ids.makeID(), sequence: nextSequence())
            entry.conflicts = 0
        }
        self[place] = entry
        return entry.change.id
    }

    /// Gives a failed change up, with what needs it.
    mutating func discard(_ id: String) throws(StoreFailure) -> [String] {
        let place = try known(id)
        guard self[place]?.isFailed == true else {
            throw StoreFailure(kind: .invalid, message: "The change \(id) is not set aside; cancel it instead.")
        }
        return remove(try places(with: id))
    }

    /// Takes a change back, or makes its inverse.
    mutating func cancel(
        _ id: String, stamp: Stamp, now: Int64, ids: any IDSource
    ) throws(StoreFailure) -> CancelOutcome {
        let place = try known(id)
        guard let entry = self[place] else { return .tooLate }
        switch entry.standing {
        case .failed:
            throw StoreFailure(kind: .invalid, message: "The change \(id) is set aside; discard it instead.")
        case .claimed:
            return .tooLate
        case .queued:
            break
        }
        if entry.wasSent {
            let inverse = inverse(of: entry, key: ids.makeID(), stamp: stamp)
            append(inverse, madeAt: now)
            block()
            return .inverse(inverse.id)
        }
        let all = try places(with: id)
        // What was sent and has no verdict is never silently cancelled, nor orphaned.
        guard all.allSatisfy({ self[$0]?.wasSent == false }) else { return .tooLate }
        return .cancelled(remove(all))
    }

    private mutating func inverse(of entry: LogEntry, key: String, stamp: Stamp) -> Change {
        let change = entry.change
        var inverse = Change(
            id: key, sequence: nextSequence(), record: change.record, operation: .update,
            schemaVersion: change.schemaVersion, stamp: stamp, intent: change.intent)
        switch change.operation {
        case .create:
            inverse.operation = .delete
        case .update:
            inverse.fields = change.fields.mapValues { delta in
                FieldDelta(old: delta.new, new: delta.old ?? .null, rule: delta.rule)
            }
        case .delete:
            inverse.operation = .create
            inverse.fields = (bases[change.record]?.fields ?? [:]).mapValues { FieldDelta(old: nil, new: $0) }
        }
        return inverse
    }

    private mutating func remove(_ places: [Int]) -> [String] {
        let keys = places.compactMap { self[$0]?.change.id }
        for place in places { self[place] = nil }
        needsBlocking()
        block()
        return keys
    }

    private func known(_ id: String) throws(StoreFailure) -> Int {
        guard let place = place(of: id) else {
            throw StoreFailure(kind: .notFound, message: "There is no change \(id) in the queue.")
        }
        return place
    }

    /// The change itself, then what goes with it, in the queue's order.
    private func places(with id: String) throws(StoreFailure) -> [Int] {
        let first = try known(id)
        var taken: Set = [first]
        // Only what comes after a create needs it.
        var creates: [RecordKey: Int] = [:]
        var units: Set<String> = []
        func take(_ entry: LogEntry, _ place: Int) {
            if entry.change.operation == .create { creates[entry.change.record] = place }
            if let unit = entry.change.unit { units.insert(unit) }
        }
        if let entry = self[first] { take(entry, first) }
        var isComplete = false
        while !isComplete {
            isComplete = true
            for place in range where !taken.contains(place) {
                guard let entry = self[place] else { continue }
                let isMember = entry.change.unit.map(units.contains) ?? false
                // What merely refers to a record goes on without it.
                let isNeedy =
                    needs(of: entry.change, parentsOnly: true).contains { (creates[$0] ?? place) < place }
                    || entry.missing.map { creates[$0] != nil } ?? false
                guard isMember || isNeedy else { continue }
                taken.insert(place)
                take(entry, place)
                isComplete = false
            }
        }
        return [first] + taken.subtracting([first]).sorted()
    }
}
