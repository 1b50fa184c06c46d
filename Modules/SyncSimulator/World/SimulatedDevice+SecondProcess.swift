import GRDB
import Storage
import SyncCore

extension SimulatedDevice {
    /// The second process sends a request: from one of them on it stands still, but not while its user waits for a call.
    func secondSends() {
        guard var second, !usesSecond else { return }
        second.requests += 1
        defer { self.second = second }
        guard let standing = second.standing, standing.request == second.requests else { return }
        second.process.hold()
        network.stands(SecondProcess.firstNumber + second.number)
        second.stands = true
        onStanding(standing, second.number)
    }

    /// Whether the second process may sync the file.
    var secondHasLease: Bool { lease?.holder?.hasPrefix("\(SecondProcess.systemNumber)/") ?? false }

    /// Whether a process prolongs its lease while it asks.
    func keepsLease(_ number: Int) -> Bool {
        if hasJumped { return false }
        return number < SecondProcess.firstNumber || second?.isSignedOut == false
    }

    /// Whether another process than this one has the lease.
    func isAnothers(_ number: Int) -> Bool {
        guard second != nil, let holder = lease?.holder else { return false }
        return holder.hasPrefix("\(SecondProcess.systemNumber)/") != (number > SecondProcess.firstNumber)
    }

    /// Who may sync the file, and the how manieth lease that is.
    var lease: (holder: String?, generation: Int64)? {
        guard let store = (process ?? second?.process)?.store else { return nil }
        let wasLookedAt = hook.isLookedAt
        hook.isLookedAt = true
        defer { hook.isLookedAt = wasLookedAt }
        do {
            let sql = "SELECT holder, generation FROM sync_lease"
            return try store.read { try Row.fetchOne($0, sql: sql) }.map { ($0[0], $0[1]) }
        } catch {
            record.violate("simulator", "the lease of device \(index) cannot be read: \(error)")
            return nil
        }
    }
}
