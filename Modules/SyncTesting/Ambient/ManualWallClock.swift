public import SyncCore
import Foundation

/// A time of day that a test sets; it may follow a virtual clock, and drift from it.
public final class ManualWallClock: WallClock, @unchecked Sendable {
    // Sendable: `base` and `rate` are read and written under `lock` alone.

    /// 2026-11-21T08:00:00.000Z, where tests begin that have no reason to begin elsewhere.
    public static let usualStart: Int64 = 1_795_248_000_000

    private let lock = NSLock()
    private let clock: VirtualClock?
    private var base: Int64
    private var origin: Duration
    private var rate: Double

    /// A clock that stands at `milliseconds` until it is moved, or goes on with `clock`, `rate` times as fast.
    public init(_ milliseconds: Int64 = usualStart, following clock: VirtualClock? = nil, rate: Double = 1) {
        base = milliseconds
        self.clock = clock
        self.rate = rate
        origin = clock?.now.elapsed ?? .zero
    }

    public var nowMilliseconds: Int64 {
        let elapsed = clock?.now.elapsed ?? .zero
        return lock.withLock { base + passed(until: elapsed) }
    }

    /// Moves the clock forwards, or back.
    public func advance(milliseconds: Int64) {
        lock.withLock { base += milliseconds }
    }

    /// Sets the clock.
    public func set(milliseconds: Int64) {
        let elapsed = clock?.now.elapsed ?? .zero
        lock.withLock {
            base = milliseconds
            origin = elapsed
        }
    }

    /// Called under `lock`.
    private func passed(until elapsed: Duration) -> Int64 {
        let (seconds, attoseconds) = (elapsed - origin).components
        let milliseconds = seconds * 1000 + attoseconds / 1_000_000_000_000_000
        return rate == 1 ? milliseconds : Int64((Double(milliseconds) * rate).rounded(.down))
    }
}
