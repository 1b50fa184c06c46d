import Storage
import SyncCore
import SyncTesting

/// The way of one request for each change, as a REST server takes them: the queue's own loop drives it, and the engine's cycles only pull.
///
/// It asks for no records, and says which history it speaks of, so that another one refuses it.
struct SingleSender: ChangeSender {
    let exchange: any Exchange
    let store: Store
    let ids: any IDSource
    /// In the REST dialect.
    let sendsValues: Bool

    func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
        try await ask(changes, as: deviceID).results
    }

    func probe() async throws(ExchangeFailure) { _ = try await ask([]) }

    private func ask(
        _ changes: [Change], as deviceID: String? = nil
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        let position: SyncPosition
        do throws(StoreFailure) { position = try await store.position() } catch {
            throw ExchangeFailure(kind: .network, message: error.message)
        }
        // No verdict of a sender's names the history that it is of (Docs/Limits.md): an app that pulls first knows it (seed 2006).
        guard position.epoch != nil else { throw .unreachable }
        let answer = try await exchange.exchange(
            ExchangeRequest(
                cycleID: ids.makeID(), deviceID: deviceID ?? position.deviceID, dataset: position.dataset,
                epoch: position.epoch,
                lastSyncVersion: position.checkpoint, scopes: [:], limit: 1, changes: changes))
        guard answer.dataset ?? position.dataset == position.dataset ?? answer.dataset,
            answer.epoch == position.epoch ?? answer.epoch
        else { throw ExchangeFailure(kind: .history, message: "another server", reachedServer: true) }
        return answer
    }
}
