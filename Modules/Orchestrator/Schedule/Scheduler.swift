/// When the next cycle starts: a pure value driven by events, in milliseconds of a monotonic clock that is handed in.
///
/// Starts are at least `minimumInterval` apart, the user's wish excepted. Local writes are gathered for `debounce`
/// after the last and never longer than `longestWait` after the first. Without any event a cycle starts every `period`.
/// After a failure nothing routine starts before the time that the engine's back-off gave; what says that the outside
/// has changed does.
public struct Scheduler: Sendable, Hashable {
    /// What can make a cycle worth while.
    public enum Trigger: String, Sendable, Hashable, CaseIterable {
        /// The app wrote a row that syncs.
        case localWrite
        /// The server says that something is new.
        case hint
        /// The device's own link came back.
        case reconnected
        /// The server, or its stream of hints, is there again: a whole fleet notices at once, so it is spread.
        case serverBack
        /// The app came to the foreground.
        case foreground
        /// The system gives time in the background.
        case background
        /// The user wants it now.
        case user
        /// The engine began to run.
        case started
        /// Nothing happened for a period.
        case period
        /// A cycle failed, or the queue had to wait, and its time is over.
        case retry
    }

    /// The times that it goes by, in milliseconds.
    public struct Intervals: Sendable, Hashable {
        /// Without any event a cycle starts so long after the last one's start.
        public var period: Int64
        /// A cycle for local writes starts so long after the last of them.
        public var debounce: Int64
        /// A cycle for local writes starts no later than this after the first of them.
        public var longestWait: Int64
        /// The least time between two starts, the user's wish excepted.
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

    /// A cycle is due from a time on, for another cause than writes.
    private struct Due: Sendable, Hashable {
        var at: Int64
        var cause: Trigger
    }

    private let intervals: Intervals
    private var lastStart: Int64?
    private var firstWrite: Int64?
    private var lastWrite: Int64?
    private var due: Due?
    /// Time in the background is there since then: apart, since a round that may not be must take nothing else along.
    private var background: Int64?
    /// Nothing routine starts before this.
    private var holdUntil: Int64?
    /// The queue asked to be looked at then.
    private var wakeAt: Int64?
    /// The next cycle is the user's wish: it goes past our own back-off.
    public private(set) var isUserWaiting = false
    private var isRunning = false

    /// A scheduler whose first cycle is due at once.
    public init(_ intervals: Intervals = Intervals()) { self.intervals = intervals }

    /// Something happened.
    /// - Parameter spread: how much later than now it takes effect, for what a whole fleet notices at once.
    public mutating func trigger(_ trigger: Trigger, at now: Int64, spread: Int64 = 0) {
        switch trigger {
        case .localWrite:
            firstWrite = firstWrite ?? now
            lastWrite = now
        case .background:
            background = min(background ?? .max, now + max(0, spread))
        case .hint, .reconnected, .serverBack, .foreground, .started, .period, .retry:
            let time = now + max(0, spread)
            if due.map({ time < $0.at }) ?? true { due = Due(at: time, cause: trigger) }
        case .user:
            isUserWaiting = true
        }
    }

    /// A cycle began; what happened before it is served by it, what happens during it makes exactly one more.
    /// - Returns: why it was due.
    @discardableResult
    public mutating func started(at now: Int64) -> Trigger {
        let cause = cause(at: now)
        lastStart = now
        firstWrite = nil
        lastWrite = nil
        due = nil
        background = nil
        holdUntil = nil
        wakeAt = nil
        isUserWaiting = false
        isRunning = true
        return cause
    }

    /// A cycle ended.
    /// - Parameters:
    ///   - holdUntil: after a failure, the time before which nothing routine starts; then a cycle does.
    ///   - wakeAt: when the queue may go on.
    public mutating func ended(holdUntil: Int64? = nil, wakeAt: Int64? = nil) {
        isRunning = false
        self.holdUntil = holdUntil
        self.wakeAt = wakeAt
    }

    /// Whether a cycle that started now would be for the time in the background, and for nothing else.
    public func isForBackgroundAlone(at now: Int64) -> Bool { cause(at: now) == .background }

    /// The round in the background may not be: no cycle starts for it, and what else there is waits as it did.
    public mutating func forgetBackground() { background = nil }

    /// When the next cycle may start; `nil` while one runs.
    public func nextStart() -> Int64? {
        guard !isRunning else { return nil }
        guard !isUserWaiting else { return lastStart ?? .min }
        var earliest = holdUntil ?? [periodEnd, wakeAt ?? .max, writesEnd ?? .max].min() ?? .max
        earliest = min(earliest, due?.at ?? .max, background ?? .max)
        guard let lastStart else { return earliest }
        return max(earliest, lastStart + intervals.minimumInterval)
    }

    /// How long a start must still wait to be far enough from the last one, the user's wish excepted.
    func distance(at now: Int64) -> Int64 { lastStart.map { max(0, $0 + intervals.minimumInterval - now) } ?? 0 }

    private var periodEnd: Int64 { lastStart.map { $0 + intervals.period } ?? .min }

    private var writesEnd: Int64? {
        guard let firstWrite, let lastWrite else { return nil }
        return min(lastWrite + intervals.debounce, firstWrite + intervals.longestWait)
    }

    private func cause(at now: Int64) -> Trigger {
        if isUserWaiting { return .user }
        if let due, due.at <= now { return due.cause }
        if let holdUntil {
            if holdUntil <= now { return .retry }
        } else {
            if let writesEnd, writesEnd <= now { return .localWrite }
            if let wakeAt, wakeAt <= now { return .retry }
            if periodEnd <= now { return lastStart == nil ? .started : .period }
        }
        if let background, background <= now { return .background }
        return lastStart == nil ? .started : .period
    }
}
