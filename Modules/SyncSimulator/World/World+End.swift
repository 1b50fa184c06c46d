import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting

extension World {
    /// How long the devices may take to come to rest once nothing goes wrong any more.
    static let bound: Int64 = 10 * 3_600_000

    /// Nothing goes wrong any more.
    func heal() {
        record.note("heal")
        healedAt = now
        server.rule { _ in .decide }
        server.heal()
        for device in devices {
            device.network.faults = [:]
            device.network.storm = nil
            device.network.isOffline = false
            device.network.isHealed = true
            device.network.tokens.signIn()
            device.hook.heal()
            device.unlock()
            device.resume()
            device.told.isWilling = true
            endSecond(device.index)
            update(device.index)
            start(device.index)
            signBack(device.index)
            freeConditions(device.index)
            hear(device.index)
        }
    }

    /// I9: every change is acknowledged, set aside, or visibly blocked by one that is, within the bound.
    func liveness() -> Bool {
        let bound = livenessBound
        let end = now + bound
        var step: Int64 = 5_000
        while now < end, !isRunaway {
            run(until: now + step)
            step = min(step * 2, 600_000)
            if devices.allSatisfy({ hasAsked($0) && restless($0)?.isEmpty ?? false }) {
                for device in devices {
                    check(device.index, isLast: true)
                    checkRest(device.index)
                }
                return true
            }
        }
        for device in devices where !isRunaway {
            if !hasAsked(device) { record.violate("I9", "device \(device.index) never asked the server again") }
            guard let restless = restless(device) else {
                record.violate("I9", "device \(device.index) does not come up, though nothing goes wrong any more")
                continue
            }
            guard !restless.isEmpty else { continue }
            let first = restless.prefix(3).map {
                "\($0.record) state \($0.state) by \($0.blockedBy ?? "-")"
            }
            record.violate(
                "I9", "device \(device.index): not at rest after \(bound / 60_000) min: \(first)")
        }
        return false
    }

    /// The changes that are neither set aside nor blocked by one that is; `nil` where nobody can tell.
    ///
    /// What was written since the last settlement is marked as blocked by the next one, which a queue that has nothing to send
    /// does not need: until then the engine tells by what it waits, if it is asked.
    private func restless(_ device: SimulatedDevice) -> [DeviceFacts.Queued]? {
        guard let facts = device.facts() else { return nil }
        let failed = Set(facts.failed.map(\.key))
        let blocked = Set(facts.blocked.map(\.key))
        func waits(_ blocker: String?) -> Bool {
            guard let blocker else { return false }
            return failed.contains(blocker) || blocked.contains(blocker) || options.hasDrafts && blocker.contains(":")
        }
        let open = facts.undecided + facts.blocked.filter { !waits($0.blockedBy) }
        guard open.contains(where: { $0.state == 0 }) else { return open }
        let told = settle(device.index) { try await $0.store.queued() } ?? []
        let waiting = Set(told.lazy.filter { $0.state == .blocked && waits($0.blockedBy) }.map(\.change.id))
        return open.filter { $0.state != 0 || !waiting.contains($0.key) }
    }

    /// The app deals with everything that was set aside, and says its word where one is waited for.
    func resolve() -> Bool {
        for device in devices { holdShownRoots(device.index) }
        for round in 0..<12 where !isRunaway {
            var isCalm = synchronizeAll()
            for device in devices {
                if confirm(device.index) { isCalm = false }
                if options.hasDrafts, releaseAll(device.index) { isCalm = false }
                if round < 2, restoreLost(device.index) { isCalm = false }
                let failed = device.facts()?.failed ?? []
                for (place, change) in failed.enumerated() {
                    isCalm = false
                    // Gone with one that was discarded before it, perhaps.
                    let left = device.facts()?.failed.map(\.key) ?? []
                    guard let index = left.firstIndex(of: change.key) else { continue }
                    repair(device.index, UInt64(index), discards: round >= 3 || (place + round) % 2 == 1)
                }
            }
            if isCalm, devices.allSatisfy({ $0.facts()?.queue.isEmpty ?? true }) { break }
        }
        return !isRunaway
    }

    /// All devices, one after the other.
    /// - Returns: whether the server had nothing to do for any of them: then all of them know all of it.
    private func synchronizeAll() -> Bool {
        let done = record.order.count
        let ends = devices.map { synchronize($0.index) }
        return record.order.count == done && ends.allSatisfy { $0 }
    }

    /// OBS-09: who is in step with the server finds that by its checksum, too.
    ///
    /// Not who discarded what may have been done: a version that may stand for that was not held, and no page comes with it (Limits.md).
    func compareContents() {
        for device in devices where device.facts()?.queue.isEmpty == true && !discardedUndecided.contains(device.index)
        {
            let index = device.index
            let sql = "SELECT count(*) FROM sync_event WHERE kind = 'diverged'"
            let differences = device.read { try Int.fetchOne($0, sql: sql) }
            settle(index) { process in
                try await process.store.setContentsCompared(milliseconds: 0)
                await process.engine.compareContents()
            }
            guard synchronize(index) else { continue }
            if device.read({ try Int.fetchOne($0, sql: sql) }) != differences {
                record.violate("OBS-09", "device \(index) is in step, and finds other contents on the server")
            }
            // One that begins with that, or is no more asked for anything, does so another time.
            guard settle(index, { try await $0.store.contentsComparedMilliseconds() }) ?? 0 != 0 else { continue }
            record.cover(.contentsCompared)
        }
    }

    /// One sync by the user's wish, to its end.
    /// - Returns: whether it came to its end.
    private func synchronize(_ index: Int) -> Bool {
        let device = devices[index]
        guard let process = device.process else { return false }
        do {
            let limit = executor.clock.now.advanced(by: .seconds(7_200))
            let summary = try executor.complete(until: limit) {
                try await process.engine.sync(for: .seconds(3_600))
            }
            record.note("device \(index) synced: \(summary.report.end)")
            return summary.report.end == .complete
        } catch { record.violate("I9", "device \(index): the final sync \(error)") }
        return false
    }
}
