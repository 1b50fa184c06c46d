import GRDB
import SyncCore

/// One record while verdicts, pages or repairs are worked into it: what the server says, what waits, what the row shows.
///
/// 1. ``load(_:_:_:_:)`` reads all three and works the base out, before anything is taken away.
/// 2. Changes leave, the server's word comes in, by the methods here; all in memory.
/// 3. ``writeLog(_:)`` and ``writeRow(_:)`` put base and row back; the row is base with the remaining changes on top, exactly.
struct RecordWork {
    let record: RecordKey
    let entity: EntitySchema
    let replay: Replay
    /// The server's word as it is kept; `nil` where it never said anything.
    private(set) var stored: StoredRecord?
    /// The last known server state, complete.
    private(set) var base: RecordState
    /// What the row shows on top of the base, in the queue's order.
    private(set) var changes: [StoredChange]
    /// The server's word as it was.
    let before: StoredRecord?
    /// Whether the base was live before anything came in.
    private var wasLive: Bool
    /// The row as it was.
    private(set) var row: [String: FieldValue]?
    /// Positions of changes that were set aside without a verdict: they may have happened, and go again as they are.
    private let unsure: Set<Int64>
    /// Positions of changes that were refused here, and are shown on.
    private var refused: Set<Int64> = []
    /// Positions of changes whose deltas were rewritten here.
    private(set) var rewritten: Set<Int64> = []
    /// The row shows what was made here, under the id of a record that the server has.
    private(set) var isTaken = false
    /// Whether the base is what the server said of the record as a whole, taken here.
    private var hasTaken = false
    /// Whether nothing was known of the record but what waited, and that was taken: no mark of a full pass stands with it yet.
    private(set) var isFirstHeld = false
    /// Changes that came to nothing when another was taken out: the caller takes them out of the queue.
    private(set) var emptied: [StoredChange] = []

    /// - Returns: `nil` for an entity that is not declared (any more): it has no row.
    static func load(
        _ db: Database, _ record: RecordKey, _ schema: Schema, _ deltas: any DeltaCalculation
    ) throws -> RecordWork? {
        guard let entity = schema[record.entity] else { return nil }
        let stored = try StoredRecord.read(db, record)
        let changes = try Base.remaining(db, of: record, schema)
        let row = try RowWriter(entity).read(db, record.id)
        var base = Base.state(stored: stored, changes: changes, row: row, entity: entity)
        // A row that nothing makes any more, and that only what is unsent under it keeps: there is nothing of it.
        if stored == nil, changes.isEmpty, row != nil, try HeldRecords.find(db, record)?.presence == .deleted {
            base = .absent
        }
        var unsure: Set<Int64> = []
        for change in changes where change.state == .failed {
            if try Failures.find(db, key: change.key)?.doubt.isUncertain == true { unsure.insert(change.position) }
        }
        var work = RecordWork(
            record: record, entity: entity, replay: Replay(deltas: deltas), stored: stored, base: base,
            changes: changes, before: stored, wasLive: base.isLive, row: row, unsure: unsure)
        // No row says what is in step where it went with the one above it: the record waits for that one, as it was. Nor does a row that
        // was made here meanwhile, under the same id.
        let isHidden = row == nil && changes.isEmpty && stored != nil || changes.first?.operation == .create
        if isHidden, stored?.base == nil, let held = try HeldRecords.find(db, record), held.presence == .live,
            held.version > 0, work.take(held)
        {
            work.wasLive = true
            work.isFirstHeld = stored == nil
        }
        work.isTaken = row != nil && work.base.isLive && changes.first?.operation == .create
        return work
    }

    /// Whether the change says for ever what it says: its key stands for that.
    private func isFixed(_ change: StoredChange) -> Bool { change.wasSent || unsure.contains(change.position) }

    /// Whether the change is an edit or a delete that was refused, and is shown on.
    func isRefused(_ change: StoredChange) -> Bool {
        change.operation != .create && change.state == .failed && !unsure.contains(change.position)
    }

    /// The version held; 0 where the server has acknowledged nothing.
    var version: Int64 { stored?.version ?? 0 }

