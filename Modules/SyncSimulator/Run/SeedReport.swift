/// What one seed came to.
public struct SeedReport: Sendable, CustomStringConvertible {
    public let seed: UInt64
    public let devices: Int
    /// Transactions of users that changed something.
    public let localWrites: Int
    /// Devices whose users wrote any of them.
    public let writers: Int
    /// Faults that had an effect, by kind.
    public let faults: [String: Int]
    public let coverage: [Situation: Int]
    public let violations: [Violation]
    /// Over every choice of the executor and every event; equal for two runs of one seed.
    public let traceHash: UInt64
    /// The events, where they were asked for.
    public let trace: [String]
    public let requests: Int
    /// How long the devices lived, in virtual time.
    public let virtualTime: Duration
    /// It reached the final checks.
    public let isComplete: Bool

    public var faultCount: Int { faults.values.reduce(0, +) }

    /// Whether the seed counts: two devices or more, 50 local writes, 3 faults, and the final checks reached.
    public var counts: Bool { lacks.isEmpty }

    /// What it lacks for counting, in words.
    public var lacks: [String] {
        var lacks: [String] = []
        if writers < 2 { lacks.append("a single device that wrote") }
        if localWrites < 50 { lacks.append("too few writes") }
        if faultCount < 3 { lacks.append("too few faults") }
        if !isComplete { lacks.append("the final checks were not reached") }
        return lacks
    }

    /// A line of figures.
    public var description: String {
        "seed \(seed): \(devices) devices, \(localWrites) writes, \(requests) requests, \(faultCount) faults"
            + (counts ? "" : "; does not count: \(lacks.joined(separator: ", "))")
    }
}
