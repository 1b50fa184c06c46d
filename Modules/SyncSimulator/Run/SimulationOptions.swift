public import SyncCore
import SyncTesting
import Transport

/// How seeds are run.
public struct SimulationOptions: Sendable {
    /// Where the devices' files are, in a fresh folder for each seed that is removed afterwards.
    public var folder: String
    /// Whether the report has every line of the trace; else only its hash.
    public var keepsTrace: Bool
    /// Called with each line of the trace as it comes.
    public var onLine: (@Sendable (String) -> Void)?
    /// Steps of the workload and faults that are left out, by their numbers: for shrinking.
    public var withoutSteps: Set<Int>
    public var withoutFaults: Set<Int>
    /// How devices compose and replay deltas.
    public var deltas: any DeltaCalculation
    /// A mistake that is planted on purpose; the run must find it.
    public var bug: PlantedBug?
    /// The server of all seeds; `nil` lets the seed choose.
    public var server: Server?
    /// How all of the app's writes are noticed; `nil` as it declares.
    var capture: SimulatedCapture?
    /// Whether the app has derived data (``DerivedCounts``), and listens to what the engine changes (``ToldRows``).
    var derives = false
    /// Whether the app has handlers of its own for all entities (``ToldHandlers``).
    var hasHandlers = false
    /// Whether the server of all seeds makes its own ids; it is the reference server then.
    var makesIDs = false
    /// Whether the devices send one change in a request, beside their cycles (``SingleSender``). One process has a file then.
    var sendsSingly = false
    /// Whether those go in the REST dialect; the server of all seeds is the reference server then.
    var sendsByREST = false
    /// Whether devices hold parts of the account in each seed, and much is moved between them.
    var movesMuch = false
    /// Whether users hold records back, and let them go.
    var hasDrafts = false
    /// Whether users want something of the network before anything goes (``DeviceConditions``).
    var hasConditions = false
    /// Whether apps wait for what they wrote to be settled (``SettledWait``).
    var waitsForSettled = false
    /// Whether devices' files are damaged while nobody has them open.
    var damagesFiles = false
    /// What the seeds have more of than usual.
    var bias: TapeBias?
    /// The devices' engines read over the connection that they write with (Decision 180).
    var readsByWriter = true
    /// What the devices' app declares, and what an app declares that is one version behind.
    public private(set) var schema: Schema
    private(set) var older: Schema
    /// The same app with what some seeds have otherwise.
    private let keeping: (schema: Schema, older: Schema)?
    private let nested: (schema: Schema, older: Schema)?
    /// What most devices' files begin as.
    let templates = DeviceTemplates()

    /// Who is at the other end.
    public enum Server: String, Sendable, Hashable, CaseIterable {
        case model, reference
    }

    /// - Parameter entities: what is synced; each value and each edit follows from the declared fields.
    /// - Throws: `SchemaError` for entities that do not fit together.
    public init(
        folder: String, entities: [EntitySchema] = SimulationSchema.entities, keepsTrace: Bool = false,
        withoutSteps: Set<Int> = [], withoutFaults: Set<Int> = [],
        deltas: any DeltaCalculation = LastWriterDeltas(), bug: PlantedBug? = nil
    ) throws {
        self.folder = folder
        self.keepsTrace = keepsTrace
        self.withoutSteps = withoutSteps
        self.withoutFaults = withoutFaults
        self.deltas = deltas
        self.bug = bug
        func versions(_ entities: [EntitySchema]) throws(SchemaError) -> (schema: Schema, older: Schema) {
            (try Schema(entities), try Schema(SimulationSchema.older(entities)))
        }
        (schema, older) = try versions(entities)
        // A user's own entities are run as they are declared.
        let isOurs = entities.map { $0.captured(by: .triggers) } == SimulationSchema.entities
        keeping = try isOurs ? versions(SimulationSchema.keeping(entities)) : nil
        nested = try isOurs ? versions(SimulationSchema.nested(entities)) : nil
    }

    /// As one seed has it: three of ten have another app.
    /// - Parameter choosesRoots: whether devices hold a part of the roots: there no record has parents under several of them.
    func varied(by seed: UInt64, choosesRoots: Bool) -> SimulationOptions {
        var options = self
        var chance = SeededGenerator(seed: seed, .app)
        guard chance.chance(0.3) else { return options }
        let others = [keeping, choosesRoots ? nil : nested].compactMap { $0 }
        if !others.isEmpty { (options.schema, options.older) = chance.pick(others) }
        return options
    }

    /// How a seed runs that was run already: the devices read over other connections, which leaves the same trace.
    public var secondTime: SimulationOptions {
        var options = self
        options.readsByWriter.toggle()
        return options
    }

    /// A third of the seeds meet the reference server's real core, through the real codec; the others the model server.
    func usesReferenceServer(_ seed: UInt64) -> Bool {
        makesIDs || sendsByREST || server.map { $0 == .reference } ?? (seed % 3 == 0)
    }

    /// Who knows that the server makes its own ids, as the reference server of three in ten seeds does; `nil` where it takes the
    /// devices'.
    func naming(_ seed: UInt64) -> IDWaiting? {
        // In the REST dialect nobody tells the server what a device calls a record, from which its ids are made here.
        guard usesReferenceServer(seed), !sendsByREST else { return nil }
        var chance = SeededGenerator(seed: seed, .naming)
        let makes = chance.chance(0.3)
        return makes || makesIDs ? chance.pick([.always, .onceNamed]) : nil
    }

    /// The way to the server, with the planted mistake in it where that is its place.
    /// - Parameter stall: what stalls ``clock(_:_:)``.
    func disturbed(_ exchange: any Exchange, _ stall: StallingClock.Switch) -> any Exchange {
        guard let bug, bug.isInExchange else { return exchange }
        return BuggyExchange(exchange, bug: bug, stall)
    }

    /// By what an engine's timers go.
    func clock(_ clock: VirtualClock, _ stall: StallingClock.Switch) -> any Clock<Duration> {
        bug == .noRescheduleAfterThrow ? StallingClock(base: clock, stall: stall) : clock
    }
}
