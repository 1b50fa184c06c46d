import GRDB
import Orchestrator
import Storage
import SyncCore

/// What the app's user says to what the engine noted, or asks.
extension World {
    /// Something that was set aside is tried again or given up; where nothing is, what lost is written again.
    /// - Parameter number: which; those of a device are few.
    func repair(_ index: Int, _ number: UInt64, discards: Bool) {
        let facts = devices[index].facts()
        guard let failed = facts?.failed, !failed.isEmpty else {
            // The same page of the app shows what lost.
            if discards { restoreLost(index) } else { restoreLoser(index, number) }
            return
        }
        if let facts { ledgers[index].noteQueue(facts) }
        let key = failed[Int(number % UInt64(failed.count))].key
        record.note("device \(index) \(discards ? "discards" : "retries") \(key.suffix(6))")
        let needing = settle(index) { try await $0.store.dependants(of: key) } ?? []
        if discards {
            let gone = Set([key] + needing)
            if facts?.queue.contains(where: { gone.contains($0.key) && [2, 5].contains($0.state) }) == true
                || facts?.refused.contains(key) == false
            {
                discardedUndecided.insert(index)
            }
            let undecided = Set(facts?.queue.filter { $0.state != 4 }.map(\.key) ?? [])
            memories[index].tookNothing(of: needing.filter(undecided.contains))
            guard let keys = settle(index, { try await $0.store.discard(key) }) else {
                return noteUnsure(index, [key] + needing)
            }
            ledgers[index].set(.discarded, for: keys)
            record.cover(.discarded)
        } else {
            guard let next = settle(index, { try await $0.store.retry(key) }) else {
                return noteUnsure(index, [key])
            }
            if next != key { ledgers[index].set(.succeeded(by: next), for: [key]) }
            record.cover(.retried)
        }
    }

    /// One of the values that lost is written again, whatever the journal says of it.
    /// - Parameter number: which; the entries of a device are few.
    func restoreLoser(_ index: Int, _ number: UInt64) {
        let sql = "SELECT number FROM sync_conflict ORDER BY number"
        let entries = devices[index].read { try Int64.fetchAll($0, sql: sql) } ?? []
        guard !entries.isEmpty else { return }
        let entry = entries[Int(number % UInt64(entries.count))]
        let isDone = restore(index, "the loser of \(entry)") { store in
            do { _ = try await store.restoreLoser(entry) } catch let failure as StoreFailure
                where failure.kind == .invalid
            {
                // Nothing lost there, or its record is gone.
                return false
            }
            return true
        }
        if isDone { record.cover(.loserRestored) }
    }

    /// In half of the seeds the app sends again what history lost on the server.
    /// - Returns: whether there was anything.
    @discardableResult
    func restoreLost(_ index: Int) -> Bool {
        let sql = "SELECT count(*) FROM sync_conflict WHERE kind = 'lostByServer'"
        guard restoresLost, devices[index].read({ try Int.fetchOne($0, sql: sql) ?? 0 }) ?? 0 > 0 else { return false }
        let isDone = restore(index, "what was lost") { try await $0.restoreLost() > 0 }
        if isDone { record.cover(.lostRestored) }
        return isDone
    }

    /// - Returns: whether something was written; what a device wrote over which it died it finds when it starts.
    private func restore(
        _ index: Int, _ what: String, by body: @escaping @Sendable (Store) async throws -> Bool
    ) -> Bool {
        let device = devices[index]
        guard !device.isFlagged || collectOwed(index) else { return false }
        let known = ledgers[index].entries
        guard settle(index, { try await body($0.store) }) == true, !device.isFlagged || asksForQueue(index) else {
            return false
        }
        record.note("device \(index) restores \(what)")
        let made = device.read { [ids] in try Ledger.collected($0, above: 0, device.schema, ids) } ?? []
        enter(made.filter { known[$0.key] == nil }, of: nil, in: index)
        // A root that is made again is one that the app makes (seed 2107).
        holdShownRoots(index)
        check(index, hasRestored: true)
        return true
    }

    /// The user says that what a full pass waits with may go: the engine repeats the pass first.
    /// - Returns: whether one waited.
    @discardableResult
    func confirm(_ index: Int) -> Bool {
        guard settle(index, { try await $0.store.position().awaitsConfirmation }) == true else { return false }
        record.cover(.fullPassAwaitsConfirmation)
        settle(index) { _ = try await $0.engine.confirmRemoval() }
        return true
    }
}
