import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

@Suite("Delays, floors and sizes: plain arithmetic")
struct PolicyTests {
    @Test("SCH-09 QUE-23 the delay doubles up to the longest, and nothing overflows at a million failures")
    func delays() {
        let policy = UploadPolicy()
        let expected: [Int64] = [
            1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 900_000,
        ]
        for (index, delay) in expected.enumerated() {
            #expect(policy.delay(failures: index + 1, isLonger: false, chance: 0) == delay)
        }
        #expect(policy.delay(failures: 1, isLonger: true, chance: 0) == 5_000)
        for failures in [0, 63, 64, 65, 1_000_000, .max] {
            let delay = policy.delay(failures: failures, isLonger: true, chance: 0.999_999)
            #expect(delay <= 901_000 && delay >= 5_000)
        }
    }

    @Test("SCH-01 full jitter covers the whole window, added jitter its own second")
    func jitter() {
        let full = UploadPolicy(jitter: .full)
        #expect(full.delay(failures: 3, isLonger: false, chance: 0) == 0)
        #expect(full.delay(failures: 3, isLonger: false, chance: 0.5) == 2_000)
        let added = UploadPolicy()
        #expect(added.delay(failures: 3, isLonger: false, chance: 0.5) == 4_500)
    }

    @Test(
        "NET-16 nonsense and negative pauses are ignored, long ones cut at a day, the longest of several holds",
        arguments: [
            (7.0, Int64(7_000)), (0, 0), (-1, 0), (1e9, 86_400_000), (.nan, 0), (.infinity, 86_400_000),
            (-.infinity, 0), (0.0001, 1),
        ])
    func retryAfter(_ seconds: Double, _ floor: Int64) {
        var floors = Floors()
        let now = Moment(wall: 1_000_000, elapsed: 50)
        floors.raise(server: seconds, changes: nil, at: now)
        #expect((floors.standing(.user, at: now) ?? 50) - 50 == floor)
        floors.raise(server: 1, changes: nil, at: now)
        #expect((floors.standing(.user, at: now) ?? 50) - 50 == max(1_000, floor))
    }

    @Test("SCH-08 a stored floor a year ahead means that the clock jumped: the longest there may be holds instead")
    func jumpedClock() {
        let year: Int64 = 365 * 86_400_000
        let stored = QueueSchedule(
            notBeforeMilliseconds: year, serverNotBeforeMilliseconds: year, changesNotBeforeMilliseconds: year)
        let floors = Floors(stored, at: Moment(wall: 0, elapsed: 7), longestOwn: 901_000)
        #expect(floors.own == 901_007)
        #expect(floors.server == 86_400_007)
        #expect(floors.changes == 86_400_007)
        let past = Floors(stored, at: Moment(wall: 2 * year, elapsed: 7), longestOwn: 901_000)
        #expect(past == Floors())
        let absurd = QueueSchedule(notBeforeMilliseconds: .max)
        #expect(Floors(absurd, at: Moment(wall: -5, elapsed: 0), longestOwn: 901_000).own == 901_000)
    }

    @Test("QUE-15 the size is halved down to one, and doubled again by full successes")
    func sizes() {
        var size = BatchSize(configured: 500)
        #expect(size.current == 500)
        size.halve(from: 500, wasTooLarge: true)
        #expect(size.current == 250)
        size.halve(from: 3, wasTooLarge: true)
        #expect(size.current == 1)
        size.halve(from: 1, wasTooLarge: true)
        #expect(size.current == 1)
        for _ in 0..<BatchSize.successesAfterTooLarge { size.succeeded(with: 1) }
        #expect(size.current == 2)
        for _ in 0..<100 { size.succeeded(with: 1) }
        #expect(size.current == 2, "a request that was not full says nothing about a larger one")
        var search = BatchSize(configured: 500, limit: 1)
        search.halve(from: 2, wasTooLarge: false)
        var requests = 0
        while search.limit != nil {
            search.succeeded(with: search.current)
            requests += 1
        }
        #expect(requests == 18, "nine doublings of two")
    }

    @Test("progress never falls, and ends with everything done")
    func progress() {
        var progress = UploadProgress()
        var last = progress
        for (left, remaining) in [(0, 10), (3, 7), (0, 20), (10, 10), (5, 4)] {
            let hasEnded = progress.advance(left: left, remaining: remaining)
            #expect(!hasEnded)
            #expect(progress.done >= last.done && progress.total >= last.total && progress.fraction >= last.fraction)
            last = progress
        }
        let hasEnded = progress.advance(left: 4, remaining: 0)
        #expect(hasEnded && progress.done == progress.total && progress.fraction == 1)
    }
}
