import Ferry
import Foundation
import SyncCore

/// `sync --watch`: the engine runs by itself until somebody interrupts it, or the time is over.
struct Watcher {
    let engine: SyncEngine
    let store: Store
    /// Whether nothing may be printed but the one value at the end.
    let isJSON: Bool

    /// Runs, tells of each cycle that moved something, and sums up.
    func run(for limit: Duration?) async throws -> SyncOutcome {
        let interrupts = Interrupts()
        let events = await engine.events()
        let total = try await withThrowingTaskGroup(of: Ended.self) { group in
            group.addTask { [engine] in
                try await engine.run()
                return .engine
            }
            group.addTask { .told(await tell(events)) }
            group.addTask {
                await interrupts.wait(atMost: limit)
                return .interruption
            }
            var total = CycleReport()
            for try await ended in group {
                switch ended {
                case .interruption: await engine.stop()
                case .engine: group.cancelAll()
                case .told(let report): total = report
                }
            }
            return total
        }
        return SyncOutcome(
            SyncSummary(report: total, queue: try await store.summary(), held: try await store.position().held))
    }

    /// Which of the three tasks of a watch came to its end.
    private enum Ended: Sendable {
        case engine, interruption
        case told(CycleReport)
    }

    /// Adds the cycles up until the task is cancelled.
    private func tell(_ events: AsyncStream<SyncEvent>) async -> CycleReport {
        var total = CycleReport()
        for await event in events {
            guard case .cycleEnded(let report) = event else { continue }
            total.add(report)
            let moved = report.sent + report.received + report.merged + report.refused
            guard !isJSON, moved > 0 || report.end != .complete else { continue }
            var line = "sent \(report.sent), received \(report.received), merged \(report.merged), "
            line += "refused \(report.refused)"
            if let cause = report.end.cause { line += " (\(cause))" }
            Console.print(line)
        }
        return total
    }
}

/// SIGINT and SIGTERM as something that can be waited for.
final class Interrupts: @unchecked Sendable {  // Sendable: `sources` is set once and never touched again.
    private let stream: AsyncStream<Void>
    private let sources: [any DispatchSourceSignal]

    init() {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.stream = stream
        sources = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number)
            source.setEventHandler { continuation.yield() }
            source.resume()
            return source
        }
    }

    /// Returns after an interruption, or after the time.
    func wait(atMost limit: Duration?) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in self.stream { return } }
            if let limit {
                group.addTask {
                    // Only cancellation ends it early, and then nobody waits any more.
                    do { try await Task.sleep(for: limit) } catch { return }
                }
            }
            await group.next()
            group.cancelAll()
        }
    }
}
