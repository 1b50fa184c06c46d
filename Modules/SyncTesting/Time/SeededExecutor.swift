import Foundation

/// An executor that runs one job at a time on the thread that drives it, and lets a seed choose which job is next.
///
/// It is a task executor and a serial executor in one, and it owns the virtual time: when nothing is ready, the time
/// jumps to the next deadline on its ``clock``. Two runs of one seed do the same jobs in the same order, and end with
/// the same ``traceHash``, as long as every job comes from jobs that it ran itself: one that is enqueued by another
/// thread is counted in ``foreignJobs``, and a run that has any proves nothing.
///
/// Made, driven and ended on one thread: `run` is synchronous, so a test calls it from synchronous code.
public final class SeededExecutor: TaskExecutor, SerialExecutor, @unchecked Sendable {
    // Sendable: `ready`, `held`, `generator` and the counters are read and written under `lock` alone (`NSLock`, since
    // the thread sanitizer does not see through `Synchronization.Mutex` on Linux); the rest is constant.

    /// Why a run came to its end.
    public enum End: Sendable, Hashable {
        /// Nothing is ready and nobody sleeps.
        case idle
        /// The time that it was given is over.
        case deadline
        /// The condition that was waited for holds.
        case condition
        /// So many jobs without an end: something goes round and round.
        case exhausted
    }

    private struct Ready {
        let job: UnownedJob
        /// Who runs it; `nil` is the executor itself.
        let lane: SeededLane?
    }

    /// The virtual time.
    public let clock: VirtualClock
    private let lock = NSLock()
    private let owner: pthread_t
    private var ready: [Ready] = []
    private var held: [ObjectIdentifier: [Ready]] = [:]
    private var generator: SeededGenerator
    private var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    private var foreign = 0
    private var count = 0

    /// The executor of a seed; the calling thread is the one that must drive it.
    public init(seed: UInt64, clock: VirtualClock = VirtualClock()) {
        generator = SeededGenerator(seed: seed, stream: 0x6578_6563)
        owner = pthread_self()
        self.clock = clock
    }

    /// Jobs that another thread enqueued: anything but 0 means that the run was not decided by its seed.
    public var foreignJobs: Int { lock.withLock { foreign } }

    /// Jobs run so far.
    public var jobsRun: Int { lock.withLock { count } }

    /// A number over everything that was chosen and noted so far; equal for two runs of one seed.
    public var traceHash: UInt64 { lock.withLock { hash } }

    /// Mixes an event of the test's own into the trace.
    public func note(_ event: some StringProtocol) {
        lock.withLock {
            for byte in event.utf8 { mix(UInt64(byte)) }
        }
    }

    public func enqueue(_ job: consuming ExecutorJob) {
        add(UnownedJob(job), lane: nil)
    }

    /// An executor of its own for one actor or one device, driven by this one.
    public func lane(_ name: String) -> SeededLane { SeededLane(name: name, parent: self) }

    /// Runs what is ready, and moves the time on, until nothing is left to do or a bound is met.
    /// - Parameters:
    ///   - deadline: the time up to which deadlines are waited for; the clock stands there at the end.
    ///   - maxJobs: a bound against what never ends.
    ///   - condition: asked before each job; the run ends once it holds.
    public func run(
        until deadline: VirtualClock.Instant? = nil, maxJobs: Int = 50_000_000, condition: () -> Bool = { false }
    ) -> End {
        precondition(
            pthread_equal(owner, pthread_self()) != 0, "A seeded executor is driven by the thread that made it.")
        var left = maxJobs
        while true {
            if condition() { return .condition }
            guard left > 0 else { return .exhausted }
            if let next = take() {
                left -= 1
                run(next)
                continue
            }
            guard let wake = clock.nextDeadline else {
                if let deadline { clock.advance(to: deadline) }
                return .idle
            }
            if let deadline, wake > deadline {
                clock.advance(to: deadline)
                return .deadline
            }
            clock.advance(to: wake)
        }
    }

