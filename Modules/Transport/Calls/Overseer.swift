import Dispatch

/// Ends the calls of one ``CallStack`` whose deadline has passed: one timer for all of them, by the system's clock.
///
/// A task that sleeps for each call wakes three threads more than the call itself needs: to arm the clock, to be told that
/// it is over, and to say so. Here a call only puts itself on a list. The timer runs while somebody is on it and one look
/// longer, so calls that follow each other arm it once in a third of ``Deadlines/idle``.
///
/// Sendable because `timer` is thread-safe, and all else is constant or behind the lock.
final class Overseer: @unchecked Sendable {
    private struct State: Sendable {
        var calls: [ObjectIdentifier: Overseen] = [:]
        /// When the timer fires, on the stopwatch; `nil` while nobody waits for it.
        var look: Int64?
    }

    /// A call on the list. Sendable because the task is touched under the list's lock alone, and a call takes itself off the
    /// list, under the same lock, before its task ends.
    private struct Overseen: @unchecked Sendable {
        let watch: Watch
        let task: UnsafeCurrentTask
    }

    private let state = Locked(State())
    private let stopwatch: Stopwatch
    private let timer: any DispatchSourceTimer

    init(_ stopwatch: Stopwatch) {
        self.stopwatch = stopwatch
        timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "ferry.deadlines"))  // live
        timer.setEventHandler { [weak self] in self?.look() }
        timer.activate()
    }

    deinit { timer.cancel() }

    /// Runs `work`, whose task is cancelled when the deadline of `watch` passes.
    func oversee<T: Sendable>(_ watch: Watch, _ work: @concurrent @Sendable () async -> T) async -> T {
        await withUnsafeCurrentTask { task in
            guard let task else { return await work() }
            enter(Overseen(watch: watch, task: task))
            let result = await work()
            state.withLock { _ = $0.calls.removeValue(forKey: ObjectIdentifier(watch)) }
            return result
        }
    }

    private func enter(_ call: Overseen) {
        let wanted = call.watch.nextLook
        state.withLock { state in
            state.calls[ObjectIdentifier(call.watch)] = call
            if let look = state.look, look <= wanted { return }
            arm(&state, wanted)
        }
    }

    /// Ends what is due, and comes again as long as there is anybody.
    private func look() {
        state.withLock { state in
            for call in state.calls.values where call.watch.hasPassed() { call.task.cancel() }
            state.look = nil
            // Whose deadline has passed may take a moment to end, but is asked no second time.
            let waiting = state.calls.values.filter { !$0.watch.hasExpired }
            if let next = waiting.map(\.watch.nextLook).min() { arm(&state, next) }
        }
    }

    /// Under the lock, so that of two times the one that was noted last is the timer's.
    private func arm(_ state: inout State, _ time: Int64) {
        state.look = time
        let wait = max(0, time - stopwatch.nanoseconds)
        timer.schedule(deadline: .now() + .nanoseconds(Int(wait)), leeway: .milliseconds(1))  // live
    }
}
