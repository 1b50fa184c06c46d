/// What many seeds came to, added up.
public struct RunTotals: Sendable {
    public private(set) var seeds = 0
    /// Seeds that count (``SeedReport/counts``).
    public private(set) var counted = 0
    /// Why the others do not, and how many lack that.
    public private(set) var lacking: [String: Int] = [:]
    /// Seeds that did not reach the final checks.
    public private(set) var incomplete: [UInt64] = []
    public private(set) var localWrites = 0
    public private(set) var requests = 0
    public private(set) var faults: [String: Int] = [:]
    public private(set) var coverage: [Situation: Int] = [:]
    public private(set) var failing: [SeedReport] = []
    /// Seeds that were run twice, and those whose traces differed.
    public private(set) var repeated = 0
    public private(set) var unequal: [UInt64] = []
    /// Planted mistakes that no seed found.
    var notFound: [PlantedBug] = []

    public init() {}

    public mutating func add(_ report: SeedReport) {
        seeds += 1
        if report.counts { counted += 1 }
        for word in report.lacks { lacking[word, default: 0] += 1 }
        if !report.isComplete { incomplete.append(report.seed) }
        localWrites += report.localWrites
        requests += report.requests
        faults.merge(report.faults, uniquingKeysWith: +)
        coverage.merge(report.coverage, uniquingKeysWith: +)
        if !report.violations.isEmpty { failing.append(report) }
    }

    /// A seed was run a second time.
    public mutating func add(first: SeedReport, second: SeedReport) {
        repeated += 1
        if first.traceHash != second.traceHash { unequal.append(first.seed) }
    }

    public mutating func add(_ other: RunTotals) {
        seeds += other.seeds
        counted += other.counted
        lacking.merge(other.lacking, uniquingKeysWith: +)
        incomplete += other.incomplete
        localWrites += other.localWrites
        requests += other.requests
        faults.merge(other.faults, uniquingKeysWith: +)
        coverage.merge(other.coverage, uniquingKeysWith: +)
        failing += other.failing
        repeated += other.repeated
        unequal += other.unequal
        notFound += other.notFound
    }

    /// Situations that no seed reached, of those that seeds can reach (``SimulationOptions/reachable``).
    public func missed(of reachable: Set<Situation>) -> [Situation] {
        Situation.allCases.filter { reachable.contains($0) && coverage[$0] == nil }
    }
}
