import GRDB
import Orchestrator
import Storage
import SyncCore
import SyncTesting
import Testing
import UploadQueue

/// A test's world in virtual time: everything runs on one seeded executor, and time jumps to whoever sleeps next.
struct Stage: Sendable {
    let executor: SeededExecutor
    let wall: ManualWallClock

    var clock: VirtualClock { executor.clock }
    /// Seconds since the test began.
    var seconds: Double {
        let (seconds, attoseconds) = clock.now.elapsed.components
        return Double(seconds) + Double(attoseconds) * 1e-18
    }

    func device(
        _ exchange: any Exchange, seed: UInt64 = 1, onFileOf other: Device? = nil, hints: (any HintSource)? = nil,
        configuration: EngineConfiguration = EngineConfiguration(), policy: UploadPolicy = UploadPolicy()
    ) throws -> Device {
        try Device(
            exchange, seed: seed, onFileOf: other, wall: wall, clock: clock, executor: executor.lane("store \(seed)"),
            hints: hints,
            configuration: configuration, policy: policy)
    }

    /// An engine of another process, or of the next one, over the same store.
    func anotherEngine(on device: Device, _ port: Port) -> SyncEngine {
        SyncEngine(
            store: device.store, exchange: port, wallClock: wall, clock: clock, randomness: SeededRandomness(seed: 9),
            ids: SeededIDs(seed: 9))
    }

    /// Another store over the device's file, as a second process has one.
    func secondStore(of device: Device, seed: UInt64 = 9) throws -> Store {
        var settings = StoreConfiguration()
        settings.clock = wall
        settings.monotonicClock = clock
        settings.fixesTriggerClock = true
        settings.keySeed = Int64(seed)
        settings.executor = executor.lane("store \(seed)")
        // Nobody who waits for a lock lets virtual time pass.
        settings.busyTimeout = 0
        return try Store(path: device.store.database.path, schema: Device.parsed, configuration: settings)
    }

    func pass(_ duration: Duration) async throws { try await clock.sleep(for: duration) }

    /// Runs the device's engine while `body` goes on.
    func running(
        _ device: Device, _ body: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await device.engine.run() }
            group.addTask {
                try await body()
                await device.engine.stop()
            }
            try await group.next()
            // A run that had not begun when it was stopped.
            group.cancelAll()
            try await group.waitForAll()
        }
    }
}

/// Runs a test in virtual time, decided by its seed alone.
func inVirtualTime(seed: UInt64 = 1, _ body: @escaping @Sendable (Stage) async throws -> Void) throws {
    let executor = SeededExecutor(seed: seed)
    let stage = Stage(executor: executor, wall: ManualWallClock(following: executor.clock))
    try executor.complete { try await body(stage) }
    #expect(executor.foreignJobs == 0)
}
