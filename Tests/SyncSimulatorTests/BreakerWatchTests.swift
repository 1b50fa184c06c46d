import CoreMetrics
import SyncTesting
import Testing

@testable import SyncSimulator

/// What is said of a breaker by what its engine's metrics tell.
@Suite struct BreakerWatchTests {
    private let executor = SeededExecutor(seed: 1)

    @Test("A probe after the cool-down counts, one by somebody's wish does not")
    func probes() {
        let record = Record(executor: executor, keepsLines: false, onLine: nil)
        let patience = StormTape.Patience(threshold: 3, coolDown: 60_000, longest: 150_000)
        let watch = BreakerWatch(patience, clock: executor.clock, record: record)
        let opened = watch.makeCounter(label: "ferry_events", dimensions: [("event", "breakerOpened")])
        let closed = watch.makeCounter(label: "ferry_events", dimensions: [("event", "breakerClosed")])
        func found() -> [Int?] {
            [.breakerOpened, .halfOpenFailed, .halfOpenSucceeded].map { record.coverage[$0] }
        }
        opened.increment(by: 1)
        #expect(found() == [1, nil, nil])
        #expect(watch.remaining == 59_000)
        // A wish within the cool-down, which fails, and leaves it as it was.
        executor.clock.advance(by: .seconds(30))
        opened.increment(by: 1)
        #expect(found() == [1, nil, nil])
        executor.clock.advance(by: .seconds(30))
        #expect(watch.remaining == 0)
        opened.increment(by: 1)
        #expect(found() == [1, 1, nil])
        #expect(watch.remaining == 119_000)
        executor.clock.advance(by: .seconds(120))
        opened.increment(by: 1)
        // Twice 120 s, were it not for the longest.
        #expect(watch.remaining == 149_000)
        executor.clock.advance(by: .seconds(60))
        closed.increment(by: 1)
        #expect(found() == [1, 2, nil])
        opened.increment(by: 1)
        #expect(watch.remaining == 59_000)
        executor.clock.advance(by: .seconds(61))
        closed.increment(by: 1)
        #expect(found() == [2, 2, 1])
    }
}
