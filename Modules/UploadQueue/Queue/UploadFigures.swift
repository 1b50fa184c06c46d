import SyncCore

/// How many changes are where.
public struct UploadCounts: Sendable, Hashable {
    /// Never sent, and free to go.
    public var waiting: Int
    /// Sent, without a verdict.
    public var inFlight: Int
    public var failed: Int
    public var blocked: Int
    /// How long the oldest waits that is neither failed nor blocked, in milliseconds by the device's clock.
    public var oldestAgeMilliseconds: Int64?

    public init(
        waiting: Int = 0, inFlight: Int = 0, failed: Int = 0, blocked: Int = 0, oldestAgeMilliseconds: Int64? = nil
    ) {
        self.waiting = waiting
        self.inFlight = inFlight
        self.failed = failed
        self.blocked = blocked
        self.oldestAgeMilliseconds = oldestAgeMilliseconds
    }

    init(_ summary: QueueSummary, nowMilliseconds: Int64) {
        self.init(
            waiting: summary.pending, inFlight: summary.inFlight, failed: summary.failed, blocked: summary.blocked,
            oldestAgeMilliseconds: summary.oldestMilliseconds.map { max(0, nowMilliseconds - $0) })
    }
}

/// How far a drain has come. Neither number ever falls, nor does `fraction`; at the end both are equal.
public struct UploadProgress: Sendable, Hashable {
    /// Changes that left the queue, by whatever verdict.
    public var done: Int
    /// Changes that left it or wait to go; grows with what the app writes meanwhile.
    public var total: Int
    /// `done` of `total`, 0 to 1; stands still rather than fall.
    public var fraction: Double

    public init(done: Int = 0, total: Int = 0, fraction: Double = 0) {
        self.done = done
        self.total = total
        self.fraction = fraction
    }

    /// Counts what left and what is still there.
    /// - Returns: whether the drain has ended.
    mutating func advance(left: Int, remaining: Int) -> Bool {
        done += left
        total = max(total, done + remaining)
        let hasEnded = remaining == 0
        // Changes that were merged or blocked left without being counted.
        if hasEnded { done = total }
        fraction = hasEnded ? 1 : max(fraction, Double(done) / Double(max(1, total)))
        return hasEnded
    }
}
