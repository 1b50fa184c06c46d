import GRDB
import Orchestrator
import Storage
import SyncTesting

/// What lives of a device until it is killed, or ends.
extension SimulatedDevice {
    /// A living process.
    struct Process {
        let store: Store
        let engine: SyncEngine
        let lane: SeededLane
        let storeLane: SeededLane
        let run: Task<Void, Never>
        let box: Flag
        let calls: Calls
        let watch: BreakerWatch
        /// Where the app listens to what the engine changes.
        let told: ToldRows?
        /// Where the server says that something is new.
        let hints: SimulatedHints?

        /// It stands still.
        func hold() {
            lane.hold()
            storeLane.hold()
        }

        func release() {
            lane.release()
            storeLane.release()
        }

        /// Rows that it has changed.
        var changes: Int { store.database.writeWithoutTransaction { $0.totalChangesCount } }
    }

    /// What users have called and nobody waits for; ends with its process.
    final class Calls: @unchecked Sendable {
        // Sendable: used by the one thread that drives the executor.
        private var tasks: [Task<Void, Never>] = []
        private var open = 0
        /// Whether each of them has come back.
        var areOver: Bool { open == 0 }

        /// Asks for a sync, which comes to its end, or is cancelled with the process.
        func sync(_ process: Process, _ wish: SyncWish = .atOnce, onEnd: @escaping (CycleEnd?) -> Void = { _ in }) {
            // Sendable: as this class.
            nonisolated(unsafe) let onEnd = onEnd
            open += 1
            tasks.append(
                Task(executorPreference: process.lane) {  // owner: these calls, which `cancel` ends
                    let end = await wish.perform(process.engine)
                    self.open -= 1
                    onEnd(end)
                })
        }

        /// What the app waits for to be settled.
        private(set) var waits: [Int: SettledWait] = [:]
        /// What it was told of that, and nobody has looked at yet.
        private var told: [(wait: SettledWait, fate: RecordFate, at: Duration)] = []
        private var isCancelled = false

        /// Waits for a record to be settled, or for the time to be over.
        func wait(_ process: Process, _ wait: SettledWait, by clock: VirtualClock) {
            let number = tasks.count
            waits[number] = wait
            open += 1
            tasks.append(
                Task(executorPreference: process.lane) {  // owner: these calls, which `cancel` ends
                    let fate = await wait.perform(process, by: clock)
                    self.open -= 1
                    self.waits[number] = nil
                    if let fate, !self.isCancelled { self.told.append((wait, fate, clock.now.elapsed)) }
                })
        }

        /// What was told since the last time.
        func takeTold() -> [(wait: SettledWait, fate: RecordFate, at: Duration)] {
            defer { told = [] }
            return told
        }

        func cancel() {
            isCancelled = true
            for task in tasks { task.cancel() }
        }
    }

    /// Whether a task has come to its end.
    final class Flag: @unchecked Sendable {
        // Sendable: used by the one thread that drives the executor.
        var isSet = false
    }
}
