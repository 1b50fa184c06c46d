import Foundation
import Synchronization
import Testing

@testable import SyncSimulator

@Suite struct WorkersTests {
    private func run(until end: Date?, least: UInt64) -> [UInt64] {
        let seen = Mutex([UInt64]())
        _ = Workers.run(seeds: 7..<17, jobs: 2, until: end, least: least) { seed, _ in seen.withLock { $0.append(seed) }
        }
        return seen.withLock { $0.sorted() }
    }

    @Test("A run whose time is over begins as many seeds as were asked for at least, in order")
    func least() {
        #expect(run(until: .distantPast, least: 0).isEmpty)
        #expect(run(until: .distantPast, least: 4) == [7, 8, 9, 10])
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
