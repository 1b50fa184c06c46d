import Foundation
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// Seeds whose devices send each change in the REST dialect, by the queue's loop, while their cycles pull.
@Suite struct RESTSeedTests {
    private func options() throws -> SimulationOptions {
        var options = try SimulationOptions(folder: NSTemporaryDirectory())
        (options.sendsSingly, options.sendsByREST) = (true, true)
        return options
    }

    /// Before the rule of Decision 494 sums and sets were lost in 2 and 5; a create came under a dead parent in 51; and a cycle sent in its own
    /// dialect what the loop had sent in 30.
    @Test("Seeds that send by REST violate nothing", arguments: [2, 5, 30, 51] as [UInt64])
    func rest(seed: UInt64) throws {
        let report = try Simulation.run(seed: seed, try options())
        #expect(report.violations.isEmpty, "\(report.violations)")
        #expect(report.isComplete)
    }

    @Test("What only a batch, or a cycle with changes, can come to is not asked for")
    func reachable() throws {
        let missing = Set(Situation.allCases).subtracting(try options().reachable)
        #expect(missing.isSuperset(of: [.unitSent, .missingVerdict, .requestBeforeSettled, .secondProcess]))
        let common: Set<Situation> = [.checkConflict, .duplicateAfterLostAnswer, .refusal, .answerLostAfterCommit]
        #expect(missing.isDisjoint(with: common))
    }

    @Test("Each change goes alone, and none in a request of a cycle")
    func requests() throws {
        let world = try World(seed: 1, options: try options())
        var sent: [(changes: Int, limit: Int)] = []
        world.record.onRequest = { request, _ in sent.append((request.changes.count, request.limit)) }
        world.start(0)
        world.run(until: 1_000)
        for name in ["b-1", "b-2"] { world.write([.insert(RecordKey("board", name), ["name": "B"])], isUnit: true, 0) }
        world.run(until: 120_000)
        for device in world.devices { device.stop() }
        #expect(sent.contains { $0.changes == 1 })
        #expect(sent.allSatisfy { $0.changes == 0 || $0.changes == 1 && $0.limit == 1 })
    }
}
