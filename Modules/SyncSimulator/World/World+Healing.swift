import Orchestrator
import SyncCore
import SyncTesting

/// How devices notice that nothing goes wrong any more.
extension World {
    /// In one half of the seeds all devices hear that the network is there; in the other nobody tells them, and their engines come back
    /// by their own timers, which a device that was stalled does not.
    func hear(_ index: Int) {
        guard healsGently else {
            settle(index) { process in
                await process.engine.resume()
                await process.engine.trigger(.reconnected)
            }
            return
        }
        unpause(index)
    }

    /// The app lets the engine go on, where it is one that was told to pause.
    func unpause(_ index: Int) {
        guard paused[index] == devices[index].generation else { return }
        if settle(index, { await $0.engine.resume() }) != nil { paused[index] = nil }
    }

    /// How long the devices may take to come to rest: ten hours where nobody looks more closely. By their own timers the longest waits
    /// are the breaker's, and 15 minutes of a queue's back-off, both by a clock that may have gone back half an hour before a restart.
    var livenessBound: Int64 {
        guard healsGently else { return Self.bound }
        return 2 * 3_600_000 + (devices.compactMap { $0.process?.watch.remaining }.max() ?? 0)
    }

    /// Whether the device was told, since the healing, that it has everything.
    func hasAsked(_ device: SimulatedDevice) -> Bool {
        device.network.lastWhole.map { $0 >= .milliseconds(healedAt) } ?? false
    }
}
