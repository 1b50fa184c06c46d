import SyncCore
import SyncTesting

/// A server inside the simulator; answers on the thread that drives it.
protocol SimulatedServer: AnyObject, Sendable {
    /// Whether its answers are bytes, which can be spoiled; else an answer comes or does not.
    var answersInBytes: Bool { get }
    /// What it does with a request that arrived, and its answer as the device's transport understands it.
    /// - Parameters:
    ///   - tokens: what the device proves itself with; `nil` for a request that is on its way already.
    ///   - way: how it comes and goes.
    func answer(
        _ request: ExchangeRequest, device: Int, account: String, tokens: DeviceTokens?, way: Way
    ) async throws(ExchangeFailure) -> ExchangeAnswer
    /// Whether it looks at the token of each request.
    var asksForTokens: Bool { get }
    /// The accounts that ever asked for anything, in their order.
    var accounts: [String] { get }
    /// All records of an account, dead ones too, as a reader sees them now.
    func records(of account: String) -> [ServerRecord]
    func epoch(of account: String) -> String
    /// What the server calls a record, by its canonical id.
    func id(of record: RecordKey, in account: String) -> String
    /// What becomes of a change that was not decided before, by its key.
    func rule(_ ruling: @escaping @Sendable (String) -> ModelServer.Ruling)
    func backUp()
    /// Puts the backup in place; `false` if there is none.
    func restore() -> Bool
    /// Forgets tombstones; `false` where it cannot.
    func forgetTombstones() -> Bool
    /// Plans a death of its process, where it has one.
    func suffer(_ fault: FaultTape.ServerFault)
    /// Nothing goes wrong with it any more.
    func heal()
    /// Where its records are not what all accepted changes make them, worked out by another than itself.
    func wrongValues() -> [String]
}

/// How a request comes to a server, and its answer to the device.
struct Way {
    /// Each change alone, in the REST dialect.
    var isSingle = false
    /// What becomes of the answer's bytes, where there are any.
    var fault: FaultTape.WireFault?
    /// What something before the server says in its place.
    var status: (code: Int, retryAfter: Double?)?
}

/// The model server, one for each account: values in, values out.
final class ModelBackend: SimulatedServer, @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.
    let answersInBytes = false
    private let make: (String) -> ModelServer
    private var models: [String: ModelServer] = [:]
    private var kept: [String: ModelServer.Backup] = [:]
    private var ruling: @Sendable (String) -> ModelServer.Ruling = { _ in .decide }

    init(_ make: @escaping (String) -> ModelServer) { self.make = make }

    private func model(_ account: String) -> ModelServer {
        if let known = models[account] { return known }
        let model = make(account)
        model.ruling = { [ruling] in ruling($0.id) }
        models[account] = model
        return model
    }

    func answer(
        _ request: ExchangeRequest, device: Int, account: String, tokens: DeviceTokens?, way: Way
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        try model(account).answer(request)
    }

    var asksForTokens: Bool { false }
    var accounts: [String] { models.keys.sorted() }
    func records(of account: String) -> [ServerRecord] { models[account]?.records ?? [] }
    func epoch(of account: String) -> String { model(account).epoch }
    func id(of record: RecordKey, in account: String) -> String { record.id }

    func rule(_ ruling: @escaping @Sendable (String) -> ModelServer.Ruling) {
        self.ruling = ruling
        for model in models.values { model.ruling = { ruling($0.id) } }  // any order
    }

    func backUp() { kept = models.mapValues { $0.backup() } }

    func restore() -> Bool {
        guard !kept.isEmpty else { return false }
        for (account, model) in models {  // any order
            // An account that came later has nothing.
            model.restore(kept[account] ?? make(account).backup())
        }
        return true
    }

    func forgetTombstones() -> Bool {
        for model in models.values { model.forgetTombstones() }  // any order
        return true
    }

    func suffer(_ fault: FaultTape.ServerFault) {}
    func heal() {}

    func wrongValues() -> [String] {
        accounts.compactMap { models[$0] }.flatMap { LastWriters($0.effects).differences($0.records) }
    }
}
