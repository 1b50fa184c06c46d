import SyncCore
import SyncTesting
import Testing

@Suite struct ClockAndChanceTests {
    @Test("Sleepers wake in the order of their deadlines")
    func order() async throws {
        let clock = VirtualClock()
        let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for second in [3, 1, 2] {
                group.addTask {
                    try await clock.sleep(for: .seconds(second))
                    continuation.yield(second)
                }
            }
            await clock.waitForSleepers(3)
            var woken: [Int] = []
            var iterator = stream.makeAsyncIterator()
            for _ in 0..<3 {
                clock.advance(by: .seconds(1))
                if let next = await iterator.next() { woken.append(next) }
            }
            #expect(woken == [1, 2, 3])
            try await group.waitForAll()
        }
        #expect(clock.sleeperCount == 0)
    }

    @Test("A cancelled sleep ends at once")
    func cancelled() async {
        let clock = VirtualClock()
        let task = Task { try await clock.sleep(for: .seconds(60)) }
        await clock.waitForSleepers(1)
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(clock.sleeperCount == 0)
    }

    @Test("A deadline that is past does not sleep")
    func past() async throws {
        let clock = VirtualClock()
        clock.advance(by: .seconds(5))
        try await clock.sleep(until: .init(.seconds(5)))
        #expect(clock.now.elapsed == .seconds(5))
    }

    @Test("A wall clock follows the virtual one, drifts and jumps")
    func wallClock() {
        let clock = VirtualClock()
        let wall = ManualWallClock(1_000, following: clock, rate: 2)
        clock.advance(by: .milliseconds(500))
        #expect(wall.nowMilliseconds == 2_000)
        wall.set(milliseconds: 10)
        #expect(wall.nowMilliseconds == 10)
        clock.advance(by: .milliseconds(5))
        #expect(wall.nowMilliseconds == 20)
        wall.advance(milliseconds: -15)
        #expect(wall.nowMilliseconds == 5)
    }

    @Test("Chance and ids are the seed's, and no two ids are equal")
    func chance() {
        let (one, same, other) = (SeededRandomness(seed: 1), SeededRandomness(seed: 1), SeededRandomness(seed: 2))
        let first = (0..<10).map { _ in one.next() }
        #expect(first == (0..<10).map { _ in same.next() })
        #expect(first != (0..<10).map { _ in other.next() })
        let ids = SeededIDs(seed: 1)
        let made = (0..<1000).map { _ in ids.makeID() }
        #expect(Set(made).count == 1000)
        #expect(made == made.sorted())
        #expect(made[0].count == 36)
        var generator = SeededGenerator(seed: 3)
        let numbers = (0..<1000).map { _ in generator.below(7) }
        #expect(Set(numbers) == Set(0..<7))
    }
}
