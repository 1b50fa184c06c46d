import SyncCore
import SyncTesting

/// A server inside the simulator; answers on the thread that drives it.
protocol SimulatedServer: AnyObject, Sendable {
    /// What it does with a request that arrived, and its answer as the device's transport understands it.
    func answer(
        _ request: ExchangeRequest, device: Int, wire: FaultTape.WireFault?
    ) async throws(ExchangeFailure) -> ExchangeAnswer
    /// All records, dead ones too, as a reader sees them now.
    var records: [ServerRecord] { get }
    var epoch: String { get }
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

/// The model server: values in, values out.
final class ModelBackend: SimulatedServer, @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.
    private let model: ModelServer
    private var kept: ModelServer.Backup?

    init(_ model: ModelServer) { self.model = model }

    func answer(
        _ request: ExchangeRequest, device: Int, wire: FaultTape.WireFault?
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        let answer = try model.answer(request)
        // A transport lets none of these through: for the engine there was no answer.
        if let wire {
            throw ExchangeFailure(kind: .network, message: wire.rawValue, reachedServer: true)
        }
        return answer
    }

    var records: [ServerRecord] { model.records }
    var epoch: String { model.epoch }

    func rule(_ ruling: @escaping @Sendable (String) -> ModelServer.Ruling) {
        model.ruling = { ruling($0.id) }
    }

    func backUp() { kept = model.backup() }

    func restore() -> Bool {
        guard let kept else { return false }
        model.restore(kept)
        return true
    }

    func forgetTombstones() -> Bool {
        model.forgetTombstones()
        return true
    }

    func suffer(_ fault: FaultTape.ServerFault) {}
    func heal() {}

    func wrongValues() -> [String] { LastWriters(model.effects).differences(model.records) }
}
