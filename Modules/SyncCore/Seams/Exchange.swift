/// One round trip of the batch dialect: changes, checkpoint and scopes in, verdicts and a page out (PROTOCOL.md, section 1).
///
/// Asked for by the Orchestrator, given by Transport. An implementer validates the whole answer before it returns:
/// what comes out is proved to be this server's answer to this request (I14). It never repeats a request by itself
/// (DESIGN.md, D11). Fake it with a closure over a dictionary, or with SyncTesting's model server.
public protocol Exchange: Sendable {
    /// Sends one request and returns its validated answer.
    /// - Throws: ``ExchangeFailure`` for everything that is no answer; on cancellation too, with `isCancelled`.
    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer
    /// What can be made of a request before it goes, while something else is waited for; it sends nothing. By default nothing.
    /// - Parameter request: as it most likely goes.
    func prepare(_ request: ExchangeRequest) -> (any Sendable)?
    /// As ``exchange(_:)``, with what ``prepare(_:)`` made of it; of use only where the request is the same.
    func exchange(
        _ request: ExchangeRequest, prepared: (any Sendable)?
    ) async throws(ExchangeFailure) -> ExchangeAnswer
    /// Ends what is under way and frees connections; later calls fail.
    func close() async
}

extension Exchange {
    public func prepare(_ request: ExchangeRequest) -> (any Sendable)? { nil }

    public func exchange(
        _ request: ExchangeRequest, prepared: (any Sendable)?
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        try await exchange(request)
    }
}

/// What one round trip carries to the server.
public struct ExchangeRequest: Sendable, Hashable {
    /// New for every request; the answer echoes it.
    public var cycleID: String
    public var deviceID: String
    /// What was last seen; `nil` on the first sync.
    public var dataset: String?
    public var epoch: String?
    /// The checkpoint; 0 on the first sync.
    public var lastSyncVersion: Int64
    /// Root by root instead of `lastSyncVersion` (`board:8f2e…`), where an app asks for a part only.
    public var scopes: [String: Int64]?
    /// Every change up to this sequence is decided and recorded here, or was cancelled unsent.
    public var settled: Int64?
    public var fullPass: Bool
    /// The most changed records wanted.
    public var limit: Int
    /// Whether later changes wait for one that gets a `retry` (`order: strict`).
    public var isStrict: Bool
    public var wantsChecksum: Bool
    /// In the queue's order; at most 1,000.
    public var changes: [Change]

    public init(
        cycleID: String, deviceID: String, dataset: String? = nil, epoch: String? = nil, lastSyncVersion: Int64 = 0,
        scopes: [String: Int64]? = nil, settled: Int64? = nil, fullPass: Bool = false, limit: Int = 500,
        isStrict: Bool = true, wantsChecksum: Bool = false, changes: [Change] = []
    ) {
        self.cycleID = cycleID
        self.deviceID = deviceID
        self.dataset = dataset
        self.epoch = epoch
        self.lastSyncVersion = lastSyncVersion
        self.scopes = scopes
        self.settled = settled
        self.fullPass = fullPass
        self.limit = limit
        self.isStrict = isStrict
        self.wantsChecksum = wantsChecksum
        self.changes = changes
    }
}

/// A validated answer.
public struct ExchangeAnswer: Sendable {
    public var dataset: String?
    public var epoch: String
    /// The answer is complete up to this version.
    public var currentSyncVersion: Int64
    public var hasMore: Bool
    /// The server's wall clock, milliseconds since 1970.
    public var serverTimeMilliseconds: Int64?
    /// The highest stamp among the answer's records and results.
    public var stamp: Stamp?
    public var oldestVersion: Int64?
    public var checksum: String?
    /// A pause that the server asked for after this answer (`Backoff`), in seconds.
    public var backoffSeconds: Double?
    /// At most one for each change sent, and none for others; one that is missing means: outcome unknown.
    public var results: [ChangeResult]
    /// How many of the request's changes went, from the first on; `nil` for all. The others never left this device: what did not fit, or
    /// has to wait until the server has named a record that they need.
    public var sentCount: Int?
    /// The changed records in version order.
    public var page: any RecordPage
    /// Bytes on the wire, for figures: request and answer bodies as they were sent.
    public var bytesSent: Int
    public var bytesReceived: Int

    public init(
        dataset: String? = nil, epoch: String, currentSyncVersion: Int64, hasMore: Bool = false,
        serverTimeMilliseconds: Int64? = nil, stamp: Stamp? = nil, oldestVersion: Int64? = nil, checksum: String? = nil,
        backoffSeconds: Double? = nil, results: [ChangeResult] = [], sentCount: Int? = nil, page: any RecordPage,
        bytesSent: Int = 0, bytesReceived: Int = 0
    ) {
        self.dataset = dataset
        self.epoch = epoch
        self.currentSyncVersion = currentSyncVersion
        self.hasMore = hasMore
        self.serverTimeMilliseconds = serverTimeMilliseconds
        self.stamp = stamp
        self.oldestVersion = oldestVersion
        self.checksum = checksum
        self.backoffSeconds = backoffSeconds
        self.results = results
        self.sentCount = sentCount
        self.page = page
        self.bytesSent = bytesSent
        self.bytesReceived = bytesReceived
    }
}

/// The records of a validated answer, read in slices so that a long page needs the memory of a short one.
///
/// One reader, one pass: implementers keep the place. They decode only; all checks were made before.
public protocol RecordPage: Sendable {
    /// How many records the page has.
    var count: Int { get }
    /// The next records in version order, at most so many and about so many bytes; empty at the end.
    /// - Throws: ``ExchangeFailure`` where the kept body cannot be read again (a temporary file on a full or failing disk).
    func next(maxRecords: Int, maxBytes: Int) throws(ExchangeFailure) -> [ServerRecord]
}
