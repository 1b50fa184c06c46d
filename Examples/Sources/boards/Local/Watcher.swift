import Ferry
import SyncCore

/// `sync --watch`: the engine runs by itself until somebody interrupts it, or the time is over, or the database that stands under
/// its path is another one.
struct Watcher {
    let engine: SyncEngine
    let store: Store
    /// Whether nothing may be printed but the one value at the end.
    let isJSON: Bool

    /// What came of it.
    struct Watched {
        /// All cycles together.
        var report = CycleReport()
        /// The database is to be opened anew: another one stands there, or an operation found it damaged.
        var needsOpening = false
    }

    /// Runs, tells of each cycle that moved something, and adds them up.
    func run(for limit: Duration?, until interruption: Interruption) async throws -> Watched {
        let events = await engine.events()
        return try await withThrowingTaskGroup(of: Ended.self) { group in
            group.addTask { .told(await tell(events)) }
            group.addTask { .engine(needsOpening: try await runEngine(for: limit, until: interruption)) }
            var total = Watched()
            for try await ended in group {
                switch ended {
                case .engine(let needsOpening):
                    total.needsOpening = needsOpening
                    group.cancelAll()
                case .told(let report): total.report = report
                }
            }
            return total
        }
    }

    /// Runs the engine until one of the reasons to end. It is cancelled, not told to stop: one that has not begun to run would not hear it.
    /// - Returns: whether the database is to be opened anew.
    private func runEngine(for limit: Duration?, until interruption: Interruption) async throws -> Bool {
        let found = store.standing
        return try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await engine.run()
                return false
            }
            group.addTask { await noticeOthers(since: found) }
            group.addTask {
                await interruption.wait()
                return false
            }
            if let limit {
                group.addTask {
                    do { try await Task.sleep(for: limit) } catch {
                        // kept: something else ended first.
                    }
                    return false
                }
            }
            let needsOpening = try await group.next() ?? false
            group.cancelAll()
            while try await group.next() != nil {}
            return needsOpening
        }
    }

    /// Wakes the engine for what other processes wrote: it hears of this one's writes only.
    ///
    /// Looks ten times a second, which costs one small read; returns when the task is cancelled.
    /// - Parameter found: how the file stood at the beginning: damage that an opening could not mend is no reason for another one.
    /// - Returns: whether the database is to be opened anew.
    private func noticeOthers(since found: FileStanding) async -> Bool {
        var known = QueueSummary()
        while true {
            let standing = store.standing
            if standing == .replaced || standing != found { return true }
            // A failing database is the next cycle's to tell.
            if let queue = try? await store.summary() {
                let isNew = queue.pending > known.pending || queue.oldestMilliseconds != known.oldestMilliseconds
                if isNew, queue.pending > 0 { await engine.trigger(.localWrite) }
                known = queue
            }
            do { try await Task.sleep(for: .milliseconds(100)) } catch { return false }
        }
    }

    /// Which of the tasks of a watch came to its end.
    private enum Ended: Sendable {
        case engine(needsOpening: Bool)
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
