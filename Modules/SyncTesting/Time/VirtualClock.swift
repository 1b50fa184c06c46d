import Foundation

/// A monotonic clock that stands still until it is told to move; who sleeps on it is woken by that.
///
/// Sleepers wake in the order of their deadlines, earlier sleepers first among equals; a cancelled sleep throws
/// `CancellationError` at once. ``SeededExecutor`` moves its own; a test without it calls ``advance(by:)``.
public final class VirtualClock: Clock, @unchecked Sendable {
    // Sendable: every stored property is read and written under `lock` alone, and continuations are resumed outside it.

    /// A time since the clock was made.
    public struct Instant: InstantProtocol, CustomStringConvertible {
        /// The time passed since the clock was made.
        public var elapsed: Duration
        public init(_ elapsed: Duration) { self.elapsed = elapsed }
        public func advanced(by duration: Duration) -> Instant { Instant(elapsed + duration) }
        public func duration(to other: Instant) -> Duration { other.elapsed - elapsed }
        public static func < (a: Instant, b: Instant) -> Bool { a.elapsed < b.elapsed }
        public var description: String { "\(elapsed)" }
    }

    private struct Sleeper {
        let id: UInt64
        let deadline: Instant
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct Watcher {
        let count: Int
        let continuation: CheckedContinuation<Void, Never>
    }

    private let lock = NSLock()
    private var present = Instant(.zero)
    /// By deadline, then by the order in which they came.
    private var sleepers: [Sleeper] = []
    private var watchers: [Watcher] = []
    private var nextID: UInt64 = 0
    /// Sleeps that were cancelled before they were entered.
    private var cancelledEarly: Set<UInt64> = []

    public init() {}

    public var now: Instant { lock.withLock { present } }
    public var minimumResolution: Duration { .zero }

    /// When the first sleeper wants to wake; `nil` if nobody sleeps.
    public var nextDeadline: Instant? { lock.withLock { sleepers.first?.deadline } }

    /// How many sleep now.
    public var sleeperCount: Int { lock.withLock { sleepers.count } }

    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        try Task.checkCancellation()
        let id = lock.withLock { () -> UInt64 in
            nextID += 1
            return nextID
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                enter(Sleeper(id: id, deadline: deadline, continuation: continuation))
            }
        } onCancel: {
            cancel(id)
        }
    }

    /// Moves the time on and wakes everybody whose deadline has come, each at its own time, in order.
    public func advance(by duration: Duration) {
        advance(to: now.advanced(by: duration))
    }

    /// Moves the time on to `instant`; a time that is past changes nothing.
    public func advance(to instant: Instant) {
        while let sleeper = takeDue(by: instant) { sleeper.continuation.resume() }
        lock.withLock { present = max(present, instant) }
    }

    /// Waits until at least so many sleep; for tests that run on the ordinary executor.
    public func waitForSleepers(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isMet = lock.withLock { () -> Bool in
                if sleepers.count >= count { return true }
                watchers.append(Watcher(count: count, continuation: continuation))
                return false
            }
            if isMet { continuation.resume() }
        }
    }

    private func takeDue(by instant: Instant) -> Sleeper? {
        lock.withLock {
            guard let first = sleepers.first, first.deadline <= instant else { return nil }
            present = max(present, first.deadline)
            return sleepers.removeFirst()
        }
    }

    private func enter(_ sleeper: Sleeper) {
        enum Entry { case asleep, due, cancelled }
        var met: [Watcher] = []
        let entry = lock.withLock { () -> Entry in
            if cancelledEarly.remove(sleeper.id) != nil { return .cancelled }
            if sleeper.deadline <= present { return .due }
            let place = sleepers.firstIndex { $0.deadline > sleeper.deadline } ?? sleepers.endIndex
            sleepers.insert(sleeper, at: place)
            met = watchers.filter { $0.count <= sleepers.count }
            watchers.removeAll { $0.count <= sleepers.count }
            return .asleep
        }
        switch entry {
        case .asleep: for watcher in met { watcher.continuation.resume() }
        case .due: sleeper.continuation.resume()
        case .cancelled: sleeper.continuation.resume(throwing: CancellationError())
        }
    }

    private func cancel(_ id: UInt64) {
        let sleeper = lock.withLock { () -> Sleeper? in
            guard let place = sleepers.firstIndex(where: { $0.id == id }) else {
                cancelledEarly.insert(id)
                return nil
            }
            return sleepers.remove(at: place)
        }
        sleeper?.continuation.resume(throwing: CancellationError())
    }
}
