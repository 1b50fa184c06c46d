import Foundation
import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// What one part of a seed draws says nothing of another.
@Suite struct RandomStreamTests {
    @Test("No two streams of a seed begin with the same draw")
    func firstDraws() {
        for seed in 1...20 as ClosedRange<UInt64> {
            let firsts = RandomStream.allCases.map { stream in
                var chance = SeededGenerator(seed: seed, stream)
                return chance.next()
            }
            #expect(Set(firsts).count == firsts.count)
        }
    }

    @Test("Seeds whose users sign out have the app of most seeds, too, and another one")
    func appsAndAccounts() throws {
        let options = try SimulationOptions(folder: NSTemporaryDirectory())
        var apps: [Bool: Int] = [:]
        for seed in 1...400 as ClosedRange<UInt64> {
            guard !FaultTape.accountFaults(seed, 3, 60_000).isEmpty else { continue }
            let schema = options.varied(by: seed, choosesRoots: false).schema
            apps[schema.entities == options.schema.entities, default: 0] += 1
        }
        // Seven of ten are to have the usual one.
        #expect(apps[true, default: 0] > 40)
        #expect(apps[false, default: 0] > 15)
    }

    @Test("Storms, late arrivals and the way of healing come to a part of the seeds, in all combinations of two")
    func combinations() {
        var found: Set<[Bool]> = []
        for seed in 1...200 as ClosedRange<UInt64> {
            var healing = SeededGenerator(seed: seed, .healing)
            found.insert([
                healing.chance(0.5), StormTape(seed: seed, duration: 60_000).faults.isEmpty,
                FaultTape.lateArrivals(seed, 2).isEmpty,
            ])
        }
        #expect(found.count == 8)
    }
}
