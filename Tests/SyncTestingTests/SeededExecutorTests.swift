import Foundation
import SyncTesting
import Testing

/// What happened, in order; a value would be copied into the tasks.
private actor Journal {
    private(set) var lines: [String] = []
    func write(_ line: String) { lines.append(line) }
}

/// Five tasks that sleep and hop to an actor, on one executor.
private func scenario(seed: UInt64) throws -> (lines: [String], hash: UInt64, foreign: Int) {
    let executor = SeededExecutor(seed: seed)
    let journal = Journal()
    let clock = executor.clock
    let lines = try executor.complete {
        await withTaskGroup(of: Void.self) { group in
            for name in 0..<5 {
                group.addTask {
                    for step in 0..<4 {
                        await journal.write("\(name).\(step)")
                        await Task.yield()
                    }
                    do { try await clock.sleep(for: .seconds(name)) } catch { return }
                    await journal.write("\(name) woke at \(clock.now)")
                }
            }
        }
        return await journal.lines
    }
    return (lines, executor.traceHash, executor.foreignJobs)
}

@Suite struct SeededExecutorTests {
    @Test("One seed gives one order, and one hash over it", arguments: [1, 2, 3, 99] as [UInt64])
    func sameSeedSameOrder(seed: UInt64) throws {
        let (first, second) = (try scenario(seed: seed), try scenario(seed: seed))
        #expect(first.lines == second.lines)
        #expect(first.hash == second.hash)
        #expect(first.foreign == 0)
    }

    @Test("Other seeds give other orders")
    func otherSeedOtherOrder() throws {
        let orders = Set(try (1...20).map { try scenario(seed: $0).lines.joined(separator: " ") })
        #expect(orders.count > 10)
    }

    @Test("The time jumps from deadline to deadline, and nobody waits for it")
    func virtualTime() throws {
        let executor = SeededExecutor(seed: 1)
        let clock = executor.clock
        let woken = try executor.complete { () async throws -> Duration in
            try await clock.sleep(for: .seconds(3600))
            try await clock.sleep(for: .seconds(3600))
            return clock.now.elapsed
        }
        #expect(woken == .seconds(7200))
    }

    @Test("A run up to a deadline stops there, with the clock at it")
    func runUntil() throws {
        let executor = SeededExecutor(seed: 1)
        let clock = executor.clock
        let task = Task(executorPreference: executor) { try await clock.sleep(for: .seconds(10)) }
        #expect(executor.run(until: .init(.seconds(4))) == .deadline)
        #expect(clock.now.elapsed == .seconds(4))
        #expect(executor.run() == .idle)
        #expect(clock.now.elapsed == .seconds(10))
        _ = task
    }

    @Test("What waits for ever is reported as stalled")
    func stalled() throws {
        let executor = SeededExecutor(seed: 1)
        #expect(throws: SeededExecutor.Stalled.self) {
            try executor.complete {
                await withCheckedContinuation { (forgotten: CheckedContinuation<Void, Never>) in
                    Leak.shared.keep(forgotten)
                }
            }
        }
        Leak.shared.release()
        _ = executor.run()
    }

    @Test("A job that another thread enqueues is counted as foreign")
    func foreignThread() throws {
        let executor = SeededExecutor(seed: 1)
        let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
        let task = Task(executorPreference: executor) {
            var iterator = stream.makeAsyncIterator()
            return await iterator.next()
        }
        #expect(executor.run() == .idle)
        #expect(executor.foreignJobs == 0)
        let thread = Thread { continuation.yield(1) }
        thread.start()
        while executor.foreignJobs == 0 { sched_yield() }
        #expect(executor.run() == .idle)
        #expect(executor.foreignJobs == 1)
        _ = task
    }

    @Test("SCH-07 a lane that is held runs nothing while the time goes on")
    func heldLane() throws {
        let executor = SeededExecutor(seed: 1)
        let lane = executor.lane("device")
        let clock = executor.clock
        let journal = Journal()
        let task = Task(executorPreference: lane) {
            try await clock.sleep(for: .seconds(1))
            await journal.write("at \(clock.now.elapsed)")
        }
        _ = executor.run(until: .init(.zero))
        lane.hold()
        _ = executor.run(until: .init(.seconds(60)))
        #expect(try executor.complete { await journal.lines }.isEmpty)
        lane.release()
        #expect(executor.run() == .idle)
        #expect(try executor.complete { await journal.lines } == ["at 60.0 seconds"])
        _ = task
    }

    @Test("An actor with a lane for its executor runs on it")
    func actorOnLane() throws {
        let executor = SeededExecutor(seed: 7)
        let counter = Counter(executor.lane("counter"))
        let total = try executor.complete {
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<100 { group.addTask { await counter.increment() } }
            }
            return await counter.value
        }
        #expect(total == 100)
        #expect(executor.foreignJobs == 0)
    }
}

private actor Counter {
    private let lane: SeededLane
    private(set) var value = 0
    nonisolated var unownedExecutor: UnownedSerialExecutor { lane.asUnownedSerialExecutor() }
    init(_ lane: SeededLane) { self.lane = lane }
    func increment() { value += 1 }
}

/// Keeps a continuation so that it can be resumed at the end of a test that left it waiting.
private final class Leak: @unchecked Sendable {
    // Sendable: used by one test, on one thread.
    static let shared = Leak()
    private var kept: CheckedContinuation<Void, Never>?
    func keep(_ continuation: CheckedContinuation<Void, Never>) { kept = continuation }
    func release() {
        kept?.resume()
        kept = nil
    }
}
