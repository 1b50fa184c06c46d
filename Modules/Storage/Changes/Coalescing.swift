import SyncCore

/// Two neighbours of one record in the queue, neither ever sent, as one (issue: *Coalescing of what was never sent*).
///
/// The table. The server's state after the one is the state after the two, whatever other devices write meanwhile:
///
/// | first | second | becomes |
/// | --- | --- | --- |
/// | create | update | create, with the create's stamp; each updated field with the update's own. A create that is older than a delete counts as an update, so its stamp decides and must stay |
/// | update | update | update, `old` of the first, `new` of the second, each field with its own stamp. A field that came back to `old` is still a write, and stays |
/// | update | delete | delete, with the delete's stamp. One exception to the sentence above: where another device's newer update brings the record back, it comes without what was written just before it was deleted. That stays with the delete, is never sent, and is told where the delete lost |
/// | create | delete | nothing, where the server never knew the record; else, and in a restored copy, the delete, since it beats what others wrote |
/// | delete | delete | the second |
/// | delete | create | both: the create writes all fields anew, unknown ones too, which no update can say |
/// | create, update | create | both: never captured so |
/// | delete | update | both: never captured so |
///
/// Two writes of one field under `sum` or `union` stay two: the server orders each sum and each element by its own
/// stamp, and one stamp for both would win, or lose, against another device's write between them. What belongs to
/// different units, intents, devices or schema versions stays apart, and what was sent is never touched.
///
/// What stays is the later change, with its key and sequence; the earlier one's sequence counts as taken back unsent.
struct Coalescing {
    let deltas: any DeltaCalculation

    enum Result: Hashable {
        /// One change in place of both.
        case one(StoredChange)
        /// Nothing is left to send.
        case nothing
        /// They stay two.
        case both
    }

    /// - Parameter isKnown: whether the server may know the record; asked for a create and a delete only.
    func combine(_ first: StoredChange, _ second: StoredChange, isKnown: () throws -> Bool) rethrows -> Result {
        guard first.record == second.record, first.state == .pending, second.state == .pending,
            first.unit == second.unit, first.intent == second.intent, first.device == second.device,
            first.schema == second.schema, first.conflicts == 0, second.conflicts == 0
        else { return .both }
        switch (first.operation, second.operation) {
        case (.create, .update): return merge(first, second, stamp: first.stamp)
        case (.update, .update): return merge(first, second, stamp: second.stamp)
        case (.update, .delete), (.delete, .delete): return .one(delete(first, second))
        case (.create, .delete): return try isKnown() ? .one(second) : .nothing
        case (.delete, .create), (.delete, .update), (.create, .create), (.update, .create): return .both
        }
    }

    private func merge(_ first: StoredChange, _ second: StoredChange, stamp: Stamp) -> Result {
        for (name, delta) in second.fields {  // any order
            guard let earlier = first.fields[name] else { continue }
            for rule in [earlier.rule, delta.rule] where rule == .sum || rule == .union { return .both }
        }
        var one = second
        one.operation = first.operation
        one.stamp = stamp
        one.madeAt = first.madeAt
        one.fields = first.fields.mapValues { stamped($0, by: first, under: stamp) }
        for (name, delta) in second.fields {  // any order
            var last = delta
            if let earlier = first.fields[name] { last = deltas.compose(earlier, delta) }
            if first.operation == .create {
                // A create has no value before, and its rule is the declared one.
                last.old = nil
                last.rule = first.fields[name]?.rule ?? delta.rule
            }
            last.stamp = delta.stamp
            one.fields[name] = stamped(last, by: second, under: stamp)
        }
        return .one(one)
    }

    /// The delta with its own stamp where that is not the change's.
    private func stamped(_ delta: FieldDelta, by change: StoredChange, under stamp: Stamp) -> FieldDelta {
        var delta = delta
        let own = delta.stamp ?? change.stamp
        delta.stamp = own == stamp ? nil : own
        return delta
    }

    /// The delete, with the values before both, and with those that the edit gave.
    private func delete(_ first: StoredChange, _ second: StoredChange) -> StoredChange {
        var one = second
        one.madeAt = first.madeAt
        for (name, delta) in first.fields where first.operation == .update || first.operation == .delete {  // any order
            let later = second.fields[name]?.new ?? .null
            one.fields[name] = FieldDelta(old: delta.old, new: later.isNull ? delta.new : later)
        }
        return one
    }
}
