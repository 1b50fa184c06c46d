/// Runs seeds: each makes devices, a server, a workload and a schedule of faults, and checks what must hold.
public enum Simulation {
    /// Runs one seed to its end on the calling thread.
    /// - Throws: where the folder cannot be made; whatever goes wrong in the run is in the report.
    public static func run(seed: UInt64, _ options: SimulationOptions) throws -> SeedReport {
        var prepared = options
        options.bug?.prepare(&prepared)
        return try World(seed: seed, options: prepared).run()
    }

    /// Runs seeds one after the other, and hands each report over as it comes.
    public static func run(
        seeds: some Sequence<UInt64>, _ options: SimulationOptions, each: (SeedReport) throws -> Void
    ) throws {
        for seed in seeds { try each(run(seed: seed, options)) }
    }
}
