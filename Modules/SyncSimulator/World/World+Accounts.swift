import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting

/// Users who sign out, with what they have not sent, and others who sign in on the same device (I10).
extension World {
    /// What is kept of the user of a device while somebody else uses it.
    struct Shelf {
        var ledger: Ledger
    }

    /// The user signs out: what is unsent is sent first, or given up; the file is wiped, and another user signs in.
    func signOut(_ index: Int, flushes: Bool, for milliseconds: Int64) {
        let device = devices[index]
        guard device.account == SimulatedDevice.account, device.process != nil, !device.isDead, !device.isSuspended
        else { return }
        if flushes {
            if let process = device.process { process.calls.sync(process) }
            let later = FaultTape.TimedFault.signOut(device: index, flushes: false, milliseconds: milliseconds)
            return agenda.add(.fault(later), at: now + 3_000)
        }
        let unsent = device.facts()?.queue.count ?? 0
        guard wipe(index) else { return }
        record.cover(.accountSwitch)
        record.struck("account switch")
        if unsent > 0 { record.cover(.unsentGivenUp) }
        shelves[index] = Shelf(ledger: ledgers[index])
        ledgers[index] = Ledger()
        enter(index, as: "guest \(index)")
        agenda.add(.signBack(device: index), at: now + milliseconds)
    }

    /// The other user signs out, and the first one in again.
    func signBack(_ index: Int) {
        let device = devices[index]
        guard device.account != SimulatedDevice.account else { return }
        guard device.process != nil, !device.isDead, !device.isSuspended, wipe(index) else {
            return agenda.add(.signBack(device: index), at: now + 2_000)
        }
        if let shelf = shelves.removeValue(forKey: index) { ledgers[index] = shelf.ledger }
        enter(index, as: SimulatedDevice.account)
    }

    /// Takes the account's data out of the file, as an app does when its user signs out: the engine ends first.
    /// - Returns: whether it went; a device that dies over it, or whose disk fails, may have done it all the same.
    private func wipe(_ index: Int) -> Bool {
        let device = devices[index]
        let facts = device.facts()
        let shown = facts?.rows.rows.keys.map(\.id) ?? []  // any order: they are looked for together
        let ids = ledgers[index].byRecord.keys.map(\.id) + shown  // any order: as above
        let before = facts?.deviceID
        device.endEngine()
        buryTheDead()
        let isWiped: Bool
        if options.bug == .wipeForgotten {
            let database = device.process?.store.database
            isWiped =
                settle(index) { _ in
                    try database?.write { try $0.execute(sql: "DELETE FROM sync_meta WHERE key = 'account'") }
                } != nil
        } else {
            isWiped = settle(index) { try await $0.store.wipe() } != nil
        }
        guard isWiped else {
            if device.isDead || device.process == nil {
                unsureWipes.insert(index)
                buryTheDead()
            } else {
                // The engine has ended, so the app starts anew. The data may be gone all the same, for the second process too (seed
                // 360976).
                if device.facts()?.deviceID != before {
                    device.second?.isSignedOut = true
                    forgetAll(index)
                }
                device.stop()
                start(index)
            }
            return false
        }
        checkEmpty(index)
        // The second process goes on for a while, and hears of it by what it does next.
        device.second?.isSignedOut = true
        device.stop()
        checkBytes(index, TracesOfIDs(ids))
        forgetAll(index)
        return true
    }

    /// Everything of this device that was not sent is given up, by the user's word.
    private func forgetAll(_ index: Int) {
        forgetNames(index)
        devices[index].told.begin(with: nil)
        memories[index].restored()
        vanishings[index].restored()
        reappearances[index].restored()
        ledgers[index].restored([])
        attempts[index] = nil
    }

    /// A device died over its wipe: whether that was committed, only the file knows.
    func lookAtWipe(_ index: Int) {
        guard unsureWipes.remove(index) != nil, let facts = devices[index].facts() else { return }
        if facts.rows.rows.isEmpty, facts.queue.isEmpty, facts.versions.isEmpty { forgetAll(index) }
    }

    private func enter(_ index: Int, as account: String) {
        let device = devices[index]
        device.account = account
        record.note("device \(index) signs in \(account)")
        start(index)
        if device.process != nil, !device.isDead { check(index) }
    }

    // MARK: I10

    /// What is left in the tables when an account has left.
    private func checkEmpty(_ index: Int) {
        guard let facts = devices[index].facts() else { return }
        let left = facts.rows.rows.count + facts.queue.count + facts.versions.count + facts.held.count
        if left > 0 { record.violate("I10", "device \(index): \(left) rows are left of who signed out") }
    }

    /// What is left in the files' bytes: freed pages and the log have none of the ids that the account's records have.
    private func checkBytes(_ index: Int, _ ids: TracesOfIDs) {
        do {
            for (name, bytes) in try devices[index].folder.photograph().sorted(by: { $0.key < $1.key }) {
                for id in ids.found(in: bytes) {
                    record.violate("I10", "device \(index): \(name) holds \(id) of who signed out")
                }
            }
        } catch { record.violate("simulator", "\(error)") }
    }

    /// What stands in a request is the signed-in account's, and was never another's.
    func checkAccount(of request: ExchangeRequest, from index: Int) {
        guard let shelf = shelves[index] else { return }
        for change in request.changes where shelf.ledger.entries[change.id] != nil {
            record.violate("I10", "device \(index) sends \(change.id) of who signed out")
        }
    }

    /// What a device shows is its account's.
    func checkAccount(of facts: DeviceFacts, in index: Int) {
        guard devices.contains(where: { $0.hadGuest }) else { return }
        let account = devices[index].account
        let own = Set(server.records(of: account).map(\.key))
        for other in server.accounts where other != account {
            for record in server.records(of: other)
            where facts.rows.rows[record.key] != nil && !own.contains(record.key) {
                self.record.violate("I10", "device \(index) shows \(account) the record \(record.key) of \(other)")
            }
        }
    }
}
