import SyncCore
import SyncTesting
import Testing

@testable import SyncSimulator

/// What a run says of many seeds.
@Suite struct RunTotalsTests {
    private func report(
        _ seed: UInt64, writers: Int = 2, writes: Int = 50, faults: Int = 3, isComplete: Bool = true,
        _ coverage: [Situation: Int] = [:], hash: UInt64 = 0
    ) -> SeedReport {
        SeedReport(
            seed: seed, devices: 2, localWrites: writes, writers: writers, faults: ["crash": faults],
            coverage: coverage,
            violations: [], traceHash: hash, trace: [], requests: 1, virtualTime: .zero, isComplete: isComplete)
    }

    @Test("A situation that no seed reached is missed, whoever reached the others")
    func missed() {
        var (one, other) = (RunTotals(), RunTotals())
        let all = Situation.allCases
        one.add(report(1, Dictionary(uniqueKeysWithValues: all.dropFirst(3).map { ($0, 2) })))
        #expect(one.missed(of: Set(all)) == Array(all.prefix(3)))
        other.add(report(2, [all[0]: 1, all[2]: 1]))
        one.add(other)
        #expect(one.missed(of: Set(all)) == [all[1]])
        #expect(one.coverage[all[3]] == 2)
    }

    @Test("A seed that lacks something does not count, and the run says what; an incomplete one is named")
    func counting() {
        var totals = RunTotals()
        totals.add(report(1))
        totals.add(report(2, writers: 1))
        totals.add(report(3, writes: 49))
        totals.add(report(4, faults: 2))
        totals.add(report(5, writers: 1, isComplete: false))
        #expect((totals.seeds, totals.counted) == (5, 1))
        #expect(totals.incomplete == [5])
        #expect(
            totals.lacking == [
                "a single device that wrote": 2, "too few writes": 1, "too few faults": 1,
                "the final checks were not reached": 1,
            ])
        #expect(report(3, writes: 49).description.hasSuffix("does not count: too few writes"))
    }

    @Test("A seed that leaves another trace the second time is named")
    func unequal() {
        var totals = RunTotals()
        totals.add(first: report(7, hash: 1), second: report(7, hash: 1))
        totals.add(first: report(8, hash: 1), second: report(8, hash: 2))
        #expect((totals.repeated, totals.unequal) == (2, [8]))
    }
}
