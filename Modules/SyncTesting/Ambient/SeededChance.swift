public import SyncCore
import Foundation

/// Chance that a seed decides.
public final class SeededRandomness: Randomness, @unchecked Sendable {
    // Sendable: `generator` is used under `lock` alone.
    private let lock = NSLock()
    private var generator: SeededGenerator

    public init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    public func next() -> UInt64 { lock.withLock { generator.next() } }
}

/// Ids that a seed decides: UUIDs of version 7 that grow with each one made, so that no two are equal.
public struct SeededIDs: IDSource {
    private let source: UUIDv7Source

    /// The ids of a seed; `start` is the time, in milliseconds since 1970, from which they count on.
    public init(seed: UInt64, start: Int64 = ManualWallClock.usualStart) {
        source = UUIDv7Source(clock: CountingClock(start), randomness: SeededRandomness(seed: seed))
    }

    public func makeID() -> String { source.makeID() }

    /// A clock that goes on by a millisecond with each look.
    private final class CountingClock: WallClock, @unchecked Sendable {
        // Sendable: `time` is used under `lock` alone.
        private let lock = NSLock()
        private var time: Int64
        init(_ start: Int64) { time = start }
        var nowMilliseconds: Int64 {
            lock.withLock {
                time += 1
                return time
            }
        }
    }
}
