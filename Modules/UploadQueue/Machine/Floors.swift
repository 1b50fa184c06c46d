import SyncCore

/// The times before which nothing goes, by the monotonic clock, so that a jump of the wall clock neither frees nor jails.
struct Floors: Sendable, Hashable {
    /// The longest that a server may make us wait: 24 hours (PROTOCOL.md, section 4).
    static let longestServerPause: Int64 = 86_400_000

    /// Our own back-off; the user's wish goes past it.
    var own: Int64?
    /// The server's word about every request (`Retry-After`, `Backoff`).
    var server: Int64?
    /// The server's word about changes (a `retry` verdict).
    var changes: Int64?

    init() {}

    /// The floors of a schedule from durable memory; one beyond what can have been asked for means that the clock jumped.
    init(_ schedule: QueueSchedule, at now: Moment, longestOwn: Int64) {
        func floor(_ time: Int64?, _ longest: Int64) -> Int64? {
            guard let time, time > now.wall else { return nil }
            let (left, overflow) = time.subtractingReportingOverflow(now.wall)
            return now.elapsed + (overflow ? longest : min(left, longest))
        }
        own = floor(schedule.notBeforeMilliseconds, longestOwn)
        server = floor(schedule.serverNotBeforeMilliseconds, Self.longestServerPause)
        changes = floor(schedule.changesNotBeforeMilliseconds, Self.longestServerPause)
    }

    /// The floor that holds now, for this urgency.
    func standing(_ urgency: Urgency, at now: Moment) -> Int64? {
        let words = [server, changes, urgency == .user ? nil : own]
        return words.compactMap { $0 }.filter { $0 > now.elapsed }.max()
    }

    /// Raises the server's floors; one that was asked for before and ends later stays.
    mutating func raise(server pause: Double?, changes retry: Double?, at now: Moment) {
        if let pause = Self.milliseconds(pause) { server = max(server ?? .min, now.elapsed + pause) }
        if let retry = Self.milliseconds(retry) { changes = max(changes ?? .min, now.elapsed + retry) }
    }

    /// Writes the floors into the schedule as times of day; those that are over are left out.
    func write(into schedule: inout QueueSchedule, at now: Moment) {
        func wall(_ floor: Int64?) -> Int64? {
            guard let floor, floor > now.elapsed else { return nil }
            return now.wall + (floor - now.elapsed)
        }
        schedule.notBeforeMilliseconds = wall(own)
        schedule.serverNotBeforeMilliseconds = wall(server)
        schedule.changesNotBeforeMilliseconds = wall(changes)
    }

    /// Nonsense and negative pauses are ignored, long ones cut at 24 hours.
    private static func milliseconds(_ seconds: Double?) -> Int64? {
        guard let seconds, seconds >= 0 else { return nil }
        return Int64((min(seconds, 86_400) * 1_000).rounded(.up))
    }
}
