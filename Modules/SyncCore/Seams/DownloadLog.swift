/// A wish to have something fresh: a record, or a scope, and how much it matters.
public struct DownloadRequest: Sendable, Hashable {
    /// What is wanted: a scope (`board:8f2e…`), or the empty text for all that the account may see.
    public var scope: String
    /// The greater, the sooner.
    public var priority: Int

    public init(scope: String, priority: Int) {
        self.scope = scope
        self.priority = priority
    }
}

/// The durable list of what is to be downloaded. Asked for by DownloadQueue, given by Storage; one call, one transaction.
public protocol DownloadLog: Sendable {
    /// Adds a wish, or raises the priority of the same one; one that is claimed just now is wished for anew, since what is being
    /// fetched may be older.
    func ask(_ request: DownloadRequest) async throws(StoreFailure)
    /// Takes the most urgent wish, oldest first among equals; it stays in the list until it is finished. A claim ends with the
    /// process that made it.
    func claim() async throws(StoreFailure) -> DownloadRequest?
    /// The wish is fulfilled; where it was asked for again since it was claimed, it can be claimed again.
    func finish(_ scope: String) async throws(StoreFailure)
    /// The wish was not fulfilled: it can be claimed again.
    func withdraw(_ scope: String) async throws(StoreFailure)
}

/// Fetches what a wish asks for, page by page. Asked for by DownloadQueue, given by the Orchestrator or Transport.
public protocol RecordFetcher: Sendable {
    /// Fetches and applies everything of this scope that is newer than what is here.
    func fetch(_ request: DownloadRequest) async throws(ExchangeFailure)
}
