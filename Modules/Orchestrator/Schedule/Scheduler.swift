/// When the next cycle starts: a pure value driven by events, in milliseconds of a monotonic clock that is handed in.
///
/// Starts are at least `minimumInterval` apart, the user's wish excepted. Local writes are gathered for `debounce`
/// after the last and never longer than `longestWait` after the first. Without any event a cycle starts every `period`.
public struct Scheduler: Sendable, Hashable {
    /// What can make a cycle worth while.
    public enum Trigger: Sendable, Hashable {
        case localWrite
        /// The server says that something is new.
        case hint
        /// The device's own link came back, or the app came to the foreground.
        case reconnected
        /// The user wants it now.
        case user
    }

    public struct Intervals: Sendable, Hashable {
        public var period: Int64
        public var debounce: Int64
        public var longestWait: Int64
        public var minimumInterval: Int64
        /// All in milliseconds.
        public init(
            period: Int64 = 30_000, debounce: Int64 = 250, longestWait: Int64 = 2_000, minimumInterval: Int64 = 2_000
        ) {
            self.period = period
            self.debounce = debounce
            self.longestWait = longestWait
            self.minimumInterval = minimumInterval
        }
    }

    private let intervals: Intervals
    private var lastStart: Int64?
    private var firstWrite: Int64?
    private var lastWrite: Int64?
    /// A cycle is due from this time on, for another cause than writes.
    private var dueAt: Int64?
    /// The queue asked not to be woken before this time.
    private var retryAt: Int64?
    private var isUserWaiting = false
    private var isRunning = false

    public init(_ intervals: Intervals = Intervals()) { self.intervals = intervals }

    /// Something happened.
    public mutating func trigger(_ trigger: Trigger, at now: Int64) {
        switch trigger {
        case .localWrite:
            firstWrite = firstWrite ?? now
            lastWrite = now
        case .hint, .reconnected:
            dueAt = min(dueAt ?? now, now)
        case .user:
            isUserWaiting = true
        }
    }

    /// A cycle began; what happened before it is served by it, what happens during it makes exactly one more.
    public mutating func started(at now: Int64) {
        lastStart = now
        firstWrite = nil
        lastWrite = nil
        dueAt = nil
        retryAt = nil
        isUserWaiting = false
        isRunning = true
    }

    /// A cycle ended; with a failure, the queue's next time.
    public mutating func ended(retryAt time: Int64?) {
        isRunning = false
        retryAt = time
    }

    /// When the next cycle may start; `nil` while one runs.
    public func nextStart() -> Int64? {
        guard !isRunning else { return nil }
        guard !isUserWaiting else { return lastStart ?? .min }
        var earliest = (lastStart ?? .min).addingReportingOverflow(intervals.period).partialValue
        if lastStart == nil { earliest = .min }
        if let retryAt { earliest = min(earliest, retryAt) }
        if let dueAt { earliest = min(earliest, dueAt) }
        if let firstWrite, let lastWrite {
            earliest = min(earliest, min(lastWrite + intervals.debounce, firstWrite + intervals.longestWait))
        }
        guard let lastStart else { return earliest }
        return max(earliest, lastStart + intervals.minimumInterval)
    }
}
