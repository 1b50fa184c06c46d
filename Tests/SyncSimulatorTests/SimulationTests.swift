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

    @Test("What is left out does not happen, and a seed without faults violates nothing")
    func shortened() throws {
        var shorter = try options(keepsTrace: true)
        shorter.withoutSteps = Set(WorkloadTape(seed: 5).steps.map(\.number).filter { $0 > 10 })
        shorter.withoutFaults = Set(0..<10_000)
        let report = try Simulation.run(seed: 5, shorter)
        #expect(report.localWrites <= 11)
        #expect(report.faultCount == 0)
        #expect(report.violations.isEmpty, "\(report.violations)")
    }

    @Test("I9 a device that does not come up any more is found, and the seed is incomplete")
    func staysDown() throws {
        let report = try Simulation.run(seed: 1, try options(bug: .fileRefused))
        #expect(!report.isComplete && !report.counts)
        #expect(report.violations.contains { $0.invariant == "I9" && $0.message.contains("does not come up") })
    }

    @Test("I7 a record that stands under both of its ids, or whose other one is not known, is found")
    func namesNotKept() throws {
        let report = try Simulation.run(seed: 15, try options(bug: .namesNotKept))
        let messages = report.violations.filter { $0.invariant == "I7" }.map(\.message)
        #expect(messages.contains { $0.hasSuffix("twice") })
        #expect(messages.contains { $0.hasSuffix("by its map nothing") })
    }

    @Test(
        "PRC-11 two processes have one file, and one takes over what the other let stand; a lease that is none is found"
    )
    func secondProcess() throws {
        let seeds: [UInt64] = [130, 159, 444, 578, 673]
        var takenOver = 0
        for seed in seeds where takenOver == 0 {
            let report = try Simulation.run(seed: seed, try options())
            #expect(report.violations.isEmpty)
            #expect(report.coverage[.secondProcess, default: 0] > 0)
            takenOver += report.coverage[.leaseTakenOver, default: 0]
        }
        #expect(takenOver > 0)
        let found = try ([67, 78, 231, 247, 330] as [UInt64]).contains { seed in
            try Simulation.run(seed: seed, try options(bug: .leaseIgnored)).violations.contains {
                $0.invariant == "lease"
            }
        }
        #expect(found)
    }

    @Test("I1 what was merged away and is not sent is found")
    func mergedAway() throws {
        let found = try ([2, 1, 3, 5, 6, 7, 8, 9] as [UInt64]).first { seed in
            let report = try Simulation.run(seed: seed, try options(bug: .mergedFieldsNotSent))
            return report.violations.contains { $0.invariant == "I1" && $0.message.contains("without") }
        }
        #expect(found != nil)
    }
}
