internal import Logging
internal import ServiceLifecycle

/// Has the store forget what is over, part by part, until the server stops; for one that is only read, since requests
/// that write do it by themselves.
struct PruningRounds: Service {
    let backend: any SyncBackend
    /// Seconds between two rounds.
    let interval: Double
    let logger: Logger

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                try await Task.sleep(for: .seconds(interval))
                do {
                    try await backend.prune()
                } catch is CancellationError {
                    return
                } catch {
                    // The disk may be full for a while; the next round tries again.
                    logger.warning("what is over could not be forgotten", metadata: ["reason": "\(error)"])
                }
            }
        }
    }
}
