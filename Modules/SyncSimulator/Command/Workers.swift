import Foundation

/// Runs seeds on several threads, each taking the next one as soon as it is free.
enum Workers {
    /// - Parameters:
    ///   - end: when no further seed is begun; `nil` for none.
    ///   - least: until so many seeds count, further ones are begun however late it is.
    ///   - interrupt: after it no further seed is begun, whatever `least` says.
    /// - Returns: all threads' totals together. A seed that could not be run ends the program.
    static func run(
        seeds: Range<UInt64>, jobs: Int, until end: Date?, least: UInt64 = 0, interrupt: Interrupt = Interrupt(),
        _ body: @escaping @Sendable (UInt64, inout RunTotals) throws -> Void
    ) -> RunTotals {
        let shared = Shared(seeds)
        DispatchQueue.concurrentPerform(iterations: max(jobs, 1)) { _ in  // live: a thread for each job
            var totals = RunTotals()
            func isLate() -> Bool { end.map { Date() >= $0 } ?? false }  // live
            while !interrupt.hasCome, let seed = shared.next(isLate: isLate(), least) {
                let counted = totals.counted
                do { try body(seed, &totals) } catch {
                    print("seed \(seed) could not be run: \(error)")
                    exit(2)
                }
                shared.note(counted: totals.counted - counted)
            }
            shared.add(totals)
        }
        return shared.totals
    }

    private final class Shared: @unchecked Sendable {
        // Sendable: `sum`, `rest` and `counted` are used under `lock` alone.
        private let lock = NSLock()
        private var sum = RunTotals()
        private var rest: Range<UInt64>
        private var counted: UInt64 = 0

        init(_ seeds: Range<UInt64>) { rest = seeds }

        /// In order: where the time ends the run, no seed between the first and the last was left out.
        func next(isLate: Bool, _ least: UInt64) -> UInt64? {
            lock.withLock { isLate && counted >= least ? nil : rest.popFirst() }
        }

        /// So many seeds more that count.
        func note(counted more: Int) { lock.withLock { counted += UInt64(more) } }

        var totals: RunTotals { lock.withLock { sum } }
        func add(_ totals: RunTotals) { lock.withLock { sum.add(totals) } }
    }
}
