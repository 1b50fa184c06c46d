/// Time since it was made, by a monotonic clock of any kind.
struct StopWatch: Sendable {
    private let elapsed: @Sendable () -> Duration

    init(_ clock: any Clock<Duration>) { self = Self.start(clock) }

    private init(elapsed: @escaping @Sendable () -> Duration) { self.elapsed = elapsed }

    private static func start<C: Clock<Duration>>(_ clock: C) -> StopWatch {
        let began = clock.now
        return StopWatch { began.duration(to: clock.now) }
    }

    /// Whole milliseconds.
    func milliseconds() -> Int64 { elapsed().milliseconds }
}
