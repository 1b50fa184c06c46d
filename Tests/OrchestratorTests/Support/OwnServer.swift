import DownloadQueue
import SyncCore
import SyncTesting
import UploadQueue

/// A server of an app's own queue, which does what the test wants.
final class OwnServer: ChangeSender, RecordFetcher, @unchecked Sendable {
    // Sendable: used by the one thread that drives the executor.
    var failure: ExchangeFailure?
    var silence: Duration = .zero
    private(set) var requests = 0
    private let clock: VirtualClock

    init(clock: VirtualClock) { self.clock = clock }

    private func answer() async throws(ExchangeFailure) {
        requests += 1
        do { try await clock.sleep(for: silence) } catch {
            throw ExchangeFailure(kind: .network, message: "cancelled", isCancelled: true)
        }
        if let failure { throw failure }
    }

    func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
        try await answer()
        return []
    }
    func probe() async throws(ExchangeFailure) { try await answer() }
    func fetch(_ request: DownloadRequest) async throws(ExchangeFailure) { try await answer() }
}
