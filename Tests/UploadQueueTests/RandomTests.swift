import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

@Suite("The queue against a model, by dice", .timeLimit(.minutes(20)))
struct RandomTests {
    /// What must have happened to at least one of the seeds, or the test has proved too little.
    private static let wanted: Set = [
        "applied verdict", "merged verdict", "conflict verdict", "rejected verdict", "blocked verdict",
        "retry verdict", "missing verdict", "no connection", "time-out", "500", "503", "429", "401", "413", "400",
        "410", "stopped",
        "late answer", "retry", "discard", "restart", "inverse by cancel", "cancelled by cancel",
        "a call that could not be recorded", "a suspect set aside",
    ]

    @Test("a hundred thousand steps, ten thousand of each of ten seeds, break no rule, and nothing is left over")
    func seeds() async throws {
        // One after another: the other tests run beside it, and some of them wait for a thread.
        var reached: Set<String> = []
        for seed in 1...10 as ClosedRange<UInt64> { reached.formUnion(await run(seed, steps: 10_000)) }
        #expect(Self.wanted.subtracting(reached).isEmpty)
    }

    private func run(_ seed: UInt64, steps: Int) async -> Set<String> {
        var number = 0
        do {
            var driver = try RandomDriver(seed: seed)
            while number < steps {
                number += 1
                try await driver.step()
            }
            try await driver.heal()
            #expect(try await driver.leftOver() == 0)
            return driver.reached
        } catch {
            Issue.record("seed \(seed), step \(number): \(error)")
            return []
        }
    }
}
