import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting

/// Devices that hold a part of the account, root by root (PROTOCOL.md, `scopes`).
extension World {
    /// The user chooses what the device holds.
    func choose(_ index: Int, _ pick: UInt64?) {
        let device = devices[index]
        guard device.process != nil, !device.isDead, !device.isSuspended, let facts = device.facts() else { return }
        guard let pick else { return choose(index, roots: nil, facts) }
        let there = server.records(of: device.account).filter { $0.presence == .live }.map(\.key) + facts.rows.rows.keys
        let known = Set(there.filter { isRoot($0) }).sorted()
        let chosen = known.enumerated().filter { place, _ in pick >> UInt64(place % 60) & 3 != 0 }
        choose(index, roots: Set(chosen.map(\.element)), facts)
    }

    /// An app that makes a root wants to hold it.
    func holdNewRoots(_ index: Int, _ edits: [LocalEdit]) {
        let made = edits.compactMap { edit -> RecordKey? in
            guard case .insert(let key, _) = edit, isRoot(key) else { return nil }
            return key
        }
        guard !made.isEmpty, let facts = devices[index].facts(), let scopes = facts.scopes else { return }
        choose(index, roots: Set(scopes.asked.keys).union(made), facts)
    }

    /// At the end a device holds all roots that it shows, but for those that are on their way out: what was made while it
    /// could not say so belongs to it.
    func holdShownRoots(_ index: Int) {
        guard let facts = devices[index].facts(), let scopes = facts.scopes else { return }
        let shown = Set(facts.rows.rows.keys.filter { isRoot($0) }).subtracting(scopes.leaving)
        let wanted = Set(scopes.asked.keys).union(shown)
        if wanted != Set(scopes.asked.keys) { choose(index, roots: wanted, facts) }
    }

    private func choose(_ index: Int, roots: Set<RecordKey>?, _ facts: DeviceFacts) {
        let before = facts.scopes.map { Set($0.asked.keys) }
        record.note("device \(index) holds \(roots.map { "\($0.sorted())" } ?? "everything")")
        // It may have gone through also where the device dies over it.
        memories[index].chose()
        vanishings[index].chose()
        reappearances[index].chose()
        let ids = ids
        var shown = facts.rows.names
        // What it made, and deleted since, its app knows by no other id before the create has a verdict (mixed seed 1020090).
        for change in facts.queue where change.operation == 0 && !shown.knows(change.record) {
            shown.note(devices[index].names.key(change.record).id, of: change.record)
        }
        let account = devices[index].account
        let there = Dictionary(
            uniqueKeysWithValues: (roots ?? []).map { ($0, server.id(of: $0, in: account)) })  // any order
        settle(index) { [shown] process in
            let local =
                if let roots {
                    try ids.local(roots, shown, process.store) { there[$0] ?? $0.id }
                } else { nil as Set<RecordKey>? }
            try await process.engine.setScopes(local)
        }
        buryTheDead()
        guard let roots else { return }
        if let before, !roots.isSubset(of: before) {
            record.cover(.scopeAdded)
            if facts.isInFullPass { record.cover(.scopeAddedInFullPass) }
        }
        if hasUnsentUnderLeaving(devices[index]) { record.cover(.scopeDroppedWithUnsent) }
    }

    /// Whether a change is unsent of a root that is on its way out, or of what shows under it.
    private func hasUnsentUnderLeaving(_ device: SimulatedDevice) -> Bool {
        guard let facts = device.facts(), let leaving = facts.scopes?.leaving, !leaving.isEmpty else { return false }
        let shown = facts.rows.rows.map { ServerRecord(key: $0.key, version: 0, fields: $0.value) }
        let roots = Roots(shown, device.schema)
        return facts.queue.contains { change in roots.root(of: change.record).map(leaving.contains) ?? false }
    }

    /// The user moves something from one root to another.
    func move(_ index: Int, _ number: UInt64) {
        let device = devices[index]
        guard device.process != nil, !device.isSuspended, !device.isDead, let rows = device.facts()?.rows else {
            return
        }
        let edits = EditMaker(schema: device.schema, rows: rows, device: index, ids: device.ids, seed: seed)
            .movesBetweenRoots(number)
        write(edits, isUnit: false, index)
        buryTheDead()
        check(index)
    }

    /// For the list of situations: records that left what the device holds, by the server's word.
    func noteLeaves(_ device: SimulatedDevice) {
        let sql = "SELECT count(*) FROM sync_event WHERE kind = 'gone'"
        if device.read({ try Int.fetchOne($0, sql: sql) ?? 0 }) ?? 0 > 0 { record.cover(.recordLeft) }
    }

    private func isRoot(_ key: RecordKey) -> Bool { options.schema[key.entity].map { $0.parents.isEmpty } ?? false }
}
