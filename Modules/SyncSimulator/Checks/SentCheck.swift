import SyncCore

/// What leaves a device is what its app wrote: the same values under the same rules, none left out.
struct SentCheck {
    let schema: Schema

    /// Where the change as it is sent says something else than the write of its key, in words.
    func differences(_ written: Ledger.Entry, _ sent: Change) -> [String] {
        if (written.operation == .delete) != (sent.operation == .delete) {
            return ["\(sent.operation), not a delete"]
        }
        var found: [String] = []
        if written.isUnit, sent.unit == nil { found.append("not as a member of its unit") }
        guard sent.operation != .delete else { return found }
        for name in written.values.keys.sorted() {
            guard let value = written.values[name], let field = schema[written.record.entity]?.field(name)
            else {
                continue
            }
            // Behind a delete that was taken back, a create is an update of what differs (seed 4424), and writes plainly (seed 7863).
            let isRevived = written.operation == .create && sent.operation == .update
            guard let delta = sent.fields[name] else {
                if !isRevived { found.append("without \(name)") }
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
                let (mine, theirs) = (
                    difference(written.before[name], value), difference(orZero(delta.old ?? .null), delta.new)
                )
                if sent.operation == .update, let mine, mine != theirs {
                    found.append("\(name) adds \(theirs ?? 0) (\(delta)), not \(mine)")
                }
            case .union: break
            }
        }
        return found
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
