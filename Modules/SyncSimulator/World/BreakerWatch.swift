import CoreMetrics
import SyncTesting

/// Sees a device's breaker open, and what becomes of the probes: by the engine's metrics, which are told at once and by no job of
/// their own, so that looking changes nothing.
final class BreakerWatch: MetricsFactory, @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.
    private let patience: StormTape.Patience
    private let clock: VirtualClock
    private let record: Record
    /// While it is open: when its cool-down is over, and how often it opened.
    private var open: (until: Duration, openings: Int)?

    init(_ patience: StormTape.Patience, clock: VirtualClock, record: Record) {
        self.patience = patience
        self.clock = clock
        self.record = record
    }

    /// How much of the cool-down is left, in milliseconds.
    var remaining: Int64 {
        guard let open, open.until > clock.now.elapsed else { return 0 }
        return (open.until - clock.now.elapsed).components.seconds * 1_000
    }

    private func opened() {
        let now = clock.now.elapsed
        if let open {
            // A try by the user's wish leaves the cool-down as it was.
            guard now >= open.until else { return }
            record.cover(.halfOpenFailed)
        } else {
            record.cover(.breakerOpened)
        }
        let openings = open?.openings ?? 0
        let wait = min(patience.longest, patience.coolDown << Int64(min(openings, 10)))
        // The engine counts whole milliseconds, from its own beginning.
        open = (now + .milliseconds(wait - 1), openings + 1)
    }

    private func closed() {
        if let open, clock.now.elapsed >= open.until { record.cover(.halfOpenSucceeded) }
        open = nil
    }

    // MARK: Metrics

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        switch dimensions.first(where: { label == "ferry_events" && $0.0 == "event" })?.1 {
        case "breakerOpened": Told { [unowned self] in opened() }
        case "breakerClosed": Told { [unowned self] in closed() }
        default: NOOPMetricsHandler.instance
        }
    }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        NOOPMetricsHandler.instance
    }

    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler { NOOPMetricsHandler.instance }
    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) {}
    func destroyTimer(_ handler: any TimerHandler) {}

    private final class Told: CounterHandler, @unchecked Sendable {
        // Sendable: used by the one thread that drives the executor.
        private let tell: () -> Void
        init(_ tell: @escaping () -> Void) { self.tell = tell }
        func increment(by: Int64) { tell() }
        func reset() {}
    }
}