    /// Whether the record is dead by the server's word, and nothing of it waits. That it has no row says nothing: it may be held
    /// for its parent (seed 738).
    var isOver: Bool {
        guard let stored, !base.isLive, changes.isEmpty else { return false }
        return wasLive || stored.base?.isLive == false
    }

    /// What the row is to show.
    var shown: RecordState { replay.state(of: changes, onto: base) }

    /// Records that fields name are called otherwise from now on.
    /// - Parameter hasRow: whether the row names them so already.
    mutating func rename(_ names: [RecordKey: RecordKey], hasRow: Bool = true) {
        for field in entity.fields {
            guard let target = field.reference?.entity else { continue }
            func renamed(_ value: FieldValue?) -> FieldValue? {
                guard case .string(let id)? = value else { return nil }
                return names[RecordKey(target, id)].map { .string($0.id) }
            }
            if let new = renamed(base.fields[field.name]) { base.fields[field.name] = new }
            if let new = renamed(stored?.base?.fields[field.name]) { stored?.base?.fields[field.name] = new }
            if hasRow, let new = renamed(row?[field.name]) { row?[field.name] = new }
        }
    }

    // MARK: The server's word

    /// A record from a verdict or a page becomes the base, unless a newer one is held.
    ///
    /// A field that the server's record does not name keeps its value, here (an older server: FAILURES.md, DAT-21).
    /// - Returns: whether it was taken.
    mutating func take(_ server: ServerRecord) -> Bool {
        guard server.version >= version else { return false }
        var extra = stored?.extra ?? [:]
        base.isLive = server.presence == .live
        if base.isLive { base.isAway = false }
        for (name, value) in server.fields {  // any order
            if entity.field(name) == nil { extra[name] = value } else { base.fields[name] = value }
        }
        base.fillNulls(of: changes)
        stored = StoredRecord(version: server.version, base: base, extra: extra)
        hasTaken = true
        return true
    }

    /// What waits of the record is the server's last word of it, also where it is of the very version held: a verdict raised that, and
    /// told of its change only; the page that came with it tells of all before it, too (seed 97560).
    mutating func takeLast(_ held: ServerRecord) {
        let isOfVersion = held.version == version && version > 0 && held.presence == .live
        if held.version > version || isOfVersion, take(held), before == nil { isFirstHeld = true }
    }

    /// Whether what waits of the record may say what the base does not.
    func isBehind(_ held: ServerRecord) -> Bool {
        guard held.version == version, version > 0, held.presence == .live, !hasTaken else {
            return held.version > version
        }
        return held.fields.contains { name, value in
            entity.field(name) != nil && !(base.fields[name] ?? .null).isSame(as: value)
        }
    }

    /// The server did this change as it was sent: the base moves with it, unless what is held came after.
    /// - Parameters:
    ///   - raises: whether the held version moves, too (PROTOCOL.md, *Records*).
    ///   - isNow: whether the server did it just now, not once before: then what it wrote is the last word, whatever the stamps
    ///     here say. The server goes by its own clock, where one of them was clamped.
    mutating func accept(_ change: StoredChange, version: Int64?, raises: Bool, isNow: Bool) {
        if let version, version <= self.version { return remove(change.key) }
        if passesBy(change) { return remove(change.key) }
        if isNow {
            base.stamps[RecordState.life] = nil
            for name in change.fields.keys { base.stamps[name] = nil }
        }
        bring(change)
        noteStamps(change)
        remove(change.key)
        // The server has nothing of that name (any more).
        if version == nil, change.operation == .delete { base.told = 0 }
        if let version, raises {
            stored = StoredRecord(version: version, base: stored?.base, extra: stored?.extra ?? [:])
        } else if version == nil, change.operation == .delete, changes.isEmpty {
            // While more waits, the version guards against what an earlier change, sent before, may still be answered with.
            stored = nil
        }
    }

    /// A verdict told this version while something that was sent before is undecided: it may stand for that, too, whose own verdict would
    /// count as old if it were held.
    mutating func note(told version: Int64) {
        if version > self.version { base.told = max(base.told, version) }
    }

