import SyncCore

/// When the engine by itself tries again after a cycle: a pure value; times and chance come in.
///
/// After failures in a row the wait is anything from nothing to a window that doubles up to the longest (full jitter, the
/// cap before the jitter), so that devices that lost one server together do not come back together.
struct CycleBackoff: Sendable, Hashable {
    /// What the scheduler is told, in milliseconds from now.
    struct Next: Sendable, Hashable {
        /// No routine cycle before this.
        var hold: Int64?
        /// The queue asked to be looked at then, at the latest.
        var wake: Int64?
    }

    private(set) var failures = 0
    private let first: Int64
    private let longest: Int64

    /// - Parameters:
    ///   - first: the window after the first failure, in milliseconds.
    ///   - longest: the greatest window.
    init(first: Int64, longest: Int64) {
        self.first = max(1, first)
        self.longest = max(self.first, longest)
    }

    /// The window after so many failures in a row.
    func window(_ failures: Int) -> Int64 {
        let doublings = max(0, failures - 1)
        guard doublings < 32 else { return longest }
        let (product, overflow) = first.multipliedReportingOverflow(by: 1 << Int64(doublings))
        return overflow ? longest : min(longest, product)
    }

    /// One more failure in a row.
    /// - Returns: the window of the pause after it.
    mutating func failed() -> Int64 {
        failures = failures == .max ? .max : failures + 1
        return window(failures)
    }

    /// Something worked.
    mutating func reset() { failures = 0 }

    /// What follows a cycle.
    /// - Parameters:
    ///   - began: the wall clock when it began; `nil` is `wall`.
    ///   - chance: 0..<1.
    mutating func ended(
        _ report: CycleReport, queue: QueueSummary, began: Int64? = nil, wall: Int64, chance: Double
    ) -> Next {
        if report.isPulled || report.end == .complete {
            failures = 0
            return Next(wake: Self.queueTime(queue, began: began ?? wall, wall: wall))
        }
        switch report.end {
        case .cancelled:
            return Next()
        case .complete, .needsCredentials, .otherDataset, .awaitsConfirmation, .tooLong:
            // Trying again soon by itself changes nothing; the period does.
            failures = 0
            return Next()
        case .notNow(let until, _):
            guard let until else { return Next() }
            return Next(hold: max(0, until - wall) + Int64(Double(first) * chance))
        case .exchange, .store, .leaseHeld:
            return Next(hold: Int64(Double(failed()) * chance))
        }
    }

    /// When the queue's own floors are over; `nil` where it has none, or nothing to send.
    ///
    /// What was over when the cycle began, and let nothing go, is no reason to look again: the queue is paused, its lane is closed,
    /// or it counts by another clock than the one that jumped.
    private static func queueTime(_ queue: QueueSummary, began: Int64, wall: Int64) -> Int64? {
        guard queue.hasWork, !queue.schedule.needsCredentials else { return nil }
        return queue.schedule.nextAttempt(afterMilliseconds: min(began, wall)).map { max(0, $0 - wall) }
    }
}
