public import SyncCore

/// Fulfils wishes for fresh data, the most urgent first, one at a time.
///
/// Owns the order in which wishes are fulfilled; the wishes themselves are durable in the log, so that a restart
/// forgets none.
public actor DownloadQueue {
    private let log: any DownloadLog
    private let fetcher: any RecordFetcher
    private let gate: any Gate

    public init(log: any DownloadLog, fetcher: any RecordFetcher, gate: any Gate) {
        self.log = log
        self.fetcher = fetcher
        self.gate = gate
    }

    /// Asks for something, or raises the priority of what was asked for.
    public func ask(_ request: DownloadRequest) async throws(StoreFailure) { try await log.ask(request) }

    /// Fulfils wishes until none is left, the gate closes, or one fails; the failed one can be claimed again.
    public func drain(_ urgency: Urgency) async throws(StoreFailure) -> DrainEnd {
        while true {
            if case .closed(let until, let cause) = await gate.mayGo(urgency) {
                return .closed(untilMilliseconds: until, cause: cause)
            }
            guard let request = try await log.claim() else { return .empty }
            do {
                try await fetcher.fetch(request)
            } catch {
                try await log.withdraw(request.scope)
                return .failed(error)
            }
            try await log.finish(request.scope)
        }
    }

    /// Why draining ended.
    public enum DrainEnd: Sendable, Hashable {
        case empty
        case closed(untilMilliseconds: Int64?, cause: String)
        case failed(ExchangeFailure)
    }
}
