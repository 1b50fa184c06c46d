import Orchestrator
import Storage
import SyncCore
import SyncTesting

/// A record that an app waits for, until what it wrote of that is acknowledged or set aside.
struct SettledWait: Sendable {
    let record: RecordKey
    /// What waited of it when the app began.
    let keys: Set<String>
    let timeout: Duration
    let since: Duration
    /// Whether nobody tells it: what ``PlantedBug/settledUnheard`` does.
    let isUnheard: Bool

    /// Waits.
    /// - Returns: what became of it; `nil` where the store could not tell, or the process has ended.
    func perform(_ process: SimulatedDevice.Process, by clock: VirtualClock) async -> RecordFate? {
        do {
            if isUnheard, try await process.store.fate(of: record) == .waiting {
                try await clock.sleep(until: clock.now.advanced(by: timeout), tolerance: nil)
            }
            return try await process.engine.settled(record, timeout: timeout)
        } catch {
            // kept: the disk failed, or the process ended: an app asks again, and the checks see what is in the file.
            return nil
        }
    }
}

/// Apps that wait for what they wrote to be settled.
extension World {
    /// Before a step's own action, the app begins to wait for something of what is queued.
    func waitForSettled(_ step: WorkloadTape.Step, _ index: Int) {
        var chance = SeededGenerator(seed: SeededGenerator.mixed(seed, UInt64(step.number)), .waits)
        let device = devices[index]
        guard chance.chance(0.5), let hand = device.hand, let queue = device.facts()?.queue, !queue.isEmpty else {
            return
        }
        let key = chance.pick(queue).here
        let wait = SettledWait(
            record: key, keys: Set(queue.filter { $0.here == key }.map(\.key)),
            timeout: chance.pick([.seconds(2), .seconds(90), .seconds(1_000_000)]), since: executor.clock.now.elapsed,
            isUnheard: options.bug == .settledUnheard)
        record.note("device \(index) waits for \(key), \(wait.timeout) at most")
        hand.calls.wait(hand, wait, by: executor.clock)
    }

    /// Who heard that all is decided has nothing in the queue of what waited then; who heard that it waits had no more time.
    func checkSettled(_ index: Int) {
        let device = devices[index]
        for hand in [device.process, device.second?.process].compactMap(\.self) {
            let told = hand.calls.takeTold()
            guard !told.isEmpty, !device.isDead, let facts = device.facts() else { continue }
            let left = Set(facts.queue.map(\.key))
            for (wait, fate, at) in told {
                switch fate {
                case .waiting where at - wait.since < wait.timeout:
                    record.violate("settled", "device \(index) waits for \(wait.record) no more, and has time")
                case .waiting: break
                case .decided:
                    record.cover(.settledHeard)
                    guard let key = wait.keys.intersection(left).min() else { continue }
                    record.violate("settled", "device \(index) hears that \(wait.record) is decided, and \(key) waits")
                case .setAside(let keys):
                    record.cover(.settledHeard)
                    if keys.isEmpty { record.violate("settled", "device \(index) hears that nothing was set aside") }
                }
            }
        }
    }

    /// At rest nobody waits: what is settled was told.
    func checkNobodyWaits(_ index: Int) {
        guard let process = devices[index].process else { return }
        for wait in process.calls.waits.sorted(by: { $0.key < $1.key }).map(\.value) {
            record.violate("settled", "device \(index) is at rest, and waits for \(wait.record) still")
        }
    }
}
