import HTTPTypes
public import Logging
public import SyncCore

/// The REST dialect: each change as one request of its own (PROTOCOL.md, section 2).
///
/// Changes go one after the other; the first that is not applied ends the sending, since what follows may need it. It
/// repeats nothing but what a 401, a 415 or a redirect within the origin proves not to have been done.
public struct RESTSender: ChangeSender {
    /// What can be set; the defaults are the contract's.
    public struct Options: Sendable {
        public var answer = AnswerLimits(total: 16 << 20)
        public var deadlines = Deadlines()
        public var failures = FailureTable()
        /// The explicit word for plain http to other machines than this one.
        public var allowsPlainHTTP = false
        /// What ``RESTSender/probe()`` reads; `nil` is the first collection, one record of it.
        public var probePath: String?

        public init() {}
    }

    /// Where a record's parent is looked up, for mappings that go through it: the parent's id, `nil` if not known.
    public typealias ParentLookup = @Sendable (RecordKey) async -> String?

    private let calls: CallStack
    private let options: Options
    private let mappings: [String: RESTMapping]
    private let parentID: ParentLookup

    /// A sender to the server at `endpoint`.
    ///
    /// - Parameters:
    ///   - mappings: how each entity stands on the server; a change of another is rejected with `unknownEntity`.
    ///   - http: the HTTP client; ``close()`` closes it.
    ///   - account: whose the queue is; a token of another account is never sent.
    /// - Throws: ``Endpoint/Failure`` for what is no endpoint, or plain http.
    public init<C: Clock>(
        endpoint: String, mappings: [String: RESTMapping], http: any HTTPTransport,
        credentials: any Credentials = FixedCredentials(nil), account: String? = nil, options: Options = Options(),
        parentID: @escaping ParentLookup = { _ in nil },
        clock: C = ContinuousClock(),  // live
        wallClock: any WallClock = SystemWallClock(),  // live
        ids: any IDSource = UUIDv7Source(),  // live
        logger: Logger = Logger(label: "ferry.transport")
    ) throws(Endpoint.Failure) where C.Duration == Duration {
        calls = CallStack(
            endpoint: try Endpoint(endpoint, allowsPlainHTTP: options.allowsPlainHTTP), http: http,
            authentication: BearerAuthentication(credentials: credentials, account: account, clock: clock),
            limits: options.answer, deadlines: options.deadlines, clock: clock, wallClock: wallClock, ids: ids,
            logger: logger)
        self.options = options
        self.mappings = mappings
        self.parentID = parentID
    }

    /// A `PUT` says what fields are to be.
    public var sendsValues: Bool { true }

    public func send(_ changes: [Change], deviceID: String) async throws(ExchangeFailure) -> [ChangeResult] {
        var results: [ChangeResult] = []
        for change in changes {
            let result: ChangeResult
            do throws(ExchangeFailure) {
                result = try await send(change, deviceID)
            } catch {
                if results.isEmpty { throw error }
                // Those before have their verdicts; this one and the rest are asked for again.
                return results
            }
            results.append(result)
            guard case .applied = result.verdict else { return results }
        }
        return results
    }

    /// Reads one record of a list: whatever the server says about that proves that it works.
    public func probe() async throws(ExchangeFailure) {
        let answer = try await call(probeRequest(), [])
        let failure = ExchangeFailure(
            answer, problem: answer.problem(), table: options.failures, target: .change,
            nowMilliseconds: calls.wallClock.nowMilliseconds)
        // A refusal in the contract's shape is the server's own word as well.
        guard let failure, failure.kind != .permanent else { return }
        throw failure
    }

    private func probeRequest() -> HTTPRequest {
        let first = mappings.inByteOrder.first { $0.value.parent == nil }?.value
        let path = options.probePath ?? first.map { "\($0.prefix)/\($0.collection)?limit=1" } ?? "/"
        var request = calls.endpoint.request(.get, path)
        request.headerFields[.accept] = "application/json, application/problem+json"
        return request
    }

    /// Closes the HTTP client.
    public func close() async {
        await calls.close()
    }

    private func send(_ change: Change, _ deviceID: String) async throws(ExchangeFailure) -> ChangeResult {
        guard let mapping = mappings[change.record.entity] else {
            let rejection = Rejection(code: .unknownEntity, message: "\(change.record.entity) has no mapping")
            return ChangeResult(changeID: change.id, verdict: .rejected(rejection))
        }
        let parent = mapping.parent == nil ? nil : await parentID(change.record)
        let request: RESTRequest
        do throws(Rejection) {
            request = try RESTRequest(
                change, deviceID: deviceID, mapping: mapping, endpoint: calls.endpoint, parentID: parent)
        } catch {
            return ChangeResult(changeID: change.id, verdict: .rejected(error))
        }
        let answer = try await call(request.request, request.body)
        let isReplayed = answer.head.headerFields[.idempotencyReplayed] == "true"
        let backoff = ServerPause.backoff(answer.head.headerFields)
        switch judge(answer, change, mapping) {
        case .decided(let verdict):
            return ChangeResult(
                changeID: change.id, verdict: verdict, isDuplicate: isReplayed, backoffSeconds: backoff)
        case .failed(let failure): throw failure
        case .movedOn:
            let verdict = try await present(change, mapping, parent)
            return ChangeResult(changeID: change.id, verdict: verdict, backoffSeconds: backoff)
        }
    }

    /// The conflict with what the record is now, for an answer that says so without bringing it.
    private func present(
        _ change: Change, _ mapping: RESTMapping, _ parent: String?
    ) async throws(ExchangeFailure) -> Verdict {
        let request: HTTPRequest
        do throws(Rejection) {
            request = try RESTRequest.read(change, mapping: mapping, endpoint: calls.endpoint, parentID: parent)
        } catch {
            return .rejected(error)
        }
        let answer = try await call(request, [])
        if let failure = ExchangeFailure(
            answer, problem: answer.problem(codeMember: mapping.errorCodeMember), table: options.failures,
            target: .change, nowMilliseconds: calls.wallClock.nowMilliseconds)
        {
            guard failure.kind == .permanent else { throw failure }
            return .rejected(Rejection(code: .init(rawValue: failure.code ?? "notFound"), message: failure.message))
        }
        let members = RESTVerdict.members(of: answer.body).map(FieldValue.object)
        guard let record = RESTVerdict.record(members, for: change, mapping: mapping) else {
            throw ExchangeFailure(
                kind: .network, status: answer.status,
                message: CauseText.ofNoAnswer(
                    expected: "the present record", came: Redaction.beginning(of: answer.body)))
        }
        return .conflict(record: record)
    }

    private func judge(_ answer: Answer, _ change: Change, _ mapping: RESTMapping) -> RESTVerdict {
        RESTVerdict(
            answer, to: change, mapping: mapping, table: options.failures,
            nowMilliseconds: calls.wallClock.nowMilliseconds)
    }

    private func call(_ request: HTTPRequest, _ body: [UInt8]) async throws(ExchangeFailure) -> Answer {
        do throws(HTTPFailure) {
            return try await calls.call(Call(request: request, body: body, id: calls.ids.makeID()))
        } catch {
            throw ExchangeFailure(error)
        }
    }
}