    /// The newest version that was told is held, once nothing that was sent is undecided: no page tells of it any more (Decision 503).
    mutating func holdTold() {
        guard base.told > 0, !changes.contains(where: isUncertain) else { return }
        if base.told > version {
            stored = StoredRecord(version: base.told, base: stored?.base, extra: stored?.extra ?? [:])
        }
        base.told = 0
    }

    /// The change is given up before anybody knows whether it was done: what was told after it may stand for it, which the base does not
    /// have then.
    mutating func forgetTold(for key: String) {
        if changes.contains(where: { $0.key == key && isUncertain($0) }) { base.told = 0 }
    }

    /// The change was done once, and the record is not there any more: nobody knows since when.
    mutating func die(with change: StoredChange, at version: Int64) {
        remove(change.key)
        _ = take(ServerRecord(key: record, version: version, presence: .deleted))
    }

    /// The change was done, and nobody knows where its record is now: only its page makes a row of it. But while more of it waits, the row
    /// shows on, as over a tombstone, and the last of these decides (seeds 21539 and 40962).
    mutating func leave(with change: StoredChange) {
        bring(change)
        remove(change.key)
        if changes.isEmpty { base = .away } else { base.isLive = false }
    }

    /// The change was decided, and `server` is what came of it: it becomes the base, unless a newer one is held.
    /// - Returns: whether it was taken.
    mutating func merge(_ change: StoredChange, into server: ServerRecord) -> Bool {
        if passesBy(change) {
            remove(change.key)
            return false
        }
        // A field that the answer does not name is as it was sent.
        if server.version >= version {
            bring(change)
            noteStamps(change)
        }
        remove(change.key)
        return take(server)
    }

    /// Of a record that is still to come as a whole, what a change named is as the server says, and nothing else.
    mutating func takeNamed(by change: StoredChange, from server: ServerRecord) {
        guard server.presence == .live, change.operation != .delete, !passesBy(change) else { return }
        // A field that the answer does not name is as it was sent.
        bring(change)
        for name in change.fields.keys { if let value = server.fields[name] { base.fields[name] = value } }
    }

    /// What the change did comes into the base, and into what is kept of fields that are not declared here: a create clears what the
    /// life before it had (seed 91572).
    private mutating func bring(_ change: StoredChange) {
        if let extra = stored?.extra, !extra.isEmpty || change.operation == .create {
            var undeclared = base
            undeclared.fields = extra
            replay.apply(change, to: &undeclared)
            let entity = entity
            stored?.extra = undeclared.fields.filter { entity.field($0.key) == nil }
        }
        replay.apply(change, to: &base)
    }

    /// A field that is declared from now on has the value that was kept for it.
    mutating func declare(_ name: String, _ value: FieldValue) {
        stored?.extra[name] = nil
        base.fields[name] = value
    }

    /// The server knows the record, and its page is to come: until then no version of it is held.
    mutating func awaitPage() {
        if stored == nil { stored = StoredRecord(version: 0) }
    }

    /// What the server says of the record is this device's to keep, although nothing of it was here.
    mutating func comeBack() { base.isAway = false }

    /// Whether an update brings the record back from the dead: not where it was deleted here later, and that was done.
    func revives(_ change: StoredChange) -> Bool {
        change.operation == .update && !base.isLive && base.death?.stamp ?? change.stamp <= change.stamp
    }

    /// Whether what comes of the change is not for this device to keep: its record left. If it came back, or comes with this very
    /// change, a page brings it; nobody here had a base over which a page could leave it out.
    func passesBy(_ change: StoredChange) -> Bool { base.isAway && change.operation != .create }

    /// A change was decided before earlier ones of its record: what those say of its fields is older, and shows no more.
    private mutating func noteStamps(_ change: StoredChange) {
        guard change.operation != .delete, changes.contains(where: { $0.position < change.position }) else { return }
        base.stamps[RecordState.life] = change.stamp
        for (name, delta) in change.fields where delta.rule == .lastWriter {  // any order
            base.stamps[name] = delta.stamp ?? change.stamp
        }
    }

