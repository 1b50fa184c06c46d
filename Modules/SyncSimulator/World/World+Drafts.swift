import Storage
import SyncCore
import SyncTesting

/// What a device's user held back, as the world remembers it.
struct HeldBack: Sendable {
    /// The sequence that was given last when it was held.
    let above: Int64
    /// Changes that waited then.
    let waiting: Set<String>

    /// Whether the change is one that waits until the record is let go.
    func holds(_ change: Change) -> Bool { change.sequence > above || waiting.contains(change.id) }
}

/// Drafts: records of which a user lets nothing go out for a while, whatever is written of them.
extension World {
    /// What a user does with drafts, before a step's own action.
    /// - Returns: whether something was let go.
    func workOnDrafts(_ step: WorkloadTape.Step, _ index: Int) -> Bool {
        var chance = SeededGenerator(seed: SeededGenerator.mixed(seed, UInt64(step.number)), .drafts)
        switch chance.below(8) {
        case 0, 1:
            guard let facts = devices[index].facts() else { return false }
            let waiting = Set(facts.queue.lazy.filter { $0.state != 4 }.map(\.record))
            let all = facts.rows.rows.keys.sorted()
            let some = all.filter(waiting.contains)
            let records = some.isEmpty || chance.chance(0.4) ? all : some
            if !records.isEmpty { hold(chance.pick(records), index) }
        case 2: return release(index) { drafts in [drafts[chance.below(drafts.count)]] }
        case 3:
            let queue = devices[index].facts()?.queue ?? []
            let new = queue.filter { $0.operation == 0 && ($0.state == 0 || $0.state == 3) }
            if !new.isEmpty { keepLocal(chance.pick(new).record, index) }
        default: break
        }
        return false
    }

    private func hold(_ key: RecordKey, _ index: Int) {
        let device = devices[index]
        let here = device.names.key(key)
        let wasHeld = device.facts()?.heldBack.contains(here) ?? false
        guard settle(index, { try await $0.store.hold([here]) }) != nil, let facts = device.facts() else { return }
        record.note("device \(index) holds \(key) back")
        record.cover(.heldBack)
        // The power that went may have taken an earlier mark along.
        guard !wasHeld || device.heldBack[here] == nil, let last = device.read({ try Ledger.lastSequence($0) }) else {
            return
        }
        let waiting = facts.queue.filter { change in
            change.here == here && change.state == 3 && change.blockedBy?.hasPrefix("held:") == true
        }
        device.heldBack[here] = HeldBack(above: last, waiting: Set(waiting.map(\.key)))
    }

    /// A row that the server does not know stays on the device: what was never sent of it is taken back.
    private func keepLocal(_ key: RecordKey, _ index: Int) {
        let device = devices[index]
        let here = device.names.key(key)
        let facts = device.facts()
        let keys = facts?.queue.filter { $0.record == key }.map(\.key) ?? []
        // An edit may have gone into its refused create since the last look (seed 3540039 with `--drafts --bias histories`).
        if let facts { ledgers[index].noteQueue(facts) }
        let kept = settle(index) { process in
            do {
                try await process.store.keepLocal([here])
                return true
            } catch let failure as StoreFailure where failure.kind == .invalid {
                // It is being sent just now.
                return false
            }
        }
        guard let kept else { return noteUnsure(index, keys) }
        guard kept else { return }
        record.note("device \(index) keeps \(key)")
        record.cover(.keptLocal)
        ledgers[index].set(.cancelled, for: keys)
    }

    /// Lets some of what is held back go, and shares some of what stays.
    /// - Returns: whether there was any.
    private func release(_ index: Int, _ choice: ([Draft]) -> [Draft]) -> Bool {
        let device = devices[index]
        let drafts = settle(index) { try await $0.store.drafts() } ?? []
        guard !drafts.isEmpty, let before = device.read({ try Ledger.lastSequence($0) }) else { return false }
        let chosen = choice(drafts)
        for draft in chosen { device.heldBack[draft.record] = nil }
        guard settle(index, { try await $0.store.release(chosen.map(\.record)) }) != nil else { return true }
        record.note("device \(index) lets go \(chosen.map(\.record))")
        if chosen.contains(where: { !$0.isLocal }) { record.cover(.letGo) }
        // What is shared is a create from now on, and what waited for it stands behind that.
        let made = device.read { [ids] in try Ledger.collected($0, above: before, device.schema, ids) } ?? []
        for entry in made {
            if ledgers[index].entries[entry.key] == nil {
                record.cover(.shared)
                ledgers[index].add(entry)
            } else {
                ledgers[index].moved(entry.key, to: entry.sequence)
            }
        }
        return true
    }

    /// Users hold nothing back any more.
    /// - Returns: whether there was anything.
    func releaseAll(_ index: Int) -> Bool { release(index) { $0 } }

    /// What is held back is not sent.
    func checkDrafts(of request: ExchangeRequest, from index: Int) {
        let device = devices[index]
        guard !device.heldBack.isEmpty else { return }
        // The power that went may have taken the mark along.
        guard let facts = device.facts() else { return }
        // Of two rows by one name, the device's own and the server's, one may be held back (seed 25054 with `--server-ids`).
        let here = Dictionary(facts.queue.lazy.map { ($0.key, $0.here) }) { first, _ in first }
        for change in request.changes where record.sent[change.id] == nil {
            guard let name = here[change.id], facts.heldBack.contains(name),
                device.heldBack[name]?.holds(change) == true
            else { continue }
            record.violate("drafts", "device \(index) sends \(change.id), \(change.record), which is held back")
        }
    }
}
