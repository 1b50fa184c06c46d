import SyncCore
import SyncTesting
import Testing

@testable import Orchestrator

@Suite struct CycleBackoffTests {
    private func failed(_ end: CycleEnd) -> CycleReport {
        var report = CycleReport()
        report.end = end
        return report
    }

    @Test("SCH-09 after a million failures the pause is within the longest, and nothing overflows")
    func bound() {
        var backoff = CycleBackoff(first: 4_000, longest: 30_000)
        var longest: Int64 = 0
        for _ in 0..<1_000_000 {
            let next = backoff.ended(failed(.leaseHeld), queue: QueueSummary(), wall: 0, chance: 0.999)
            longest = max(longest, next.hold ?? .max)
        }
        #expect(longest <= 30_000)
        #expect((1...6).map { backoff.window($0) } == [4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
        #expect(backoff.window(.max) == 30_000)
    }

    @Test(
        "SCH-01 ten thousand devices that lost one server together come back over the whole window, none faster than 2 s"
    )
    func storm() {
        var generator = SeededGenerator(seed: 1)
        for round in 1...4 {
            var starts: [Int64] = []
            for _ in 0..<10_000 {
                var scheduler = Scheduler()
                var backoff = CycleBackoff(first: 4_000, longest: 30_000)
                scheduler.started(at: 0)
                var next = CycleBackoff.Next()
                for _ in 0..<round {
                    let chance = Double(generator.next() >> 11) * 0x1p-53
                    next = backoff.ended(
                        failed(.exchange(.unreachable)), queue: QueueSummary(), wall: 0, chance: chance)
                }
                // As the engine does it: on top of the least distance between two starts.
                scheduler.ended(holdUntil: next.hold.map { 2_000 + $0 })
                starts.append(scheduler.nextStart() ?? 0)
            }
            let window = CycleBackoff(first: 4_000, longest: 30_000).window(round)
            var buckets = [Int](repeating: 0, count: 100)
            for start in starts { buckets[Int(min(99, (start - 2_000) * 100 / window))] += 1 }
            #expect(starts.allSatisfy { $0 >= 2_000 && $0 <= 2_000 + window })
            // The peak is at most three times the mean, and no part of the window is empty.
            #expect((buckets.max() ?? 0) <= 300)
            #expect(!buckets.contains(0))
        }
    }

    @Test("A push that waits while the pull works holds nothing up: the queue's own time is when it goes on")
    func queueTime() {
        var backoff = CycleBackoff(first: 4_000, longest: 30_000)
        var report = failed(.exchange(.status(503)))
        report.isPulled = true
        let queue = QueueSummary(inFlight: 1, schedule: QueueSchedule(notBeforeMilliseconds: 5_000))
        #expect(
            backoff.ended(report, queue: queue, wall: 1_000, chance: 0.5) == CycleBackoff.Next(hold: nil, wake: 4_000))
        #expect(backoff.failures == 0)
    }

    @Test("SCH-08 a floor that is over by the wall clock, and lets nothing go all the same, is left to the period")
    func pastFloor() {
        var backoff = CycleBackoff(first: 4_000, longest: 30_000)
        var report = failed(.complete)
        report.isPulled = true
        let schedule = QueueSchedule(notBeforeMilliseconds: 1_000, changesNotBeforeMilliseconds: 5_000)
        let queue = QueueSummary(pending: 1, schedule: schedule)
        #expect(backoff.ended(report, queue: queue, wall: 6_000, chance: 0.5) == CycleBackoff.Next())
        #expect(backoff.ended(report, queue: queue, wall: 5_000, chance: 0.5) == CycleBackoff.Next())
        #expect(backoff.ended(report, queue: queue, wall: 4_999, chance: 0.5) == CycleBackoff.Next(wake: 1))
    }

    @Test("What trying again does not change waits for the period")
    func hopeless() {
        var backoff = CycleBackoff(first: 4_000, longest: 30_000)
        for end in [CycleEnd.needsCredentials, .otherDataset, .awaitsConfirmation, .cancelled] {
            #expect(backoff.ended(failed(end), queue: QueueSummary(), wall: 0, chance: 0.5) == CycleBackoff.Next())
        }
    }
}
