import CoreMetrics
import SyncCore

/// Counters and timers of the engine, by swift-metrics; told when a cycle has ended, never within a transaction.
///
/// No label holds an id, a name or a value: causes, ends and verdicts only, of which there are a few dozen.
struct EngineMetrics {
    private let factory: any MetricsFactory
    private var counters: [Name: Counter] = [:]
    private var timers: [String: Timer] = [:]

    init(_ factory: any MetricsFactory) { self.factory = factory }

    /// A cycle has ended.
    mutating func ended(_ report: CycleReport, cause: Scheduler.Trigger, milliseconds: Int64) {
        let end = report.end.name
        count("ferry_cycles", 1, ("cause", cause.rawValue), ("end", end))
        // One that was held back made no request, and took no time.
        guard report.requests > 0 else { return }
        timer("ferry_cycle_duration", end: end).recordMilliseconds(milliseconds)
        count("ferry_requests", report.requests)
        count("ferry_changes_sent", report.sent)
        for (verdict, number) in [
            ("applied", report.acknowledged), ("merged", report.merged), ("conflict", report.conflicts),
            ("rejected", report.refused), ("postponed", report.postponed),
        ] { count("ferry_verdicts", number, ("verdict", verdict)) }
        for (fate, number) in [("applied", report.received), ("held", report.held), ("removed", report.removed)] {
            count("ferry_records", number, ("fate", fate))
        }
        count("ferry_bytes", report.bytesSent, ("direction", "sent"))
        count("ferry_bytes", report.bytesReceived, ("direction", "received"))
    }

    /// An event that is worth an alarm, by its name.
    mutating func happened(_ event: SyncEvent) {
        guard let name = event.metric else { return }
        count("ferry_events", 1, ("event", name))
    }

    /// A counter's label, and the values of its dimensions.
    private struct Name: Hashable {
        var label: String
        var first: String
        var second: String
    }

    private mutating func count(
        _ label: String, _ number: Int, _ first: (String, String)? = nil, _ second: (String, String)? = nil
    ) {
        guard number > 0 else { return }
        let name = Name(label: label, first: first?.1 ?? "", second: second?.1 ?? "")
        if let counter = counters[name] { return counter.increment(by: number) }
        let counter = Counter(label: label, dimensions: [first, second].compactMap { $0 }, factory: factory)
        counters[name] = counter
        counter.increment(by: number)
    }

    private mutating func timer(_ label: String, end: String) -> Timer {
        let timer = timers[end] ?? Timer(label: label, dimensions: [("end", end)], factory: factory)
        timers[end] = timer
        return timer
    }
}

extension SyncEvent {
    /// The event's name in metrics; `nil` for those that happen all the time.
    var metric: String? {
        switch self {
        case .cycleEnded, .hintsOpened, .hintsLost: nil
        case .fullPassBegan: "fullPassBegan"
        case .fullPassEnded: "fullPassEnded"
        case .diverged: "diverged"
        case .breakerOpened: "breakerOpened"
        case .breakerClosed: "breakerClosed"
        case .handlerFailed: "handlerFailed"
        }
    }
}