    /// A delete was decided before earlier changes of its record: those bring nothing back, but for what was done after it by the server's
    /// count, whose clock counts where stamps are ahead of it (seed 2101874).
    mutating func noteDeath(_ change: StoredChange, at version: Int64?, isNow: Bool) {
        guard change.operation == .delete else {
            if let death = base.death, isNow || death.version > 0 && version ?? 0 > death.version { base.death = nil }
            return
        }
        guard changes.contains(where: { $0.position < change.position }) else { return }
        base.death = .init(stamp: change.stamp, version: version ?? 0)
    }

    /// Whether an earlier change of the record was sent, and has no verdict yet, or was set aside without one. One that was refused is
    /// done by nobody, and no page may come for what was done after it (seed 1287).
    func hasUncertain(before change: StoredChange) -> Bool {
        changes.contains { $0.position < change.position && isUncertain($0) }
    }

    private func isUncertain(_ change: StoredChange) -> Bool {
        guard !refused.contains(change.position) else { return false }
        return change.state == .failed ? unsure.contains(change.position) : change.wasSent
    }

    /// Whether the row shows this change.
    func isShowing(_ key: String) -> Bool { changes.contains { $0.key == key } }

    /// The create goes into the delete behind it, whose `old` is what the create made: the base is what was before both.
    mutating func fillNulls(before create: StoredChange) {
        base.fillNulls(of: create)
        if stored == nil { stored = StoredRecord(version: 0) }
        stored?.base = base
    }

    // MARK: Changes that leave

    /// The change is not shown any more; what is left keeps its deltas.
    mutating func remove(_ key: String) {
        changes.removeAll { $0.key == key }
    }

    /// The change is taken out as if it had never been: what came after it and was never sent goes from what was there
    /// before it.
    /// - Parameter mayBeDone: whether the server may have done it all the same.
    mutating func takeOut(_ key: String, mayBeDone: Bool = false) {
        if mayBeDone { forgetTold(for: key) }
        guard let index = changes.firstIndex(where: { $0.key == key }) else { return }
        goAround(changes.remove(at: index), from: index, mayBeDone: mayBeDone)
    }

    /// The change was refused, and is shown on: what came after it goes to the server as if it had never been.
    mutating func keepAside(_ key: String) {
        guard let index = changes.firstIndex(where: { $0.key == key }) else { return }
        refused.insert(changes[index].position)
        goAround(changes[index], from: index + 1)
    }

    /// The record's create is given up, and the server has no such record: refused edits of it are shown on no more.
    /// - Returns: their keys.
    mutating func hideKept() -> [String] {
        guard !base.isLive, !changes.contains(where: { $0.operation == .create }) else { return [] }
        let kept = changes.filter { $0.state == .failed && !isFixed($0) }.map(\.key)
        for key in kept { remove(key) }
        return kept
    }

    /// Whether the deltas of any change were rewritten here.
    var isRewritten: Bool { !rewritten.isEmpty }

    /// Later changes that were never sent go from what was there before this one.
    private mutating func goAround(_ change: StoredChange, from index: Int, mayBeDone: Bool = false) {
        // Where it may be done, what was written over it says what it said: over either, that is what the user meant. From before it a
        // set's difference would be another one, and lose what it takes out (seed 60843).
        guard !mayBeDone || change.operation == .delete else {
            if change.operation == .create { noteDelete(behind: change, from: index) }
            return
        }
        switch change.operation {
        case .delete: reviveAfter(change, at: index, mayBeDone: mayBeDone)
        case .create:
            noteDelete(behind: change, from: index)
            for name in change.fields.keys { rebase(name, onto: nil, from: index) }
        case .update:
            for (name, delta) in change.fields { rebase(name, onto: delta.old ?? .null, from: index) }  // any order
        }
    }

    /// A delete behind a create took what the row showed, and gives that back where it is taken back itself (seed 60979); the base says
    /// that the server had none of it, also where a page leaves a field out (seed 61621).
    private mutating func noteDelete(behind create: StoredChange, from index: Int) {
        guard changes.dropFirst(index).first(where: { $0.operation != .update })?.operation == .delete else { return }
        base.fillNulls(of: create)
    }

