import HTTPTypes
public import SyncCore

/// Hints by server-sent events: `GET /api/events` (PROTOCOL.md, section 3) behind the ``HintSource`` seam.
///
/// One call is one stream. It repeats nothing but what a 401 proves not to have been done; a stream that is silent for
/// longer than `idle` ends, since the server says something every 15 s. It shares the HTTP client with the exchange, which
/// closes it.
public struct EventStream: HintSource {
    /// What can be set; the defaults are the contract's.
    public struct Options: Sendable {
        /// The path behind the endpoint's own.
        public var path = "/api/events"
        /// How long a stream may be silent: three of the server's comments.
        public var idle = Duration.seconds(45)
        /// Which statuses mean what.
        public var failures = FailureTable()
        /// The explicit word for plain http to other machines than this one.
        public var allowsPlainHTTP = false

        public init() {}
    }

    private let endpoint: Endpoint
    private let http: any HTTPTransport
    private let authentication: any Authentication
    private let options: Options
    private let stopwatch: Stopwatch
    private let wallClock: any WallClock
    private let ids: any IDSource

    /// Hints of the server at `endpoint`.
    /// - Throws: ``Endpoint/Failure`` for what is no endpoint, or plain http.
    public init<C: Clock>(
        endpoint: String, http: any HTTPTransport, credentials: any Credentials = FixedCredentials(nil),
        account: String? = nil, options: Options = Options(),
        clock: C = ContinuousClock(),  // live
        wallClock: any WallClock = SystemWallClock(),  // live
        ids: any IDSource = UUIDv7Source()  // live
    ) throws(Endpoint.Failure) where C.Duration == Duration {
        try self.init(
            endpoint: endpoint, http: http,
            authentication: BearerAuthentication(credentials: credentials, account: account, clock: clock),
            options: options,
            clock: clock, wallClock: wallClock, ids: ids)
    }

    /// Hints of a server to which an app proves in a way of its own who asks.
    /// - Throws: ``Endpoint/Failure`` for what is no endpoint, or plain http.
    public init<C: Clock>(
        endpoint: String, http: any HTTPTransport, authentication: any Authentication, options: Options = Options(),
        clock: C = ContinuousClock(),  // live
        wallClock: any WallClock = SystemWallClock(),  // live
        ids: any IDSource = UUIDv7Source()  // live
    ) throws(Endpoint.Failure) where C.Duration == Duration {
        self.endpoint = try Endpoint(endpoint, allowsPlainHTTP: options.allowsPlainHTTP)
        self.http = http
        self.authentication = authentication
        self.options = options
        self.wallClock = wallClock
        self.ids = ids
        stopwatch = Stopwatch(clock)
    }

    public func listen(
        after version: Int64?, _ heard: @escaping @Sendable (HintEvent) async -> Void
    ) async throws(ExchangeFailure) {
        let lastByte = Locked(stopwatch.now())
        let outcome = await withTaskGroup(of: Outcome.self) { group in
            group.addTask {
                do throws(ExchangeFailure) {
                    try await self.read(after: version, lastByte, heard)
                    return .ended(nil)
                } catch {
                    return .ended(error)
                }
            }
            group.addTask { await self.isSilent(since: lastByte) ? .silent : .ended(nil) }
            let first = await group.next() ?? .ended(nil)
            group.cancelAll()
            return first
        }
        switch outcome {
        case .silent:
            throw ExchangeFailure(kind: .network, message: "the stream of hints fell silent", reachedServer: true)
        case .ended(let failure):
            if let failure { throw failure }
            if Task.isCancelled { throw ExchangeFailure(kind: .network, message: "cancelled", isCancelled: true) }
        }
    }

    private enum Outcome: Sendable {
        case ended(ExchangeFailure?)
        case silent
    }

    /// Waits until nothing came for too long; `false` when it is not wanted any more.
    private func isSilent(since lastByte: Locked<Duration>) async -> Bool {
        while true {
            let end = lastByte.withLock { $0 } + options.idle
            if stopwatch.now() >= end { return true }
            do { try await stopwatch.sleep(end) } catch {
                // kept: only cancellation ends a sleep early.
                return false
            }
        }
    }

    private func read(
        after version: Int64?, _ lastByte: Locked<Duration>, _ heard: @escaping @Sendable (HintEvent) async -> Void
    ) async throws(ExchangeFailure) {
        let answer: HTTPAnswer
        do throws(HTTPFailure) { answer = try await open(after: version) } catch { throw ExchangeFailure(error) }
        if let refusal = try await refusal(answer) { throw refusal }
        lastByte.withLock { $0 = stopwatch.now() }
        await heard(.opened)
        var parser = EventParser()
        while let piece = try await piece(answer.body) {
            lastByte.withLock { $0 = stopwatch.now() }
            for hint in parser.take(piece) { await heard(.hint(hint)) }
        }
    }

    private func piece(_ body: HTTPBody) async throws(ExchangeFailure) -> [UInt8]? {
        do throws(HTTPFailure) { return try await body.next() } catch { throw ExchangeFailure(error) }
    }

    /// Asks for the stream; after a 401 once more with new credentials.
    private func open(after version: Int64?) async throws(HTTPFailure) -> HTTPAnswer {
        var request = endpoint.request(.get, options.path)
        request.headerFields[.accept] = "text/event-stream"
        request.headerFields[.requestID] = ids.makeID()
        if let version, let name = HTTPField.Name("Last-Event-ID") { request.headerFields[name] = "\(version)" }
        let proved = try await authentication.authenticate(request, body: [])
        let answer = try await http.send(proved, body: [])
        guard answer.head.status.code == 401, try await authentication.renew(after: proved) else {
            return noted(answer, of: proved)
        }
        let again = try await authentication.authenticate(request, body: [])
        return noted(try await http.send(again, body: []), of: again)
    }

    private func noted(_ answer: HTTPAnswer, of request: HTTPRequest) -> HTTPAnswer {
        if answer.head.status.kind == .successful { authentication.accepted(request) }
        return answer
    }

    /// What an answer that is no stream means; `nil` for a stream.
    private func refusal(_ answer: HTTPAnswer) async throws(ExchangeFailure) -> ExchangeFailure? {
        let (status, fields) = (answer.head.status.code, answer.head.headerFields)
        if status == 200, fields.mediaType == "text/event-stream" { return nil }
        let kind = options.failures.classify(status: status, isProved: false, on: .exchange) ?? .network
        return ExchangeFailure(
            kind: kind, status: status,
            message: "expected 200 with text/event-stream; \(status) with \(fields.mediaType ?? "no type") came",
            retryAfterSeconds: ServerPause.retryAfter(fields, nowMilliseconds: wallClock.nowMilliseconds),
            backoffSeconds: ServerPause.backoff(fields), reachedServer: kind != .network)
    }
}
