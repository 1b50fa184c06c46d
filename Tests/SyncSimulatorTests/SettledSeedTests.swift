import Foundation
import Testing

@testable import SyncSimulator

/// Seeds whose apps wait for what they wrote to be settled.
@Suite struct SettledSeedTests {
    @Test("Seeds whose apps wait violate nothing, and apps hear what became of what they wrote")
    func settled() throws {
        var options = try SimulationOptions(folder: NSTemporaryDirectory())
        options.waitsForSettled = true
        for seed in 1...6 as ClosedRange<UInt64> {
            let report = try Simulation.run(seed: seed, options)
            #expect(report.violations.isEmpty && report.isComplete, "\(report.violations)")
            #expect(report.coverage[.settledHeard] ?? 0 > 0)
        }
    }

    @Test("Who is not told that it is settled is found, also where nobody asked for apps that wait")
    func unheard() throws {
        let options = try SimulationOptions(folder: NSTemporaryDirectory(), bug: .settledUnheard)
        #expect(
            try (1...6).contains { seed in
                try Simulation.run(seed: seed, options).violations.contains { $0.invariant == "settled" }
            })
    }
}
