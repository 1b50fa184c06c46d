import SyncCore

/// How one change is decided, on a state; the rules of PROTOCOL.md, *Results* and *Last writer wins*.
struct ModelDecision {
    let schema: Schema
    let now: Int64

    /// The change with stamps that are too far ahead counted as now; and whether any was.
    func clamped(_ change: Change) -> (Change, Bool) {
        let limit = UInt64(max(0, now + 60_000))
        let present = Stamp(milliseconds: UInt64(max(0, now)), counter: 0)
        var (result, isClamped) = (change, false)
        if result.stamp.milliseconds > limit {
            result.stamp = present
            isClamped = true
        }
        for name in change.fields.keys {
            if let stamp = change.fields[name]?.stamp, stamp.milliseconds > limit {
                result.fields[name]?.stamp = present
                isClamped = true
            }
        }
        return (result, isClamped)
    }

    /// Decides a change and does it; `conflict` leaves the state as it was.
    func decide(_ change: Change, device: String, in state: inout ModelState) -> Verdict {
        guard let entity = schema[change.record.entity] else {
            return .rejected(Rejection(code: .unknownEntity, message: "no entity \(change.record.entity)"))
        }
        guard RecordKey.isValidID(change.record.id), change.operation == .delete || isWellFormed(change) else {
            return .rejected(Rejection(code: .invalid, message: "not a change of this contract"))
        }
        switch change.operation {
        case .delete: return delete(change, device: device, in: &state)
        case .update:
            guard let record = state.records[change.record], record.exists else {
                return .rejected(Rejection(code: .notFound, message: "no \(change.record)"))
            }
            if let field = sharedReference(in: change, entity: entity) {
                let message = "a reference is written as a whole"
                return .rejected(Rejection(code: .invalid, message: message, field: field))
            }
            if let missing = missingParent(of: change, entity: entity, in: state) { return .rejected(missing) }
            return write(change, device: device, to: record, in: &state)
        case .create:
            return create(change, entity: entity, device: device, in: &state)
        }
    }

    private func isWellFormed(_ change: Change) -> Bool {
        change.operation == .update ? !change.fields.isEmpty : true
    }

    /// A reference to a parent that is to be added to, or put into; it is one id, or none.
    private func sharedReference(in change: Change, entity: EntitySchema) -> String? {
        entity.parents.map(\.name).first { name in
            switch change.fields[name]?.rule {
            case .sum, .union: true
            case .lastWriter, .check, nil: false
            }
        }
    }

    private func missingParent(of change: Change, entity: EntitySchema, in state: ModelState) -> Rejection? {
        for field in entity.parents {
            guard case .string(let id)? = change.fields[field.name]?.new, let target = field.reference?.entity,
                state.records[RecordKey(target, id)]?.exists != true
            else { continue }
            return Rejection(
                code: .missingReference, message: "no \(target) \(id)", field: field.name, reference: id)
        }
        return nil
    }

    private func order(_ change: Change, _ stamp: Stamp?, device: String) -> WriteOrder {
        WriteOrder(stamp: stamp ?? change.stamp, device: device, sequence: change.sequence)
    }

    private func delete(_ change: Change, device: String, in state: inout ModelState) -> Verdict {
        var record = state.records[change.record] ?? ModelRecord(key: change.record)
        let wasThere = state.isLive(change.record, schema: schema)
        record.deletes.append(order(change, nil, device: device))
        state.records[change.record] = record
        // Nobody saw it, and nobody is told; a create that was made before the delete, and comes after it, finds it.
        guard record.exists else { return .applied(version: nil, overwrote: [:], serverID: nil) }
        state.publish(change.record, schema: schema)
        // What readers do not see is not there, even if it is dead through its parent only.
        guard wasThere else { return .applied(version: nil, overwrote: [:], serverID: nil) }
        guard record.isDeadItself, let seen = state.seen(change.record) else {
            // A newer write of somebody else keeps it alive.
            return state.seen(change.record).map { .merged(record: $0) }
                ?? .applied(version: nil, overwrote: [:], serverID: nil)
        }
        return .applied(version: seen.version, overwrote: [:], serverID: nil)
    }

