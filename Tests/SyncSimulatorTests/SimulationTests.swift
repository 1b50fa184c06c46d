import Foundation
import SyncSimulator
import Testing

/// A folder for the devices' files; each seed makes and removes one of its own in it.
private func options(keepsTrace: Bool = false, bug: PlantedBug? = nil) throws -> SimulationOptions {
    try SimulationOptions(folder: NSTemporaryDirectory(), keepsTrace: keepsTrace, bug: bug)
}

@Suite struct SimulationTests {
    @Test("One seed run twice gives the same trace, with the real engine and the real SQLite", arguments: [1, 3])
    func sameTrace(seed: UInt64) throws {
        let first = try Simulation.run(seed: seed, try options())
        let second = try Simulation.run(seed: seed, try options())
        #expect(first.traceHash == second.traceHash)
        #expect(first.requests == second.requests)
        #expect(first.isComplete)
    }

    @Test("A seed whose devices read over connections of their own leaves the same trace", arguments: [2, 6])
    func readers(seed: UInt64) throws {
        let first = try Simulation.run(seed: seed, try options())
        let second = try Simulation.run(seed: seed, try options().secondTime)
        #expect(first.traceHash == second.traceHash)
    }

    @Test("Seeds with faults of all kinds violate nothing")
    func noViolation() throws {
        for seed in [1, 2, 5, 7, 9] as [UInt64] {
            let report = try Simulation.run(seed: seed, try options())
            #expect(report.violations.isEmpty, "seed \(seed): \(report.violations)")
        }
    }

    @Test(
        "A planted mistake is found",
        arguments: [PlantedBug.newKeyOnRetry, .failureAsApplied, .lastRecordOfPageLost, .noRescheduleAfterThrow])
    func planted(bug: PlantedBug) throws {
        let found = try ([1, 2, 3, 5, 6, 7, 8, 9] as [UInt64]).first { seed in
            try !Simulation.run(seed: seed, try options(bug: bug)).violations.isEmpty
        }
        #expect(found != nil)
    }

    @Test("Leaving a step out moves no other")
    func tapes() throws {
        let (one, two) = (WorkloadTape(seed: 5), WorkloadTape(seed: 5))
        #expect(one.steps == two.steps)
        #expect(
            FaultTape(seed: 5, devices: 2, duration: 1000).entries
                == FaultTape(seed: 5, devices: 2, duration: 1000).entries)
        var shorter = try options(keepsTrace: true)
        shorter.withoutSteps = Set(one.steps.map(\.number).filter { $0 > 10 })
        shorter.withoutFaults = Set(0..<10_000)
        let report = try Simulation.run(seed: 5, shorter)
        #expect(report.localWrites <= 11)
        #expect(report.violations.isEmpty, "\(report.violations)")
    }
}
