public import SyncCore

/// Whether a request may go now: the one value that the cycle and both queues ask. A pure value; times come in.
///
/// | who says no | whom it stops |
/// | --- | --- |
/// | the server (`Retry-After`, `Backoff`) | everybody |
/// | a lane's conditions | everybody on that lane, until they hold or the user overrides them |
/// | the breaker | the engine by itself |
/// | a link that is said to be down | the engine by itself, never longer than `longestDoubt` |
public struct SyncGate: Sendable, Hashable {
    /// What a request is about, so that it can have conditions of its own.
    public struct Lane: RawRepresentable, Sendable, Hashable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        /// Changes and pages: what cycles carry.
        public static let records = Lane(rawValue: "records")
        /// Large contents of an app's own, such as attachments.
        public static let contents = Lane(rawValue: "contents")
    }

    /// What must hold before each of a lane's requests goes. What the platform does not tell is no obstacle.
    public struct Conditions: OptionSet, Sendable, Hashable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        /// Any network will do.
        public static let anyNetwork: Conditions = []
        /// Not over a link whose bytes cost money.
        public static let unmetered = Conditions(rawValue: 1)
        /// Only while the device is charging.
        public static let charging = Conditions(rawValue: 2)
        /// Not while the user asked for little traffic.
        public static let notInLowDataMode = Conditions(rawValue: 4)
    }

    /// A moment by both clocks, in milliseconds: the wall's for what is told, the monotonic one for what is waited.
    public struct Moment: Sendable, Hashable {
        /// Since 1970, by the device's clock.
        public var wall: Int64
        /// Since the engine was made, by a clock that does not jump.
        public var elapsed: Int64

        public init(wall: Int64, elapsed: Int64) {
            self.wall = wall
            self.elapsed = elapsed
        }
    }

    /// The breaker; events of requests go to it.
    public internal(set) var breaker: CircuitBreaker
    /// What opened the breaker, in words.
    var breakerCause: String?
    /// The server's word, which binds every request.
    var serverWord = ServerWord()
    private var serverCause: String?
    private var conditions: [Lane: Conditions]
    /// The user's word that a lane's conditions do not count, with its end.
    private var overrides: [Lane: Int64] = [:]
    /// The newest path that was told; `nil` where nothing is known.
    public private(set) var path: NetworkPath?
    /// Whether the device is charging; `nil` where nothing is known.
    public private(set) var isCharging: Bool?
    private let longestDoubt: Int64
    /// Since when the link is said to be down, or when a request went last all the same.
    private var doubtSince: Int64?

    /// - Parameters:
    ///   - conditions: of lanes; one that is not named takes any network.
    ///   - longestDoubtMilliseconds: how long a platform is believed that says there is no network.
    public init(
        breaker: CircuitBreaker = CircuitBreaker(), conditions: [Lane: Conditions] = [:],
        longestDoubtMilliseconds: Int64 = 300_000
    ) {
        self.breaker = breaker
        self.conditions = conditions
        longestDoubt = longestDoubtMilliseconds
    }

    // MARK: Asking

    /// The answer for this moment; asking has no effect.
    public func answer(_ lane: Lane, _ urgency: Urgency, at now: Moment) -> GateAnswer {
        if let left = serverWord.left(elapsed: now.elapsed) {
            return closed(left, now, serverCause ?? "the server asked for a pause")
        }
        return own(lane, urgency, at: now)
    }

    /// The same for a cycle that begins now: where it is open, its first request goes, as the breaker's probe if it is
    /// open. The server's word is not asked: what was kept of it is read in the cycle.
    mutating func enter(_ lane: Lane, _ urgency: Urgency, at now: Moment) -> GateAnswer {
        let answer = own(lane, urgency, at: now)
        guard answer == .open else { return answer }
        _ = breaker.mayGo(nowMilliseconds: now.elapsed, isProbeForced: urgency == .user)
        if doubtSince != nil { doubtSince = now.elapsed }
        return .open
    }

    private func own(_ lane: Lane, _ urgency: Urgency, at now: Moment) -> GateAnswer {
        if let cause = unmet(lane, at: now) { return .closed(untilMilliseconds: nil, cause: cause) }
        guard urgency == .routine else { return .open }
        if let doubtSince, now.elapsed - doubtSince < longestDoubt {
            return closed(doubtSince + longestDoubt - now.elapsed, now, "there is no network")
        }
        if !breaker.wouldGo(nowMilliseconds: now.elapsed) {
            return closed(
                breaker.remaining(nowMilliseconds: now.elapsed), now,
                "the server keeps failing (\(breakerCause ?? "no answer")); it is tried again later")
        }
        return .open
    }

    private func closed(_ left: Int64, _ now: Moment, _ cause: String) -> GateAnswer {
        .closed(untilMilliseconds: now.wall + left, cause: cause)
    }

    /// What keeps the lane's conditions from holding, in words; `nil` where they hold. A cycle that has entered asks before each of
    /// its requests: they are about what its bytes cost.
    func unmet(_ lane: Lane, at now: Moment) -> String? {
        guard let conditions = conditions[lane], !conditions.isEmpty else { return nil }
        if let end = overrides[lane], now.elapsed < end { return nil }
        if conditions.contains(.unmetered), path?.isMetered == true { return "waits for a network that costs nothing" }
        if conditions.contains(.notInLowDataMode), path?.isLowData == true {
            return "waits for the end of low-data mode"
        }
        if conditions.contains(.charging), isCharging == false { return "waits until the device is charging" }
        return nil
    }

    // MARK: Events

    /// The platform says how the device is connected.
    /// - Returns: whether it is a network that was not there before: worth a cycle at once.
    mutating func noticed(_ path: NetworkPath, at now: Moment) -> Bool {
        let before = self.path
        self.path = path
        guard path.isReachable else {
            if doubtSince == nil { doubtSince = now.elapsed }
            return false
        }
        doubtSince = nil
        guard let before else { return false }
        return !before.isReachable || before.link != path.link
    }

    /// Nobody tells any more how the device is connected.
    mutating func lostPath() {
        path = nil
        doubtSince = nil
    }

    /// Nobody listens any more to who tells it: what was said last stays for conditions, but a link that is said to be down may
    /// be there again.
    mutating func leftPath() { doubtSince = nil }

    /// Whether a lane's conditions go by what the platform says of the link, as long as nobody overrides them.
    func needsPath(_ lane: Lane, at now: Moment) -> Bool {
        guard let conditions = conditions[lane] else { return false }
        if let end = overrides[lane], now.elapsed < end { return false }
        return !conditions.isDisjoint(with: [.unmetered, .notInLowDataMode])
    }

    /// Whether the device is charging.
    mutating func noticed(isCharging: Bool?) { self.isCharging = isCharging }

    /// What must hold for a lane from now on.
    mutating func set(_ conditions: Conditions, for lane: Lane) { self.conditions[lane] = conditions }

    /// The user wants the lane's requests to go whatever its conditions; for so long, or not any more.
    mutating func override(_ lane: Lane, forMilliseconds limit: Int64?, at now: Moment) {
        overrides[lane] = limit.map { now.elapsed.addingReportingOverflow($0) }.map {
            $0.overflow ? .max : $0.partialValue
        }
    }

    /// The server's word as it was kept; how long it still stands.
    mutating func learned(_ schedule: QueueSchedule, at now: Moment) -> Int64? {
        serverCause = schedule.cause ?? serverCause
        return serverWord.remaining(schedule.serverNotBeforeMilliseconds, wall: now.wall, elapsed: now.elapsed)
    }

    /// The server asked for a pause just now, whoever's request it was; the queue keeps it durably.
    mutating func asked(pauseSeconds: Double, cause: String, at now: Moment) {
        guard pauseSeconds > 0 else { return }
        serverCause = cause
        serverWord.asked(milliseconds: Int64(min(pauseSeconds, 86_400) * 1_000), elapsed: now.elapsed)
    }

    /// A request leaves by another way than a cycle: where the breaker's cool-down is over, it is its probe. One that goes all the
    /// same while none may go is none, and only its success counts.
    /// - Returns: the mark of the probe, if it is that (``isProbe(_:)``).
    mutating func leaves(at now: Moment) -> CircuitBreaker.State? {
        guard breaker.state != .closed, breaker.mayGo(nowMilliseconds: now.elapsed) else { return nil }
        return breaker.state
    }

    /// Whether the probe of this mark is on its way still: another may have taken its place, or decided.
    func isProbe(_ mark: CircuitBreaker.State?) -> Bool {
        if case .probing? = mark { breaker.state == mark } else { false }
    }

    /// Something outside has changed: the breaker's next request may go as its probe, and a link that is said to be down
    /// is tried.
    mutating func invite(at now: Moment) {
        breaker.invite()
        if doubtSince != nil { doubtSince = now.elapsed - longestDoubt }
    }
}
