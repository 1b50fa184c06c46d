import Foundation
import Synchronization
import Testing

@testable import SyncSimulator

@Suite struct WorkersTests {
    /// - Parameter counts: which of the seeds count.
    private func run(until end: Date?, least: UInt64, counts: @escaping @Sendable (UInt64) -> Bool = { _ in true })
        -> [UInt64]
    {
        let seen = Mutex([UInt64]())
        _ = Workers.run(seeds: 7..<17, jobs: 1, until: end, least: least) { seed, totals in
            seen.withLock { $0.append(seed) }
            totals.add(
                SeedReport(
                    seed: seed, devices: 2, localWrites: 50, writers: counts(seed) ? 2 : 1, faults: ["crash": 3],
                    coverage: [:],
                    violations: [], traceHash: 0, trace: [], requests: 1, virtualTime: .zero, isComplete: true))
        }
        return seen.withLock { $0.sorted() }
    }

    @Test("A run whose time is over begins as many seeds as it takes for so many to count, in order")
    func least() {
        #expect(run(until: .distantPast, least: 0).isEmpty)
        #expect(run(until: .distantPast, least: 4) == [7, 8, 9, 10])
        #expect(run(until: .distantPast, least: 4) { $0 != 8 && $0 != 9 } == [7, 8, 9, 10, 11, 12])
        #expect(run(until: .distantPast, least: 40) == Array(7..<17))
        #expect(run(until: .distantFuture, least: 4) == Array(7..<17))
        #expect(run(until: nil, least: 0) == Array(7..<17))
    }

    @Test("After an interrupt no further seed is begun, and what ran is told")
    func interrupted() {
        let interrupt = Interrupt()
        let seen = Mutex([UInt64]())
        _ = Workers.run(seeds: 7..<17, jobs: 1, until: nil, least: 10, interrupt: interrupt) { seed, _ in
            seen.withLock { $0.append(seed) }
            if seed == 9 { interrupt.come() }
        }
        #expect(seen.withLock { $0 } == [7, 8, 9])
    }

    @Test("Numbers beyond what can be counted end at the last seed, and threads at a thousand")
    func largeNumbers() throws {
        let arguments = try Arguments(["--seeds", "\(UInt64.max)", "--from", "3", "--jobs", "\(UInt64.max)"])
        #expect(arguments.seeds == 3..<UInt64.max)
        #expect(arguments.jobs == 1_000)
    }
}
