/// Stops trying a server that was reached and fails, and probes it now and then: a pure value.
///
/// Closed until `threshold` failures in a row; then open for a cool-down, after which exactly one probe may go. Its
/// success closes; its failure opens again for twice as long, up to `longest`. Times come in, of a monotonic clock if no
/// jump is to matter; none is read.
public struct CircuitBreaker: Sendable, Hashable {
    /// What it does with requests.
    public enum State: Sendable, Hashable {
        /// They go.
        case closed
        /// None goes before this time, but for the user's wish and an invited probe.
        case open(untilMilliseconds: Int64)
        /// One probe is on its way since this time; a probe that never comes back is forgotten after a cool-down.
        case probing(sinceMilliseconds: Int64)
    }

    /// Where it stands now.
    public private(set) var state = State.closed
    private var failures = 0
    private var openings = 0
    private let threshold: Int
    private let coolDownMilliseconds: Int64
    private let longestMilliseconds: Int64

    /// - Parameters:
    ///   - threshold: so many failures in a row open it.
    ///   - coolDownMilliseconds: how long it stays open the first time; twice as long after each probe that fails.
    ///   - longestMilliseconds: the longest that it stays open.
    public init(
        threshold: Int = 5, coolDownMilliseconds: Int64 = 30 * 60_000, longestMilliseconds: Int64 = 4 * 3_600_000
    ) {
        self.threshold = threshold
        self.coolDownMilliseconds = coolDownMilliseconds
        self.longestMilliseconds = longestMilliseconds
    }

    /// Whether a request may go now; for a probe, asking is what starts it.
    public mutating func mayGo(nowMilliseconds now: Int64, isProbeForced: Bool = false) -> Bool {
        switch state {
        case .closed:
            return true
        case .open(let until):
            // A wall clock that jumped back must not hold the breaker open beyond what was meant.
            let isOver = now >= until || until - now > longestMilliseconds
            guard isOver || isProbeForced else { return false }
            state = .probing(sinceMilliseconds: now)
            return true
        case .probing(let since):
            guard isProbeForced || now - since >= coolDownMilliseconds || now < since else { return false }
            state = .probing(sinceMilliseconds: now)
            return true
        }
    }

    /// The same without an effect: what asking would say.
    public func wouldGo(nowMilliseconds now: Int64, isProbeForced: Bool = false) -> Bool {
        var copy = self
        return copy.mayGo(nowMilliseconds: now, isProbeForced: isProbeForced)
    }

    /// The server answered as it should, whatever its verdicts.
    public mutating func succeeded() {
        failures = 0
        openings = 0
        state = .closed
    }

    /// The server was reached and failed (5xx, a time-out, a reset).
    public mutating func failed(nowMilliseconds now: Int64) {
        failures += 1
        switch state {
        case .closed where failures < threshold: break
        case .closed, .probing: open(now)
        case .open: break
        }
    }

    /// A request ended without telling anything about the server (cancelled, no connection): a probe is over.
    public mutating func learnedNothing(nowMilliseconds now: Int64) {
        if case .probing = state { state = .open(untilMilliseconds: now) }
    }

    /// A change of the outside (a link came, the app came to the front, a hint): the next request may go as a probe.
    public mutating func invite(nowMilliseconds now: Int64) {
        if case .open = state { state = .open(untilMilliseconds: now) }
    }

    /// How long no request may go by itself, in milliseconds.
    public func remaining(nowMilliseconds now: Int64) -> Int64 {
        switch state {
        case .closed: 0
        case .open(let until): max(0, until - now)
        case .probing(let since): max(0, since + coolDownMilliseconds - now)
        }
    }

    private mutating func open(_ now: Int64) {
        let factor = Int64(1) << Int64(min(openings, 10))
        state = .open(untilMilliseconds: now + min(longestMilliseconds, coolDownMilliseconds * factor))
        openings += 1
    }
}