    private func create(
        _ change: Change, entity: EntitySchema, device: String, in state: inout ModelState
    ) -> Verdict {
        if let missing = missingParent(of: change, entity: entity, in: state) { return .rejected(missing) }
        guard var record = state.records[change.record] else {
            return write(change, device: device, to: ModelRecord(key: change.record), in: &state)
        }
        guard record.isDeadItself else {
            let present = record.fields
            let names = Set(present.keys).union(change.fields.keys)
            let isSame = names.allSatisfy { name in
                (present[name] ?? .null).isSame(as: change.fields[name]?.new ?? .null)
            }
            guard isSame else {
                return .rejected(Rejection(code: .idTaken, message: "\(change.record) is there already"))
            }
            record.remember(
                order(change, nil, device: device),
                Dictionary(
                    uniqueKeysWithValues: change.fields.map { name, delta in
                        let plain = FieldDelta(old: nil, new: delta.new)
                        return (name, .init(order: order(change, delta.stamp, device: device), delta: plain))
                    }))
            state.records[change.record] = record
            // Dead through its parent it counts as live here, and shows nowhere.
            if let seen = state.seen(change.record), seen.presence != .live { return .merged(record: seen) }
            return .applied(version: record.version, overwrote: [:], serverID: nil)
        }
        return write(change, device: device, to: record, in: &state)
    }

    private func write(
        _ change: Change, device: String, to record: ModelRecord, in state: inout ModelState
    ) -> Verdict {
        let before = record.fields
        for name in change.fields.keys.sorted() where change.operation == .update {
            guard let delta = change.fields[name] else { continue }
            let present = before[name] ?? .null
            switch delta.rule {
            case .lastWriter, .union: continue
            case .sum:
                let place = order(change, delta.stamp, device: device)
                guard let refusal = refusal(of: delta, at: place, to: name, in: record) else { continue }
                return .rejected(Rejection(code: .invalid, message: refusal, field: name))
            case .check:
                if !present.isSame(as: delta.old ?? .null), !present.isSame(as: delta.new),
                    let seen = state.seen(change.record)
                {
                    return .conflict(record: seen)
                }
            }
        }
        var next = record
        if change.operation == .create {
            next.creates.append(.init(order: order(change, nil, device: device), names: Set(change.fields.keys)))
        }
        var mine: [String: ModelRecord.FieldWrite] = [:]
        for name in change.fields.keys {
            guard var delta = change.fields[name] else { continue }
            // A create is a write of all its fields: there is nothing before it that a rule could go from.
            if change.operation == .create { delta.rule = .lastWriter }
            // Of a union each element is a write of its own; without any there is none (Decision 176).
            if delta.rule == .union, UnionEffect(delta).isNothing { continue }
            var place = order(change, delta.stamp, device: device)
            if delta.rule == .check, let top = next.ordered(name).last?.order, top > place {
                // It stands whatever its stamp: in the place of what it was checked against, and after it. No higher, for what
                // is above that, a delete, is still above it (seed 17028).
                place = top
            }
            let write = ModelRecord.FieldWrite(order: place, delta: delta)
            next.writes[name, default: []].append(write)
            mine[name] = write
        }
        state.records[change.record] = next
        state.publish(change.record, schema: schema)
        return verdict(change, before: before, mine: mine, in: state)
    }

    /// Why a sum cannot be added: the value is no number, or it would go further beyond 64 bits.
    private func refusal(
        of delta: FieldDelta, at place: WriteOrder, to name: String, in record: ModelRecord
    ) -> String? {
        switch record.value(of: name) {
        case .null, .int, .double: break
        default: return "the field holds no number"
        }
        let write = ModelRecord.FieldWrite(order: place, delta: delta)
        var next = record
        next.writes[name, default: []].append(write)
        guard !next.isOverruled(write, of: name), let now = record.total(of: name), let then = next.total(of: name)
        else { return nil }
        let isBeyond = then > now ? then > Int128(Int64.max) : then < now && then < Int128(Int64.min)
        return isBeyond ? "the sum is beyond 64 bits" : nil
    }

    private func verdict(
        _ change: Change, before: [String: FieldValue], mine: [String: ModelRecord.FieldWrite], in state: ModelState
    ) -> Verdict {
        guard let record = state.records[change.record], let seen = state.seen(change.record) else {
            return .retry(afterSeconds: nil)
        }
        let lost = mine.contains { name, write in
            // Sums and elements above a plain write make another value of it (seed 26874).
            record.isOverruled(write, of: name)
                || write.delta.rule == .lastWriter && !record.value(of: name).isSame(as: write.delta.new)
        }
        guard !lost, seen.presence == .live else { return .merged(record: seen) }
        var overwrote: [String: FieldValue] = [:]
        for (name, write) in mine where change.operation == .update {  // any order
            let present = before[name] ?? .null
            switch (write.delta.rule, present) {
            case (.sum, _), (.check, _), (.union, .null), (.union, .array): continue
            case (.lastWriter, _), (.union, _): break
            }
            if !present.isSame(as: write.delta.old ?? .null), !present.isSame(as: write.delta.new) {
                overwrote[name] = present
            }
        }
        return .applied(version: seen.version, overwrote: overwrote, serverID: nil)
    }
}
