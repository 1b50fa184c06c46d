import Foundation
import GRDB

/// How the connections of one store wait for the lock of another one, in this process or another.
///
/// SQLite's own way sleeps longer each time, up to 100 ms, and so misses the moments between two slices that another
/// process applies. Here each look comes after the same short time. While the file opens, all waiting together ends in time; and
/// whoever's task was cancelled waits a moment only, as for what it still has to put in order.
final class Patience: @unchecked Sendable {  // the lock guards `end`
    private static let microseconds: useconds_t = 2_000
    /// How long a cancelled task waits, in seconds.
    private static let last = 0.25

    private let seconds: Double
    private let lock = NSLock()
    private var end: ContinuousClock.Instant?

    /// - Parameter seconds: how long one wait is, about; each look takes a little longer than its sleep.
    init(seconds: Double) { self.seconds = seconds }

    /// The rule for a connection.
    var mode: Database.BusyMode {
        guard seconds > 0 else { return .immediateError }
        let (most, least) = (Self.looks(seconds), Self.looks(min(Self.last, seconds)))
        return .callback { [self] tries in
            guard tries < (Task.isCancelled ? least : most), !isOver else { return false }
            usleep(Self.microseconds)  // live: a lock tells nobody when it is let go
            return true
        }
    }

    /// From now on everything together is waited for as long as one wait is; it may have begun some time ago.
    /// - Parameter spent: how long it was waited already; a fifth of the time is left in any case.
    func bind(spent: Duration) {
        let left = max(.seconds(seconds) - spent, .seconds(seconds / 5))
        lock.withLock { end = .now + left }  // live: as above
    }

    /// Each wait has its own time again.
    func unbind() { lock.withLock { end = nil } }

    /// Whether the common time is over.
    var isOver: Bool { lock.withLock { end.map { $0 <= .now } ?? false } }  // live: as above

    private static func looks(_ seconds: Double) -> Int {
        Int((seconds * 1_000_000 / Double(microseconds)).rounded(.up))
    }
}
