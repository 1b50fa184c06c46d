public import SyncCore
import Foundation

/// A fetcher that has everything there is, or fails as it is told, and keeps what it was asked for.
public final class ScriptedFetcher: RecordFetcher, @unchecked Sendable {
    // Sendable: `acts`, `usual` and `asked` are used under `lock` alone.

    /// What becomes of one fetch.
    public enum Act: Sendable {
        /// All of it is here now.
        case succeed
        case fail(ExchangeFailure)
        /// It waits for ``ScriptedFetcher/release()``, or until it is cancelled.
        case hold
    }

    private let lock = NSLock()
    private let held = Hold()
    private var acts: [Act]
    private var usual: Act
    private var asked: [DownloadRequest] = []

    /// - Parameter otherwise: what becomes of a fetch that has no act of its own.
    public init(_ acts: [Act] = [], otherwise: Act = .succeed) {
        self.acts = acts
        usual = otherwise
    }

    /// What becomes of the next fetches.
    public func next(_ acts: Act...) { lock.withLock { self.acts += acts } }

    /// What was asked for, in order.
    public var requests: [DownloadRequest] { lock.withLock { asked } }

    /// Lets go what is held now.
    public func release() { held.release() }

    /// Waits until so many fetches were held.
    public func waitForHeld(_ count: Int) async { await held.waitForArrivals(count) }

    public func fetch(_ request: DownloadRequest) async throws(ExchangeFailure) {
        let act = lock.withLock { () -> Act in
            asked.append(request)
            return acts.isEmpty ? usual : acts.removeFirst()
        }
        switch act {
        case .succeed: return
        case .fail(let failure): throw failure
        case .hold:
            await held.wait()
            if Task.isCancelled { throw .cancelled }
        }
    }
}
