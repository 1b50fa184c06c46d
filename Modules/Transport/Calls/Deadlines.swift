import Synchronization

/// How long a request may take; a request that passes one ends as `timedOut`.
public struct Deadlines: Sendable, Hashable {
    /// For the connection to come about; the HTTP client's own time-out should be no longer.
    public var connect: Duration
    /// For the next bytes of the answer.
    public var idle: Duration
    /// For the whole answer, once the request is sent.
    public var total: Duration
    /// The bytes per second that an answer must bring, on average, after its first `idle`.
    public var leastRate: Int
    /// The bytes per second that a request's body is given to leave; a body is allowed that much more time.
    public var leastUploadRate: Int
    /// For the app's credentials to come up with a token.
    public var credentials: Duration

    public init(
        connect: Duration = .seconds(10), idle: Duration = .seconds(30), total: Duration = .seconds(120),
        leastRate: Int = 512, leastUploadRate: Int = 16_384, credentials: Duration = .seconds(60)
    ) {
        self.connect = connect
        self.idle = idle
        self.total = total
        self.leastRate = leastRate
        self.leastUploadRate = leastUploadRate
        self.credentials = credentials
    }
}

/// A monotonic clock, whatever its type: time since it was made, and waiting.
struct Stopwatch: Sendable {
    let now: @Sendable () -> Duration
    let sleep: @Sendable (Duration) async throws -> Void
    /// Whether it is the system's own, which a timer can follow.
    let isLive: Bool

    init<C: Clock>(_ clock: C) where C.Duration == Duration {
        let start = clock.now
        now = { start.duration(to: clock.now) }
        sleep = { try await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
        isLive = clock is ContinuousClock
    }

    /// ``now`` in nanoseconds.
    var nanoseconds: Int64 { now().inNanoseconds }
}

/// The deadline of one call, moved by who makes progress and watched by one task, or by the ``Overseer``.
final class Watch: Sendable {
    private let stopwatch: Stopwatch
    private let deadlines: Deadlines
    /// Nanoseconds on the stopwatch.
    private let next = Atomic<Int64>(.max)
    private let end = Atomic<Int64>(.max)
    private let isOver = Atomic<Bool>(false)

    init(_ stopwatch: Stopwatch, _ deadlines: Deadlines) {
        self.stopwatch = stopwatch
        self.deadlines = deadlines
        waitForCredentials()
    }

    var now: Duration { stopwatch.now() }

    /// The app is asked for a token.
    func waitForCredentials() {
        end.store(.max, ordering: .relaxed)
        next.store(nanoseconds(now + deadlines.credentials), ordering: .relaxed)
    }

    /// A request with a body of so many bytes starts.
    func begin(uploading bytes: Int) {
        let allowance = Duration.seconds(Double(bytes) / Double(max(deadlines.leastUploadRate, 1)))
        let start = now + deadlines.connect + allowance
        end.store(nanoseconds(start + deadlines.total), ordering: .relaxed)
        next.store(nanoseconds(start + min(deadlines.idle, deadlines.total)), ordering: .relaxed)
    }

    /// The answer has begun or goes on.
    ///
    /// - Parameters:
    ///   - received: the answer's bytes so far.
    ///   - start: when its head came.
    func progress(received: Int, since start: Duration) throws(HTTPFailure) {
        let now = now
        let passed = now - start
        if passed > deadlines.idle {
            let due = (passed - deadlines.idle).inSeconds * Double(deadlines.leastRate)
            guard Double(received) >= due else {
                throw HTTPFailure(
                    .timedOut, "expected \(deadlines.leastRate) bytes a second; \(received) came in \(passed)")
            }
        }
        let idle = nanoseconds(now + deadlines.idle)
        next.store(min(idle, end.load(ordering: .relaxed)), ordering: .relaxed)
    }

    /// Whether the deadline was found to have passed.
    var hasExpired: Bool { isOver.load(ordering: .relaxed) }

    /// Looks whether the deadline has passed; once it has, it stays so.
    func hasPassed() -> Bool {
        if stopwatch.nanoseconds >= next.load(ordering: .relaxed) { isOver.store(true, ordering: .relaxed) }
        return hasExpired
    }

    /// When to look again, on the stopwatch. A deadline may also be moved forward, so no wait is longer than a part of the
    /// shortest.
    var nextLook: Int64 {
        min(next.load(ordering: .relaxed), nanoseconds(now + deadlines.idle / 3 + .milliseconds(1)))
    }

    /// Returns `true` when the deadline has passed, `false` when the task is cancelled.
    func expires() async -> Bool {
        while !hasPassed() {
            do { try await stopwatch.sleep(.nanoseconds(nextLook)) } catch { return false }  // kept: a cancellation
        }
        return true
    }

    private func nanoseconds(_ duration: Duration) -> Int64 { duration.inNanoseconds }
}

extension Duration {
    /// Whole nanoseconds; the greatest number there is for what is longer.
    var inNanoseconds: Int64 {
        let parts = components
        let (seconds, overflow) = parts.seconds.multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? .max : seconds &+ parts.attoseconds / 1_000_000_000
    }

    var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }
}
