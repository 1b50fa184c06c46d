import SyncCore

/// What leaves a device is what its app wrote: the same values under the same rules, none left out.
struct SentCheck {
    let schema: Schema

    /// Where the change as it is sent says something else than the write of its key, in words.
    /// - Parameter isCircular: whether the unit of the change would wait for itself, so that it may be divided (Decision 473).
    func differences(_ written: Ledger.Entry, _ sent: Change, isCircular: Bool = false) -> [String] {
        if (written.operation == .delete) != (sent.operation == .delete) {
            return ["\(sent.operation), not a delete"]
        }
        var found: [String] = []
        if !written.unit.isEmpty, !isCircular, sent.unit == nil { found.append("not as a member of its unit") }
        guard sent.operation != .delete else { return found }
        for name in written.values.keys.sorted() {
            guard let value = written.values[name], let field = schema[written.record.entity]?.field(name)
            else {
                continue
            }
            // Behind a delete that was taken back, a create is an update of what differs (seed 4424), and writes plainly (seed 7863).
            let isRevived = written.operation == .create && sent.operation == .update
            guard let delta = sent.fields[name] else {
                if !isRevived, !namesTheSame(written, name, field) { found.append("without \(name)") }
                continue
            }
            // A create's fields have no value before, so the rules mean the same to it.
            let rule = isRevived ? .lastWriter : field.rule
            if sent.operation == .update, delta.rule != rule { found.append("\(name) as \(delta.rule)") }
            switch rule {
            case .lastWriter, .check:
                if !delta.new.isSame(as: value) { found.append("\(name) is \(delta.new), not \(value)") }
            case .sum:
                // A value before may be gone since, with the write that made it: no value counts as 0 (seed 613).
                let (mine, theirs) = (difference(written.before[name], value), sum(delta))
                if sent.operation == .update, let mine, mine != theirs {
                    found.append("\(name) adds \(theirs ?? 0) (\(delta)), not \(mine)")
                }
            case .union: break
            }
        }
        return found
    }

    /// Whether an update wrote a record's other name over the one that stood there: no change, once it is known that both are one
    /// (seed 351219).
    private func namesTheSame(_ written: Ledger.Entry, _ name: String, _ field: FieldSchema) -> Bool {
        guard written.operation == .update, field.reference != nil, let value = written.values[name] else {
            return false
        }
        return written.before[name]?.isSame(as: value) ?? false
    }

    /// Where a change that took others in does not say what was written last of each field, in words.
    /// - Parameters:
    ///   - written: all that went into it, in the order of writing.
    ///   - isGivenUp: whether a record never came to the server, and will not, or was given up here: a create that was under it goes where
    ///     its record shows (seed 5096).
    func losses(
        _ written: [Ledger.Entry], _ sent: Change, isGivenUp: (RecordKey) -> Bool = { _ in false }
    ) -> [String] {
        // What is written before a delete goes with it.
        guard sent.operation != .delete, !written.contains(where: { $0.operation == .delete }) else { return [] }
        let isCreate = written.contains { $0.operation == .create }
        var last: [String: Ledger.Entry] = [:]
        for entry in written {
            for name in entry.values.keys {
                if let field = schema[entry.record.entity]?.field(name), namesTheSame(entry, name, field) { continue }
                last[name] = entry
            }
        }
        return last.sorted { $0.key < $1.key }.compactMap { name, entry -> String? in
            guard let value = entry.values[name], let field = schema[entry.record.entity]?.field(name) else {
                return nil
            }
            guard let delta = sent.fields[name] else {
                // Behind a delete that was taken back, a create is an update of what differs (seed 4424).
                return isCreate && sent.operation == .update ? nil : "without \(name), which \(entry.key) wrote"
            }
            if isCreate, let parent = field.reference, parent.isParent, case .string(let id) = value,
                isGivenUp(RecordKey(parent.entity, id))
            {
                return nil
            }
            let isOther =
                switch (sent.operation, field.rule) {
                case (.update, .sum): difference(entry.before[name], value).map { $0 != sum(delta) } ?? false
                case (.update, .union): false
                default: !delta.new.isSame(as: value)
                }
            return isOther ? "\(name) is \(delta), and \(entry.key) wrote \(value)" : nil
        }
    }

    /// I3: what the app wrote, and nobody set aside, stands in a request in the order of writing, as far as one needs the
    /// other.
    func disorder(_ changes: [Change], _ ledger: Ledger) -> [String] {
        let written = changes.filter {
            ledger.entries[$0.id]?.isOriginal == true && !ledger.wasAside.contains($0.id)
        }
        var found: [String] = []
        var last: [RecordKey: Int64] = [:]
        /// With the sequence of the last change that refers to it.
        var needed: [RecordKey: Int64] = [:]
        for change in written {
            let earlier = last[change.record]
            if let earlier, earlier > change.sequence {
                found.append("\(change.id) of \(change.record) is sent behind a later one")
            }
            last[change.record] = change.sequence
            // What was written before the create referred to an earlier life of its record (seeds 6491, 11730).
            if change.operation == .create, earlier == nil, let referring = needed[change.record],
                referring > change.sequence
            {
                found.append("\(change.record) is sent behind what refers to it")
            }
            for field in schema[change.record.entity]?.parents ?? [] where change.operation == .create {
                if let target = field.reference?.entity, case .string(let id)? = change.fields[field.name]?.new {
                    needed[RecordKey(target, id)] = change.sequence
                }
            }
        }
        return found
    }

    /// I3: what names a parent that was made here before it goes behind the parent's create: in the same request, or
    /// when that is done.
    /// - Parameters:
    ///   - isThere: whether a create of a record was ever done by the server.
    ///   - wasSent: whether a key was sent before.
    func premature(
        _ changes: [Change], _ ledger: Ledger, refused: Set<String>, isThere: (RecordKey) -> Bool,
        wasSent: (String) -> Bool
    ) -> [String] {
        var made: Set<RecordKey> = []
        var found: [String] = []
        for change in changes {
            if change.operation == .create { made.insert(change.record) }
            guard change.operation != .delete, !wasSent(change.id), ledger.entries[change.id]?.isOriginal == true,
                !ledger.wasAside.contains(change.id)
            else { continue }
            for field in schema[change.record.entity]?.parents ?? [] {
                guard let target = field.reference?.entity, case .string(let id)? = change.fields[field.name]?.new
                else { continue }
                let parent = RecordKey(target, id)
                guard parent != change.record, !made.contains(parent), !isThere(parent),
                    let first = ledger.byRecord[parent]?.first, let create = ledger.entries[first],
                    create.isOriginal, create.operation == .create, create.sequence < change.sequence,
                    ledger.fates[ledger.heir(of: first)] == nil, !ledger.wasAside.contains(first),
                    !refused.contains(first)
                else { continue }
                found.append("\(change.id) of \(change.record) is sent before the create of \(parent) is done")
            }
        }
        return found
    }

    /// What a delta adds.
    private func sum(_ delta: FieldDelta) -> Double? { difference(orZero(delta.old ?? .null), delta.new) }

    private func difference(_ old: FieldValue?, _ new: FieldValue) -> Double? {
        guard let old = old.flatMap(number), let new = number(new) else { return nil }
        return new - old
    }

    private func orZero(_ value: FieldValue) -> FieldValue { value.isNull ? .int(0) : value }

    private func number(_ value: FieldValue) -> Double? {
        switch value {
        case .int(let number): Double(number)
        case .double(let number): number
        default: nil
        }
    }
}
