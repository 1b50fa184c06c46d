import SyncTesting

/// A clock on which nobody is woken while it is stalled: what an engine would do that forgets to come back after a failure.
struct StallingClock: Clock {
    /// Whether it is stalled.
    final class Switch: @unchecked Sendable {
        // Sendable: used by the one thread that drives the executor.
        var isStalled = false
    }

    let base: VirtualClock
    let stall: Switch

    var now: VirtualClock.Instant { base.now }
    var minimumResolution: Duration { base.minimumResolution }

    func sleep(until deadline: VirtualClock.Instant, tolerance: Duration?) async throws {
        let never = VirtualClock.Instant(.seconds(10 * 365 * 86_400))
        try await base.sleep(until: stall.isStalled ? never : deadline, tolerance: tolerance)
    }
}
