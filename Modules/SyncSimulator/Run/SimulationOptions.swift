public import SyncCore

/// How seeds are run.
public struct SimulationOptions: Sendable {
    /// Where the devices' files are, in a fresh folder for each seed that is removed afterwards.
    public var folder: String
    /// Whether the report has every line of the trace; else only its hash.
    public var keepsTrace: Bool
    /// Steps of the workload and faults that are left out, by their numbers: for shrinking.
    public var withoutSteps: Set<Int>
    public var withoutFaults: Set<Int>
    /// How devices compose and replay deltas.
    public var deltas: any DeltaCalculation
    /// A mistake that is planted on purpose; the run must find it.
    public var bug: PlantedBug?
    public let schema: Schema

    public init(
        folder: String, keepsTrace: Bool = false, withoutSteps: Set<Int> = [], withoutFaults: Set<Int> = [],
        deltas: any DeltaCalculation = LastWriterDeltas(), bug: PlantedBug? = nil
    ) throws(SchemaError) {
        self.folder = folder
        self.keepsTrace = keepsTrace
        self.withoutSteps = withoutSteps
        self.withoutFaults = withoutFaults
        self.deltas = deltas
        self.bug = bug
        schema = try Schema(SimulationSchema.entities)
    }

    /// The way to the server, with the planted mistake in it where that is its place.
    func disturbed(_ exchange: any Exchange, seed: UInt64) -> any Exchange {
        guard let bug, bug.isInExchange else { return exchange }
        return BuggyExchange(exchange, bug: bug)
    }
}
