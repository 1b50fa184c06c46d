import SyncCore

/// A record at one moment: live or not, with its declared fields (a dead one keeps what is known of them).
struct RecordState: Hashable {
    var isLive: Bool
    var fields: [String: FieldValue]
    /// Of this device's own writes that the server took before earlier ones of theirs were decided: what is older does
    /// not show above them.
    var stamps: [String: Stamp] = [:]
    /// This device's own delete, where the server took that before earlier updates were decided: those bring nothing back (Decision 504).
    var death: Death?
    /// The record left this device, and nothing is known of it: only a create, or a page, makes a row of it (Decision 195).
    var isAway = false
    /// The newest version that a verdict told of what this device did, and that is not held since something that was sent before was
    /// undecided then; 0 for none (``RecordWork/holdTold()``).
    var told: Int64 = 0

    /// A delete that was done.
    struct Death: Hashable {
        var stamp: Stamp
        /// What the record came to by it; 0 where the server had nothing of it.
        var version: Int64
    }

    /// Stands among ``stamps`` for a write of any field, which brings the record back from older deletes.
    static let life = ""

    static let absent = RecordState(isLive: false, fields: [:])
    static let away = RecordState(isLive: false, fields: [:], isAway: true)

    /// What verdicts told of this device's own changes stays where the server's word comes over it; a version, until as new a one comes.
    mutating func keepTold(of before: RecordState?, above version: Int64) {
        guard let before else { return }
        (stamps, death) = (before.stamps, before.death)
        if before.told > version { told = before.told }
    }

    /// Of a live record, a field that nobody told of and that a create among `changes` names has no value.
    ///
    /// The server leaves out what has none: once the create is decided, nothing else would say so, and `old` of what stands
    /// behind it would be taken for the server's word, an edit's (seed 26201) as well as a delete's (seed 5238).
    mutating func fillNulls(of changes: some Sequence<StoredChange>) {
        guard isLive else { return }
        for change in changes where change.operation == .create { fillNulls(of: change) }
    }

    /// What nobody told of, and this create names, has no value before it.
    mutating func fillNulls(of create: StoredChange) {
        for name in create.fields.keys where fields[name] == nil { fields[name] = .null }
    }
}

/// What the device shows of a record: its base with the unsent changes on top (I6).
struct Replay {
    let deltas: any DeltaCalculation

    /// The state after `changes`, in the queue's order, over `base`.
    ///
    /// A record that is dead on the server lives here as long as an unsent update or create says so: PROTOCOL.md,
    /// *Records* ("not removed by a tombstone before they are decided").
    func state(of changes: some Sequence<StoredChange>, onto base: RecordState) -> RecordState {
        changes.reduce(into: base) { state, change in apply(change, to: &state) }
    }

    /// One more change on top.
    func apply(_ change: StoredChange, to state: inout RecordState) {
        switch change.operation {
        case .update where state.isAway, .delete where state.isAway: return
        case .update where !state.isLive && state.death?.stamp ?? change.stamp > change.stamp: return
        case .delete:
            if let later = state.stamps[RecordState.life], later > change.stamp { return }
            state.isLive = false
        case .create where !state.isLive:
            // A create is a write of all fields: PROTOCOL.md, *Last writer wins*.
            (state.isLive, state.isAway) = (true, false)
            state.fields = change.fields.mapValues(\.new)
        case .create, .update:
            state.isLive = true
            for (name, delta) in change.fields {  // any order
                // A create is plain writes, whatever the rules of its fields (Decision 80): of one that is uncertain, the
                // record that the page brought holds the sums and elements already.
                let isPlain = change.operation == .create || delta.rule == .lastWriter
                if isPlain, let later = state.stamps[name], later > delta.stamp ?? change.stamp { continue }
                let present = state.fields[name] ?? .null
                state.fields[name] = change.operation == .create ? delta.new : deltas.rebase(delta, onto: present)
            }
        }
    }
}
