import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

@Suite("The queue against a model, by dice", .timeLimit(.minutes(5)))
struct RandomTests {
    @Test(
        "ten thousand steps of each of ten seeds break no rule, and nothing is left over",
        arguments: 1...10 as ClosedRange<UInt64>)
    func seed(_ seed: UInt64) async throws {
        var driver = try RandomDriver(seed: seed)
        for number in 1...10_000 {
            do {
                try await driver.step()
            } catch {
                Issue.record("seed \(seed), step \(number): \(error)")
                return
            }
        }
        try await driver.heal()
        #expect(try await driver.leftOver() == 0)
        let wanted: Set = [
            "applied verdict", "merged verdict", "conflict verdict", "rejected verdict", "blocked verdict",
            "retry verdict", "no connection", "time-out", "500", "503", "429", "401", "413", "400", "410", "stopped",
            "late answer", "retry", "discard", "restart", "inverse by cancel", "cancelled by cancel",
            "a call that could not be recorded",
        ]
        #expect(wanted.subtracting(driver.reached).isEmpty)
    }
}
