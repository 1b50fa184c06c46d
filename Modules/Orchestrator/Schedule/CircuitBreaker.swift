/// Stops trying a server that was reached and fails, and probes it now and then: a pure value.
///
/// Closed until `threshold` failures in a row; then open for a cool-down, after which exactly one probe may go. Its
/// success closes; its failure opens again for twice as long, up to `longest`. A try within a cool-down, by somebody's
/// wish or since the outside has changed, closes it too; failing, or given up, it leaves that as long as it was (decision 342). Times come in, of a
/// monotonic clock if no jump is to matter; none is read.
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
    /// When the cool-down ends, or ended, in which the probe went that is on its way.
    private var coolDownEnd: Int64 = 0
    /// Something outside has changed: the next request may go, whatever is left of the cool-down.
    private var isInvited = false
    /// The probe that is on its way was invited.
    private var wasInvited = false
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
            guard isOver || isProbeForced || isInvited else { return false }
            coolDownEnd = isOver ? now : until
            (wasInvited, isInvited) = (isInvited, false)
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
        isInvited = false
        state = .closed
    }

    /// The server was reached and failed (5xx, a time-out, a reset).
    /// - Parameter isProbe: whether it was the probe, where one is on its way; what fails beside it decides nothing.
    public mutating func failed(nowMilliseconds now: Int64, isProbe: Bool = true) {
        failures += 1
        switch state {
        case .probing where !isProbe: break
        case .closed where failures < threshold: break
        case .probing where coolDownEnd > now: state = .open(untilMilliseconds: coolDownEnd)
        case .closed, .probing: open(now)
        case .open: break
        }
    }

    /// A request ended without telling anything about the server (cancelled, no connection): a probe is over, and all is as it was
    /// before it.
    public mutating func learnedNothing(nowMilliseconds now: Int64) {
        guard case .probing = state else { return }
        state = .open(untilMilliseconds: max(now, coolDownEnd))
        isInvited = isInvited || wasInvited
    }

    /// A change of the outside (a link came, the app came to the front, a hint): the next request may go as a probe, after the one
    /// that is on its way.
    public mutating func invite() { isInvited = state != .closed }

    /// How long no request may go by itself, in milliseconds.
    public func remaining(nowMilliseconds now: Int64) -> Int64 {
        switch state {
        case .closed: 0
        case .open(let until): isInvited ? 0 : max(0, until - now)
        case .probing(let since): max(0, since + coolDownMilliseconds - now)
        }
    }

    private mutating func open(_ now: Int64) {
        let factor = Int64(1) << Int64(min(openings, 10))
        state = .open(untilMilliseconds: now + min(longestMilliseconds, coolDownMilliseconds * factor))
        openings += 1
    }
}
