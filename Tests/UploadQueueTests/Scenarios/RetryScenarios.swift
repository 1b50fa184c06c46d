import SyncCore
import SyncTesting
import Testing

@testable import UploadQueue

/// What was set aside is retried all at once, on both logs.
@Suite("Everything that was set aside is retried", .timeLimit(.minutes(20)))
struct RetryScenarios {
    @Test(
        "DAT-28 a unit that was set aside without a verdict is retried with everything else, whole and under its keys",
        arguments: LogKind.allCases)
    func retriedUnit(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.write(.board("a"), .card("c", on: "a"), isUnit: true)
        try await scene.write(.board("b"))
        let claim = try await scene.batch()
        let reason = SetAsideReason(code: "tooManyAttempts", message: "no")
        let outcomes = claim.ids.prefix(2).map {
            Settlement.Outcome(changeID: $0, kind: .setAside(reason, staysUncertain: true))
        }
        let refusal = Settlement.Outcome(changeID: claim.ids[2], kind: .setAside(reason, staysUncertain: false))
        _ = try await scene.log.settle(Settlement(outcomes: outcomes + [refusal]), claim: nil)
        #expect(try await scene.queue.failures().count == 3)
        let keys = try await scene.queue.retryAll()
        #expect(try await scene.queue.failures().isEmpty)
        let again = try await scene.batch()
        #expect(again.ids.prefix(2) == claim.ids.prefix(2) && again.ids.count == 3)
        #expect(Set(keys).isSubset(of: again.ids))
        try await scene.send(again)
        #expect(scene.serverNames.count == 3)
        try await scene.expectNothingLeft()
    }

    @Test("QUE-03 of more failures than are retried together all go, each in its place", arguments: LogKind.allCases)
    func manyRetried(kind: LogKind) async throws {
        let scene = try Scene(kind)
        try await scene.boards(603)
        scene.server.refuse { _ in true }
        try await scene.drain()
        #expect(try await scene.queue.failures().count == 603)
        scene.server.refuseNothing()
        let keys = try await scene.queue.retryAll()
        #expect(keys.count == 603)
        #expect(try await scene.keys() == keys)
        try await scene.drain()
        #expect(scene.server.liveRecords.count == 603)
        try await scene.expectNothingLeft()
    }
}
