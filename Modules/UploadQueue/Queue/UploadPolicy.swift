public import SyncCore

/// How the queue cuts, waits and gives up; the defaults are PROTOCOL.md's and DESIGN.md's.
public struct UploadPolicy: Sendable, Hashable {
    /// How chance is added to a delay, so that many devices don't come back at once.
    public enum Jitter: Sendable, Hashable {
        /// The delay, and up to so much more.
        case added(upTo: Duration)
        /// Anything from nothing to the delay.
        case full
    }

    /// The most that one claim takes; a 413 makes it less for a while.
    public var limits: ClaimLimits
    /// The first delay after a failure; it doubles with each further one in a row.
    public var baseDelay: Duration
    /// The first delay where the server failed inside (500).
    public var longerBaseDelay: Duration
    /// The longest delay, before chance is added.
    public var maxDelay: Duration
    public var jitter: Jitter
    /// How many failures of its own a change has before it is set aside.
    public var maxAttempts: Int
    /// How many failures in a row make a change that stands alone suspect.
    public var suspectAfter: Int
    /// How many failures in a row (5xx, time-outs) halve a request with several changes.
    public var halveAfter: Int
    /// From this conflict in a row on the successor goes without `check`.
    public var conflictsWithCheck: Int
    /// How many conflicts in a row there may be before the change is set aside.
    public var maxConflicts: Int
    /// How long a change may wait while the server is in reach before that is reported.
    public var stuckAfter: Duration
    /// Whether changes go by ``UploadQueue/run(sender:gate:)`` alone: ``UploadQueue/take(urgency:)`` gives nothing, also before that is at
    /// work. For who sends in another dialect than its cycles speak: a server takes one key in one of them only.
    public var goesBySender: Bool

    public init(
        limits: ClaimLimits = ClaimLimits(), baseDelay: Duration = .seconds(1),
        longerBaseDelay: Duration = .seconds(5), maxDelay: Duration = .seconds(900),
        jitter: Jitter = .added(upTo: .seconds(1)), maxAttempts: Int = 10, suspectAfter: Int = 3, halveAfter: Int = 3,
        conflictsWithCheck: Int = 5, maxConflicts: Int = 10, stuckAfter: Duration = .seconds(600),
        goesBySender: Bool = false
    ) {
        self.limits = limits
        self.baseDelay = baseDelay
        self.longerBaseDelay = longerBaseDelay
        self.maxDelay = maxDelay
        self.jitter = jitter
        self.maxAttempts = maxAttempts
        self.suspectAfter = suspectAfter
        self.halveAfter = halveAfter
        self.conflictsWithCheck = conflictsWithCheck
        self.maxConflicts = maxConflicts
        self.stuckAfter = stuckAfter
        self.goesBySender = goesBySender
    }

    /// `min(maxDelay, base · 2^(failures − 1))` and chance, in milliseconds; whatever the number of failures.
    /// - Parameter chance: 0..<1.
    func delay(failures: Int, isLonger: Bool, chance: Double) -> Int64 {
        let base = (isLonger ? longerBaseDelay : baseDelay).milliseconds
        let doublings = max(0, failures - 1)
        var delay = maxDelay.milliseconds
        if doublings < 62 {
            let (product, overflow) = base.multipliedReportingOverflow(by: 1 << Int64(doublings))
            if !overflow { delay = min(delay, product) }
        }
        switch jitter {
        case .added(let most): return delay + Int64((Double(most.milliseconds) * chance).rounded())
        case .full: return Int64((Double(delay) * chance).rounded())
        }
    }

    /// The longest that ``delay(failures:isLonger:chance:)`` gives.
    var longestDelay: Int64 {
        switch jitter {
        case .added(let most): maxDelay.milliseconds + most.milliseconds
        case .full: maxDelay.milliseconds
        }
    }
}

extension Duration {
    /// Whole milliseconds, towards zero.
    var milliseconds: Int64 { components.seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000 }
}
