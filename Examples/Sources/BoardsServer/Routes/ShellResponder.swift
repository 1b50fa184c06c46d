internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOCore
internal import SyncServer

/// Answers every request that comes over HTTP: finds what it is for and whose it is, keeps it within its limits, hands
/// it to the store, and dresses the answer.
///
/// The order is fixed: path, method, token, rate, media type, size, and only then the store. Whatever goes wrong is a
/// ``Problem``; nothing is answered with 500.
struct ShellResponder: HTTPResponder {
    typealias Context = ShellContext

    let backend: any SyncBackend
    let book: TokenBook
    let limiter: AccountLimiter
    let hub: EventHub
    let pump: CommitPump
    let vitals: ServerVitals
    let bodies: BodyReader
    let dresser: AnswerDresser
    let logger: Logger
    /// Nanoseconds of a clock that does not jump.
    let now: @Sendable () -> Int64
    let report: @Sendable () -> String

    func respond(to request: Request, context: ShellContext) async throws -> Response {
        let began = now()
        let route = RouteName(path: request.uri.path)
        let answer: Answer
        do {
            answer = try await take(request, route: route, context: context)
        } catch {
            vitals.count(problem: error.code)
            answer = Answer(error)
        }
        let response = await dresser.response(answer, to: request)
        let seconds = Double(now() - began) / 1e9
        vitals.count(route, status: answer.status, seconds: seconds)
        logger.answered(
            request.method.rawValue, route, status: answer.status, seconds: seconds, bytes: answer.count,
            cause: answer.cause)
        return response
    }

    private func take(
        _ request: Request, route: RouteName, context: ShellContext
    ) async throws(Problem) -> Answer {
        if let methods = route.methods, !methods.contains(request.method.rawValue) {
            throw .methodNotAllowed(methods.joined(separator: ", "))
        }
        switch route {
        case .unknown: throw .notFound
        case .health: return try await health()
        case .metrics: return Answer(status: 200, type: MetricsText.contentType, body: Array(report().utf8))
        case .sync, .records, .events: break
        }
        let authorization = request.headers[.authorization]
        guard let account = book.account(authorization: authorization) else { throw .unauthorized }
        try limiter.begin(account)
        switch route {
        case .events:
            // A body is not wanted here, but has to be over before the stream begins.
            bodies.release(try await bodies.read(request))
            return try events(request, account: account, authorization: authorization, context: context)
        case .sync: return try await sync(request, account: account)
        case .records, .health, .metrics, .unknown: return try await records(request, account: account)
        }
    }

    // MARK: The contract's routes

    private func sync(_ request: Request, account: String) async throws(Problem) -> Answer {
        guard request.headers.isJSON else {
            throw .unsupportedMediaType("A sync is sent as application/json.")
        }
        let held = try await bodies.read(request)
        defer { bodies.release(held) }
        // Most syncs bring nothing and find nothing new: those cost no change of threads, and are no work.
        if let reply = backend.syncAtOnce(account: account, body: held.bytes) { return Answer(reply) }
        return try await working(account) { try await backend.sync(account: account, body: held.bytes) }
    }

    private func records(_ request: Request, account: String) async throws(Problem) -> Answer {
        let held = try await bodies.read(request)
        defer { bodies.release(held) }
        guard held.bytes.isEmpty || request.headers.isJSON else {
            throw .unsupportedMediaType("A record is sent as application/json.")
        }
        let asked = RESTRequest(
            method: request.method.rawValue, path: request.uri.path, query: request.uri.query ?? "",
            headers: Self.passed.compactMap { name in
                request.headers[name].map { ServerReply.Header(name.rawName, $0) }
            }, body: held.bytes)
        return try await working(account) { try await backend.rest(account: account, request: asked) }
    }

    /// The header fields that a record's route looks at.
    private static let passed: [HTTPField.Name] = [
        .ifMatch, .ifNoneMatch, .contentType, HTTPField.Name("Idempotency-Key"), HTTPField.Name("Sync-Device"),
    ].compactMap { $0 }

    private func working(
        _ account: String, _ ask: () async throws -> ServerReply
    ) async throws(Problem) -> Answer {
        try limiter.enter(account)
        vitals.workBegan()
        defer {
            vitals.workEnded()
            limiter.leave(account)
        }
        do {
            return Answer(try await ask())
        } catch {
            logger.error("the store could not be asked", metadata: ["reason": "\(error)"])
            throw .unavailable("The store cannot be asked now.")
        }
    }

    private func health() async throws(Problem) -> Answer {
        do {
            try await backend.checkHealth()
        } catch {
            var answer = Answer(Problem.unavailable("The store cannot be asked now."))
            answer.cause = "\(error)"
            return answer
        }
        return Answer(status: 200, type: "application/json", body: Array(#"{"status":"ok"}"#.utf8))
    }
}

extension Logger {
    /// One request's line: the route and not the path, and nothing of what was said.
    func answered(_ method: String, _ route: RouteName, status: Int, seconds: Double, bytes: Int, cause: String? = nil)
    {
        let level: Logger.Level = cause != nil ? .error : status >= 500 ? .warning : .debug
        guard logLevel <= level else { return }
        var metadata: Logger.Metadata = [
            "method": "\(method)", "route": "\(route.rawValue)", "status": "\(status)",
            "milliseconds": "\((seconds * 1e6).rounded() / 1e3)", "bytes": "\(bytes)",
        ]
        if let cause { metadata["reason"] = "\(cause)" }
        log(level: level, "answered", metadata: metadata)
    }
}
