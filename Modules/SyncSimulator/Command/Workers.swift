import Foundation

/// Runs seeds on several threads, each with seeds of its own.
enum Workers {
    /// - Returns: all threads' totals together. A seed that could not be run ends the program.
    static func run(
        seeds: Range<UInt64>, jobs: Int, until end: Date?,
        _ body: @escaping @Sendable (UInt64, inout RunTotals) throws -> Void
    ) -> RunTotals {
        let shared = Shared()
        DispatchQueue.concurrentPerform(iterations: max(jobs, 1)) { worker in  // live: a thread for each job
            var totals = RunTotals()
            var seed = seeds.lowerBound + UInt64(worker)
            while seed < seeds.upperBound, end.map({ Date() < $0 }) ?? true {  // live
                do { try body(seed, &totals) } catch {
                    print("seed \(seed) could not be run: \(error)")
                    exit(2)
                }
                seed += UInt64(max(jobs, 1))
            }
            shared.add(totals)
        }
        return shared.totals
    }

    private final class Shared: @unchecked Sendable {
        // Sendable: `sum` is used under `lock` alone.
        private let lock = NSLock()
        private var sum = RunTotals()
        var totals: RunTotals { lock.withLock { sum } }
        func add(_ totals: RunTotals) { lock.withLock { sum.add(totals) } }
    }
}