    /// Runs `body` as a task to its end and returns what it returned.
    /// - Throws: what `body` threw; ``Stalled`` if everything came to rest before it was done.
    public func complete<Success: Sendable>(
        until deadline: VirtualClock.Instant? = nil, _ body: @escaping @Sendable () async throws -> Success
    ) throws -> Success {
        let box = ResultBox<Success>()
        // Driven to its end, or reported to have none.
        let task = Task(executorPreference: self) {  // owner: this call
            do { box.set(.success(try await body())) } catch { box.set(.failure(error)) }
        }
        let end = run(until: deadline) { box.value != nil }
        guard let result = box.value else {
            task.cancel()
            throw Stalled(end: end, at: clock.now)
        }
        return try result.get()
    }

    /// Everything came to rest, and what was waited for had not happened.
    public struct Stalled: Error, CustomStringConvertible {
        public let end: End
        public let at: VirtualClock.Instant
        public var description: String { "stalled (\(end)) at \(at)" }
    }

    func add(_ job: UnownedJob, lane: SeededLane?) {
        let isForeign = pthread_equal(owner, pthread_self()) == 0
        lock.withLock {
            if isForeign { foreign += 1 }
            if let lane, held[ObjectIdentifier(lane)] != nil {
                held[ObjectIdentifier(lane)]?.append(Ready(job: job, lane: lane))
            } else {
                ready.append(Ready(job: job, lane: lane))
            }
        }
    }

    func hold(_ lane: SeededLane) {
        lock.withLock {
            let id = ObjectIdentifier(lane)
            guard held[id] == nil else { return }
            held[id] = ready.filter { $0.lane === lane }
            ready.removeAll { $0.lane === lane }
        }
    }

    func release(_ lane: SeededLane) {
        lock.withLock {
            ready += held.removeValue(forKey: ObjectIdentifier(lane)) ?? []
        }
    }

    private func take() -> Ready? {
        lock.withLock {
            guard !ready.isEmpty else { return nil }
            let place = ready.count == 1 ? 0 : generator.below(ready.count)
            mix(UInt64(ready.count) << 32 | UInt64(place))
            count += 1
            // The order of the others is kept: it is part of what the seed decides.
            return ready.remove(at: place)
        }
    }

    private func run(_ next: Ready) {
        if let lane = next.lane {
            next.job.runSynchronously(
                isolatedTo: lane.asUnownedSerialExecutor(), taskExecutor: lane.asUnownedTaskExecutor())
        } else {
            next.job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
        }
    }

    /// Called under `lock`.
    private func mix(_ word: UInt64) {
        hash = (hash ^ word) &* 0x0000_0100_0000_01b3
        hash ^= hash >> 29
    }
}

/// An executor of its own for one actor or one device: jobs wait with all the others and are chosen by the same seed.
///
/// A device that is suspended holds its lane: its jobs wait until it is released, while the time goes on.
public final class SeededLane: TaskExecutor, SerialExecutor, Sendable {
    public let name: String
    private let parent: SeededExecutor

    init(name: String, parent: SeededExecutor) {
        self.name = name
        self.parent = parent
    }

    public func enqueue(_ job: consuming ExecutorJob) { parent.add(UnownedJob(job), lane: self) }

    /// Lets no job of this lane run until ``release()``.
    public func hold() { parent.hold(self) }

    /// Lets the jobs run again.
    public func release() { parent.release(self) }
}

/// Where a task leaves its result for the synchronous code that drives it.
final class ResultBox<Success: Sendable>: @unchecked Sendable {
    // Sendable: `stored` is read and written under `lock` alone.
    private let lock = NSLock()
    private var stored: Result<Success, any Error>?

    var value: Result<Success, any Error>? { lock.withLock { stored } }
    func set(_ result: Result<Success, any Error>) { lock.withLock { stored = result } }
}
