import SyncCore

/// How long a sync by the user's wish waits between two cycles: a pure value.
///
/// Our own pauses are short and grow; what the server asked for is a floor under them.
struct RetryPauses: Sendable {
    /// A pause, and whether it can be cut short for a last try before the time is over.
    struct Pause: Sendable, Equatable {
        var wait: Duration
        /// Asked for by the server: a shorter one is of no use.
        var isServers = false

        /// What can be waited of it when so much time is left; `nil` if no try would fit behind it.
        func fitting(_ left: Duration) -> Duration? {
            if wait < left { return wait }
            let lastTry = Duration.milliseconds(300)
            return isServers || left <= lastTry ? nil : left - lastTry
        }
    }

    private let first: Duration
    private let longest: Duration
    private var own: Duration

    init(_ configuration: EngineConfiguration) {
        first = configuration.retryPause
        longest = configuration.longestRetryPause
        own = first
    }

    /// The pause before the next cycle; `nil` if none is worth while.
    mutating func next(after report: CycleReport, _ left: QueueSummary, nowMilliseconds now: Int64) -> Pause? {
        // What waits for the app's word keeps nothing from being sent.
        guard report.end == .complete || (report.end == .awaitsConfirmation && left.hasWork) else {
            guard let wait = Self.floor(of: report.end, own: own, now) else { return nil }
            defer { grow() }
            return Pause(wait: wait, isServers: wait > own)
        }
        guard left.hasWork, !left.schedule.needsCredentials else { return nil }
        let floors = [left.schedule.serverNotBeforeMilliseconds, left.schedule.changesNotBeforeMilliseconds]
        if let floor = floors.compactMap({ $0 }).max(), floor > now {
            return Pause(wait: .milliseconds(floor - now), isServers: true)
        }
        if report.acknowledged + report.merged + report.refused + report.conflicts > 0 {
            // It goes forward: what is left was made meanwhile, or waits behind what was just decided.
            own = first
            return Pause(wait: .zero)
        }
        defer { grow() }
        return Pause(wait: own)
    }

    /// The least pause after an end; `nil` where trying again by itself changes nothing.
    static func floor(of end: CycleEnd, own: Duration, _ now: Int64) -> Duration? {
        switch end {
        case .complete, .needsCredentials, .otherDataset, .awaitsConfirmation, .cancelled, .tooLong: nil
        case .store(let failure): failure.advice == .retry ? own : nil
        case .leaseHeld: own
        case .notNow(let until, _): until.map { max(own, .milliseconds($0 - now)) } ?? own
        case .exchange(let failure):
            switch failure.kind {
            case .authentication, .history, .permanent, .conflict: nil
            case .network, .temporary, .temporaryLonger, .tooLarge, .unknown:
                max(own, .milliseconds(Int64((failure.retryAfterSeconds ?? 0) * 1_000)))
            }
        }
    }

    private mutating func grow() { own = min(own * 2, longest) }
}