    /// A change comes in at its place, with deltas from what stands before it there.
    mutating func insert(_ change: StoredChange) {
        let index = changes.firstIndex { $0.position > change.position } ?? changes.count
        changes.insert(change, at: index)
        guard change.operation != .delete else { return }
        for (name, delta) in change.fields { rebase(name, onto: delta.new, from: index + 1) }  // any order
    }

    /// Before a change comes in that the row did not show: what stands before it and was written later stays.
    ///
    /// An edit that ended its create's refusal went into the create, in front of what was set aside between the two (seed 59663).
    func giveWay(_ change: inout StoredChange) {
        guard change.operation == .update else { return }
        let earlier = changes.prefix { $0.position < change.position }
        for (name, delta) in change.fields where delta.rule == .lastWriter || delta.rule == .check {  // any order
            guard let before = earlier.last(where: { $0.fields[name] != nil })?.fields[name], let stamp = before.stamp
            else { continue }
            if stamp > delta.stamp ?? change.stamp { change.fields[name]?.new = before.new }
        }
    }

    /// Before a change comes in that the row did not show: where nothing of the record is here, it left since, and its base is
    /// no more than that.
    mutating func lookWhetherAway() {
        if stored == nil, row == nil, changes.isEmpty { base = .away }
    }

    /// The change's deltas, or operation, are others from now on; the record's later changes go from them.
    mutating func replace(_ key: String, with change: StoredChange) {
        guard let index = changes.firstIndex(where: { $0.key == key }) else { return }
        changes[index] = change
        guard change.operation != .delete else { return }
        for (name, delta) in change.fields { rebase(name, onto: delta.new, from: index + 1) }  // any order
    }

    /// What the record is just before the place of a change.
    func state(before position: Int64) -> RecordState {
        replay.state(of: changes.prefix { $0.position < position }, onto: base)
    }

    /// `old` of the next never-sent change that names the field becomes `value`, and so on along the chain.
    /// - Parameter value: what is there before it; `nil` where the record never was: then a delete keeps what it took.
    private mutating func rebase(_ name: String, onto value: FieldValue?, from index: Int) {
        var value = value
        for later in changes.indices.dropFirst(index) {
            if changes[later].operation == .create { return }
            guard var delta = changes[later].fields[name] else { continue }
            // What was sent stands for ever, and what follows was made over it.
            guard !isFixed(changes[later]), changes[later].operation == .update || changes[later].operation == .delete
            else { return }
            let isDelete = changes[later].operation == .delete
            if isDelete, value == nil { return }
            let present = value ?? .null
            guard !(delta.old ?? .null).isSame(as: present) else { return }
            if !isDelete { delta.new = replay.deltas.rebase(delta, onto: present) }
            delta.old = present
            changes[later].fields[name] = delta
            rewritten.insert(changes[later].position)
            if isDelete { return }
            value = delta.new
        }
    }

    /// A delete was refused or taken back: a create after it, never sent, is an update of what differs.
    private mutating func reviveAfter(_ delete: StoredChange, at index: Int, mayBeDone: Bool) {
        guard index < changes.count, changes[index].operation == .create, !isFixed(changes[index]),
            // One that was refused, too, is for the user to try again, or to give up.
            changes[index].state != .failed
        else { return }
        // A page may have told of other values since, or of somebody else's delete: then it makes the record still.
        let before = state(before: delete.position)
        guard before.isLive else { return }
        // Over a delete that is shown on, or was done perhaps, the record is there by what the update names.
        let isHidden = mayBeDone || isShowing(delete.key)
        var update = changes[index]
        update.operation = .update
        for (name, delta) in update.fields {  // any order
            let old = before.fields[name] ?? .null
            update.fields[name] =
                old.isSame(as: delta.new) && !isHidden
                ? nil : FieldDelta(old: old, new: delta.new, rule: .lastWriter, stamp: delta.stamp)
        }
        // It says what is there anyway; an update of nothing is none (seed 3697).
        guard !update.fields.isEmpty else { return emptied.append(changes.remove(at: index)) }
        changes[index] = update
        rewritten.insert(update.position)
    }
}
