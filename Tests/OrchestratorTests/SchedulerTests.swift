import Testing

@testable import Orchestrator

@Suite struct SchedulerTests {
    /// A scheduler whose first cycle began and ended at 0.
    private func idle() -> Scheduler {
        var scheduler = Scheduler()
        scheduler.started(at: 0)
        scheduler.ended()
        return scheduler
    }

    @Test("The first cycle starts at once, the next after the period")
    func period() {
        #expect(Scheduler().nextStart() == .min)
        #expect(idle().nextStart() == 30_000)
    }

    @Test("Writes are gathered for 250 ms after the last and for 2 s at the most")
    func debounce() {
        var scheduler = idle()
        scheduler.trigger(.localWrite, at: 10_000)
        #expect(scheduler.nextStart() == 10_250)
        scheduler.trigger(.localWrite, at: 10_200)
        #expect(scheduler.nextStart() == 10_450)
        for time in stride(from: Int64(10_400), through: 13_000, by: 200) { scheduler.trigger(.localWrite, at: time) }
        #expect(scheduler.nextStart() == 12_000)
    }

    @Test("Starts are at least 2 s apart, the user's wish excepted")
    func minimumInterval() {
        var scheduler = idle()
        scheduler.trigger(.hint, at: 100)
        #expect(scheduler.nextStart() == 2_000)
        scheduler.trigger(.user, at: 101)
        #expect(scheduler.nextStart() == 0)
    }

    @Test("Time in the background that may not be used takes neither a write nor a hint along")
    func refusedBackground() {
        var scheduler = idle()
        scheduler.trigger(.background, at: 10_000)
        #expect(scheduler.isForBackgroundAlone(at: 10_000))
        scheduler.trigger(.serverBack, at: 10_000, spread: 5_000)
        scheduler.trigger(.localWrite, at: 10_000)
        #expect(scheduler.nextStart() == 10_000)
        #expect(scheduler.isForBackgroundAlone(at: 10_000))
        scheduler.forgetBackground()
        #expect(scheduler.nextStart() == 10_250)
        // Beside another cause it is served along, and no round is needed.
        scheduler.trigger(.background, at: 10_200)
        #expect(!scheduler.isForBackgroundAlone(at: 10_250))
        let cause = scheduler.started(at: 10_250)
        #expect(cause == .localWrite)
        scheduler.ended()
        #expect(scheduler.nextStart() == 40_250)
    }

    @Test("What happens during a cycle makes exactly one more")
    func duringACycle() {
        var scheduler = idle()
        scheduler.trigger(.hint, at: 5_000)
        scheduler.started(at: 5_000)
        #expect(scheduler.nextStart() == nil)
        scheduler.trigger(.localWrite, at: 5_100)
        scheduler.trigger(.hint, at: 5_200)
        scheduler.ended()
        #expect(scheduler.nextStart() == 7_000)
        scheduler.started(at: 7_000)
        scheduler.ended()
        #expect(scheduler.nextStart() == 37_000)
    }

    @Test("QUE-19 a cycle that failed is tried again at the queue's time, without any other event")
    func retry() {
        var scheduler = Scheduler()
        scheduler.started(at: 0)
        scheduler.ended(holdUntil: 4_000)
        #expect(scheduler.nextStart() == 4_000)
    }

    @Test("SCH-07 after eight hours of suspension one cycle is due, not a thousand")
    func suspension() {
        var scheduler = idle()
        let wake: Int64 = 8 * 3_600_000
        #expect(scheduler.nextStart() == 30_000)
        scheduler.started(at: wake)
        scheduler.ended()
        #expect(scheduler.nextStart() == wake + 30_000)
    }
}
