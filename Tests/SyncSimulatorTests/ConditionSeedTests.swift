import Foundation
import Orchestrator
import Testing

@testable import SyncSimulator

/// Seeds whose users want something of the network, or power, before anything goes.
@Suite struct ConditionSeedTests {
    private static let cellular = NetworkPath(isReachable: true, isMetered: true, link: "cellular")

    private func run(_ seed: UInt64, bug: PlantedBug? = nil) throws -> SeedReport {
        var options = try SimulationOptions(folder: NSTemporaryDirectory(), bug: bug)
        options.hasConditions = true
        return try Simulation.run(seed: seed, options)
    }

    @Test("Seeds with conditions violate nothing, and meet them before a sync and in the middle of one")
    func conditions() throws {
        let reports = try (1...6).map { try run($0) }
        for report in reports { #expect(report.violations.isEmpty && report.isComplete, "\(report.violations)") }
        #expect(reports.contains { $0.coverage[.conditionsHeld] ?? 0 > 0 })
        #expect(reports.contains { $0.coverage[.conditionsEnded] ?? 0 > 0 })
    }

    @Test("An engine that comes to a stop is found, where it waits for its network, too")
    func stalled() throws {
        #expect(try (1...6).contains { try !run($0, bug: .noRescheduleAfterThrow).violations.isEmpty })
    }

    /// A device whose user wants a network that costs nothing, and nothing else.
    private func unmetered() throws -> DeviceConditions {
        let all = (0..<100).lazy.map { DeviceConditions(seed: 1, device: $0) }
        return try #require(all.first { $0.wanted == .unmetered })
    }

    @Test("What was told before a request left counts, and what was told in the same moment does not yet")
    func told() throws {
        var conditions = try unmetered()
        conditions.path = Self.cellular
        #expect(!conditions.forbids(at: .seconds(5)), "nobody has told")
        conditions.toldAt = .seconds(5)
        #expect(!conditions.forbids(at: .seconds(5)))
        #expect(conditions.forbids(at: .seconds(6)))
        conditions.overriddenUntil = .seconds(9)
        #expect(!conditions.forbids(at: .seconds(8)))
        #expect(conditions.forbids(at: .seconds(9)))
        conditions.path = nil
        #expect(!conditions.forbids(at: .seconds(10)), "what nobody knows is no obstacle")
    }

    @Test("Each thing that may be wanted is looked at")
    func each() {
        let all = (0..<100).map { DeviceConditions(seed: 1, device: $0) }
        #expect(Set(all.map(\.wanted)).count == 4)
        for var conditions in all {
            conditions.toldAt = .zero
            #expect(!conditions.forbids(at: .seconds(1)))
            let wanted = conditions.wanted
            conditions.isCharging = false
            #expect(conditions.isUnmet == wanted.contains(.charging))
            conditions.isCharging = true
            conditions.path = Self.cellular
            #expect(conditions.isUnmet == wanted.contains(.unmetered))
            conditions.path = NetworkPath(isReachable: true, isLowData: true, link: "wifi")
            #expect(conditions.isUnmet == wanted.contains(.notInLowDataMode))
        }
    }
}
