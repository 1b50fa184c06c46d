import HTTPTypes
public import Logging
public import SyncCore

/// The batch dialect: `POST /api/sync` behind the ``Exchange`` seam (PROTOCOL.md, section 1).
///
/// One call is one round trip. Its answer is checked whole before anything of it is returned; whatever is not proved
/// to be this server's answer to this request is thrown as an ``ExchangeFailure`` and has no effect. It repeats nothing
/// but what a 401, a 415 or a redirect within the origin proves not to have been done. A value without state of its
/// own: calls may run at the same time.
public struct BatchExchange: Exchange {
    /// What can be set; the defaults are the contract's.
    public struct Options: Sendable {
        /// The path behind the endpoint's own.
        public var path = "/api/sync"
        public var request = BatchLimits()
        public var answer = AnswerLimits()
        public var deadlines = Deadlines()
        /// Which statuses mean what.
        public var failures = FailureTable()
        /// The explicit word for plain http to other machines than this one.
        public var allowsPlainHTTP = false

        public init() {}
    }

    private let calls: CallStack
    private let options: Options

    /// An exchange with the server at `endpoint`.
    ///
    /// - Parameters:
    ///   - endpoint: `https://host[:port][/path]`; plain http to this machine only, but for the explicit word.
    ///   - http: the HTTP client; ``close()`` closes it.
    ///   - credentials: where tokens come from.
    ///   - account: whose the queue is; a token of another account is never sent. `nil` compares nothing.
    /// - Throws: ``Endpoint/Failure`` for what is no endpoint, or plain http.
    public init<C: Clock>(
        endpoint: String, http: any HTTPTransport, credentials: any Credentials = FixedCredentials(nil),
        account: String? = nil, options: Options = Options(),
        clock: C = ContinuousClock(),  // live
        wallClock: any WallClock = SystemWallClock(),  // live
        ids: any IDSource = UUIDv7Source(),  // live
        logger: Logger = Logger(label: "ferry.transport")
    ) throws(Endpoint.Failure) where C.Duration == Duration {
        try self.init(
            endpoint: endpoint, http: http,
            authentication: BearerAuthentication(credentials: credentials, account: account, clock: clock),
            options: options,
            clock: clock, wallClock: wallClock, ids: ids, logger: logger)
    }

    /// An exchange whose requests prove who asks in a way of the app's own.
    ///
    /// - Throws: ``Endpoint/Failure`` for what is no endpoint, or plain http.
    public init<C: Clock>(
        endpoint: String, http: any HTTPTransport, authentication: any Authentication, options: Options = Options(),
        clock: C = ContinuousClock(),  // live
        wallClock: any WallClock = SystemWallClock(),  // live
        ids: any IDSource = UUIDv7Source(),  // live
        logger: Logger = Logger(label: "ferry.transport")
    ) throws(Endpoint.Failure) where C.Duration == Duration {
        calls = CallStack(
            endpoint: try Endpoint(endpoint, allowsPlainHTTP: options.allowsPlainHTTP), http: http,
            authentication: authentication, limits: options.answer, deadlines: options.deadlines, clock: clock,
            wallClock: wallClock, ids: ids, logger: logger)
        self.options = options
    }

    public func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        try await exchange(request, prepared: nil)
    }

    /// A request as it most likely goes, encoded and compressed.
    private struct Prepared: Sendable {
        /// What is new in each request, and what may turn out otherwise than was expected.
        var cycleID: String
        var lastSyncVersion: Int64
        let batch: EncodedBatch
        var packed: [UInt8]?
    }

    public func prepare(_ request: ExchangeRequest) -> (any Sendable)? {
        do throws(ExchangeFailure) {
            let batch = try BatchEncoder(limits: options.request).encode(request)
            return Prepared(
                cycleID: request.cycleID, lastSyncVersion: request.lastSyncVersion, batch: batch,
                packed: calls.packed(batch.body))
        } catch {
            // kept: the request itself meets the same, and tells.
            return nil
        }
    }

    public func exchange(
        _ request: ExchangeRequest, prepared: (any Sendable)?
    ) async throws(ExchangeFailure) -> ExchangeAnswer {
        var batch: EncodedBatch
        var packed: [UInt8]?
        if let ready = prepared as? Prepared, ready.cycleID == request.cycleID,
            ready.lastSyncVersion == request.lastSyncVersion
        {
            (batch, packed) = (ready.batch, ready.packed)
        } else {
            batch = try BatchEncoder(limits: options.request).encode(request)
        }
        var sent = request
        sent.changes.removeLast(request.changes.count - batch.count)
        let answer: Answer
        do throws(HTTPFailure) {
            answer = try await calls.call(call(request.cycleID, batch.body, packed))
        } catch {
            throw ExchangeFailure(error)
        }
        var judged = try judge(answer, for: sent)
        if sent.changes.count < request.changes.count { judged.sentCount = sent.changes.count }
        return judged
    }

    public func close() async {
        await calls.close()
    }

    private func call(_ id: String, _ body: [UInt8], _ packed: [UInt8]?) -> Call {
        var request = calls.endpoint.request(.post, options.path)
        request.headerFields[.contentType] = "application/json"
        request.headerFields[.accept] = "application/json, application/problem+json"
        return Call(request: request, body: body, packed: packed, id: id)
    }

    private func judge(_ answer: Answer, for request: ExchangeRequest) throws(ExchangeFailure) -> ExchangeAnswer {
        let fields = answer.head.headerFields
        let now = calls.wallClock.nowMilliseconds
        let backoff = ServerPause.backoff(fields)
        if let failure = ExchangeFailure(
            answer, problem: answer.problem(), table: options.failures, target: .exchange, nowMilliseconds: now)
        {
            throw failure
        }
        guard answer.status == 200, answer.mediaType == "application/json" else {
            throw ExchangeFailure(
                kind: .network, status: answer.status,
                message: CauseText.ofNoAnswer(
                    expected: "200 with application/json",
                    came: "\(answer.status) with \(answer.mediaType ?? "no type"), "
                        + Redaction.beginning(of: answer.body)),
                backoffSeconds: backoff)
        }
        let proved: ProvedAnswer
        do throws(AnswerFault) {
            proved = try AnswerReader.read(answer.body, for: request)
        } catch {
            throw ExchangeFailure(
                kind: error.isOtherDataset ? .history : .network, status: answer.status,
                code: error.isOtherDataset ? "otherDataset" : nil,
                message: error.isOtherDataset
                    ? CauseText.ofOtherDataset(came: Redaction.beginning(of: answer.body))
                    : CauseText.ofNoAnswer(
                        expected: error.expected, came: "\(error.came) in \(Redaction.beginning(of: answer.body))"),
                backoffSeconds: backoff)
        }
        return ExchangeAnswer(
            dataset: proved.dataset, epoch: proved.epoch, currentSyncVersion: proved.currentSyncVersion,
            hasMore: proved.hasMore, serverTimeMilliseconds: proved.serverTimeMilliseconds, stamp: proved.stamp,
            oldestVersion: proved.oldestVersion, checksum: proved.checksum, backoffSeconds: backoff,
            results: proved.results, page: AnswerPage(answer.body, records: proved.records, count: proved.count),
            bytesSent: answer.bytesSent, bytesReceived: answer.bytesReceived)
    }
}
