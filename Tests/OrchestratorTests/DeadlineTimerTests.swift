import Testing

@testable import Orchestrator

@Suite("Deadlines by the system's clock")
struct DeadlineTimerTests {
    /// Waits until its task is cancelled.
    private func untilCancelled() async {
        let (endless, _) = AsyncStream<Never>.makeStream()
        for await _ in endless {}
    }

    @Test("what takes longer than its time is cancelled, and nothing else of the same engine")
    func due() async {
        let timer = DeadlineTimer()
        await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                await timer.limit(.milliseconds(20)) {
                    await untilCancelled()
                    return Task.isCancelled
                }
            }
            #expect(await group.next() == true)
        }
        // One with time enough, behind one that has none: the timer was set for an earlier time, and for a later one.
        await withTaskGroup(of: Bool.self) { group in
            let (ended, end) = AsyncStream<Void>.makeStream()
            group.addTask {
                await timer.limit(.seconds(600)) {
                    for await _ in ended { break }
                    return Task.isCancelled
                }
            }
            group.addTask {
                let wasCancelled = await timer.limit(.milliseconds(1)) {
                    await untilCancelled()
                    return Task.isCancelled
                }
                end.yield()
                return !wasCancelled
            }
            for await isWrong in group { #expect(!isWrong) }
        }
    }

    /// In a task of its own: on a slow machine the time may be over before the work is, and then it is this task that is cancelled.
    @Test("what ends in time gives its result, and is not cancelled later")
    func inTime() async {
        let timer = DeadlineTimer()
        let isWrong = await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                let result = await timer.limit(.milliseconds(20)) { 1 }
                let wasLate = Task.isCancelled
                // When a limit that began after it is over, it would have been over too.
                await withTaskGroup(of: Void.self) { later in
                    later.addTask { await timer.limit(.milliseconds(21)) { await untilCancelled() } }
                }
                return result != 1 || Task.isCancelled != wasLate
            }
            return await group.next()
        }
        #expect(isWrong == false)
    }
}
