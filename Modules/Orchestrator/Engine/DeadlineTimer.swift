import Dispatch
import Foundation

/// Ends calls whose deadline has passed: one timer for all of an engine's, by the system's clock.
///
/// As with requests (Decision 100), a task that sleeps beside each call would wake three threads: to arm the clock, to be told
/// that it is over, and to say so. Here a call puts itself on a list; the timer looks through it at the earliest deadline, after a
/// minute at the latest, and not at all while the list is empty.
final class DeadlineTimer: @unchecked Sendable {  // `timer` is thread-safe, all else is behind the lock
    /// A call on the list. Its task is touched under the lock alone, and it takes itself off the list, under the same lock,
    /// before that task ends.
    private struct Entry {
        let deadline: ContinuousClock.Instant
        let task: UnsafeCurrentTask
    }

    /// The timer does not count while the system is suspended, as the clock does: no wait is longer.
    private static let longest = Duration.seconds(60)

    private let lock = NSLock()
    private var entries: [Int: Entry] = [:]
    private var last = 0
    /// When the timer fires; `nil` while nobody waits for it.
    private var look: ContinuousClock.Instant?
    private let timer: any DispatchSourceTimer

    init() {
        timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "ferry.cycles"))  // live
        timer.setEventHandler { [weak self] in self?.endWhatIsDue() }
        timer.activate()
    }

    deinit { timer.cancel() }

    /// Runs `work` in the present task, which is cancelled when the time is over, and stays so: a task for this call alone.
    func limit<T: Sendable>(_ time: Duration, _ work: @Sendable () async -> T) async -> T {
        await withUnsafeCurrentTask { task in
            guard let task else { return await work() }
            let number = enter(Entry(deadline: .now + time, task: task))  // live
            let result = await work()
            lock.withLock { entries[number] = nil }
            return result
        }
    }

    private func enter(_ entry: Entry) -> Int {
        lock.withLock {
            last += 1
            entries[last] = entry
            if look.map({ $0 > entry.deadline }) ?? true { arm(entry.deadline) }
            return last
        }
    }

    private func endWhatIsDue() {
        lock.withLock {
            let now = ContinuousClock.now  // live
            look = nil
            for (number, entry) in entries where entry.deadline <= now {  // any order
                entry.task.cancel()
                // Who is cancelled may take a moment to end, but is asked no second time.
                entries[number] = nil
            }
            if let next = entries.values.map(\.deadline).min() { arm(next) }
        }
    }

    /// Under the lock.
    private func arm(_ deadline: ContinuousClock.Instant) {
        let wait = max(.zero, min(ContinuousClock.now.duration(to: deadline), Self.longest))  // live
        look = .now + wait  // live
        timer.schedule(
            deadline: .now() + .nanoseconds(Int(wait / .nanoseconds(1))), leeway: .milliseconds(1))  // live
    }
}
