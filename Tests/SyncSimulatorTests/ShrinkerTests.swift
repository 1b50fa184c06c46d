import Foundation
import Testing

@testable import SyncSimulator

@Suite struct ShrinkerTests {
    private let options: SimulationOptions
    private let steps: Set<Int>
    private let faults: Set<Int>

    init() throws {
        options = try SimulationOptions(folder: NSTemporaryDirectory())
        let workload = WorkloadTape(seed: 5)
        let tape = FaultTape(seed: 5, devices: workload.devices, duration: workload.duration)
        (steps, faults) = (Set(workload.steps.map(\.number)), Set(tape.entries.map(\.number)))
    }

    private func shrink(
        tries: Int = 400, _ violated: (SimulationOptions) -> [String]
    ) -> (least: SimulationOptions, runs: Int) {
        var runs = 0
        let least = Shrinker.shrink(seed: 5, options, tries: tries) {
            runs += 1
            return violated($0)
        }
        return (least, runs)
    }

    @Test("What stays is what the failure needs, and nothing else")
    func least() {
        let (steps, faults) = (steps, faults)
        #expect(steps.count > 60 && faults.count > 3)
        let (least, runs) = shrink { tried in
            tried.withoutSteps.isDisjoint(with: [3, 40, 41]) && !tried.withoutFaults.contains(2) ? ["I7"] : []
        }
        #expect(steps.subtracting(least.withoutSteps) == [3, 40, 41])
        #expect(faults.subtracting(least.withoutFaults) == [2])
        #expect(runs < 400)
    }

    @Test("A failure of another kind is no failure: what it takes away stays")
    func otherKind() {
        // Without step 7 something else goes wrong.
        let (least, _) = shrink { $0.withoutSteps.contains(7) ? ["I2", "I9"] : ["I7", "I2"] }
        #expect(steps.subtracting(least.withoutSteps) == [7])
        #expect(least.withoutFaults == faults)
    }

    @Test("Any place among the violations will do, once it is the one that was there first")
    func laterViolation() {
        let (least, _) = shrink { $0.withoutSteps.isEmpty ? ["I7"] : ["I9", "I7"] }
        #expect(least.withoutSteps == steps)
    }

    @Test("A seed that violates nothing is left as it is, after one run")
    func clean() {
        let (least, runs) = shrink { _ in [] }
        #expect(runs == 1)
        #expect(least.withoutSteps.isEmpty && least.withoutFaults.isEmpty)
    }

    @Test("No more runs are made than were allowed")
    func bound() {
        let (_, runs) = shrink(tries: 10) { _ in ["I7"] }
        #expect(runs <= 11)
        let (least, first) = shrink(tries: 0) { _ in ["I7"] }
        #expect(first == 1 && least.withoutFaults.isEmpty)
    }

    @Test("A real failure is smaller afterwards, and still the same failure")
    func real() throws {
        let planted = try SimulationOptions(folder: NSTemporaryDirectory(), bug: .failureAsApplied)
        let seed = try #require(
            try ([1, 2, 3, 5, 6, 7, 8, 9] as [UInt64]).first {
                try !Simulation.run(seed: $0, planted).violations.isEmpty
            })
        let before = try Simulation.run(seed: seed, planted)
        let least = try Shrinker.shrink(seed: seed, planted, tries: 3)
        let after = try Simulation.run(seed: seed, least)
        #expect(least.bug == .failureAsApplied)
        #expect(!least.withoutFaults.isEmpty)
        let invariant = try #require(before.violations.first?.invariant)
        #expect(after.violations.contains { $0.invariant == invariant })
    }
}
