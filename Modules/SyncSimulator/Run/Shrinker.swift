/// Leaves out faults and steps of a failing seed, as many as it can, while the seed still fails in the same way.
public enum Shrinker {
    /// The options under which the seed fails with the least that is needed.
    /// - Parameter tries: the most runs that it may make.
    /// - Returns: the options as they are where the seed violates nothing.
    public static func shrink(seed: UInt64, _ options: SimulationOptions, tries: Int = 400) throws
        -> SimulationOptions
    {
        try shrink(seed: seed, options, tries: tries) {
            try Simulation.run(seed: seed, $0).violations.map(\.invariant)
        }
    }

    /// - Parameter violated: the invariants that a run of the seed violates, the first one first.
    static func shrink(
        seed: UInt64, _ options: SimulationOptions, tries: Int, violated: (SimulationOptions) throws -> [String]
    ) rethrows -> SimulationOptions {
        guard let invariant = try violated(options).first else { return options }
        var best = options
        var left = tries
        let workload = WorkloadTape(seed: seed, bias: options.bias)
        let faults = FaultTape(
            seed: seed, devices: workload.devices, duration: workload.duration, movesMuch: options.movesMuch,
            damagesFiles: options.damagesFiles, bias: options.bias)

        func fails(_ candidate: SimulationOptions) throws -> Bool {
            guard left > 0 else { return false }
            left -= 1
            return try violated(candidate).contains(invariant)
        }

        /// Tries to leave out halves, then quarters, and so on down to single ones.
        func reduce(_ all: [Int], _ set: WritableKeyPath<SimulationOptions, Set<Int>>) throws {
            var size = max(all.count / 2, 1)
            while size >= 1 {
                var place = 0
                while place < all.count {
                    let chunk = all[place..<min(place + size, all.count)].filter {
                        !best[keyPath: set].contains($0)
                    }
                    place += size
                    guard !chunk.isEmpty else { continue }
                    var candidate = best
                    candidate[keyPath: set].formUnion(chunk)
                    if try fails(candidate) { best = candidate }
                }
                size /= 2
            }
        }

        try reduce(faults.entries.map(\.number), \.withoutFaults)
        try reduce(workload.steps.map(\.number).reversed(), \.withoutSteps)
        try reduce(faults.entries.map(\.number), \.withoutFaults)
        return best
    }
}
