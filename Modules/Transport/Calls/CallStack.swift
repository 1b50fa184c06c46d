public import Logging
public import SyncCore

/// What every request of a server goes through, composed in one place: logging around authentication around
/// compression around redirects around the wire; and one watch over all of it.
public struct CallStack: Sendable {
    let endpoint: Endpoint
    private let first: any Caller
    private let http: any HTTPTransport
    private let stopwatch: Stopwatch
    private let deadlines: Deadlines
    let wallClock: any WallClock
    let ids: any IDSource

    /// The way to one server.
    ///
    /// - Parameters:
    ///   - http: the HTTP client, which ``close()`` closes.
    ///   - authentication: what proves who asks, on every request.
    ///   - clock: measures the deadlines.
    public init<C: Clock>(
        endpoint: Endpoint, http: any HTTPTransport, authentication: any Authentication, limits: AnswerLimits = .init(),
        deadlines: Deadlines = .init(), clock: C, wallClock: any WallClock, ids: any IDSource, logger: Logger
    ) where C.Duration == Duration {
        self.endpoint = endpoint
        self.http = http
        self.deadlines = deadlines
        self.wallClock = wallClock
        self.ids = ids
        stopwatch = Stopwatch(clock)
        let wire = WireCaller(http: http, limits: limits)
        let redirects = RedirectCaller(endpoint: endpoint, next: wire)
        let compression = CompressionCaller(next: redirects)
        let authenticated = AuthenticationCaller(authentication: authentication, next: compression)
        first = LoggingCaller(logger: logger, next: authenticated)
    }

    /// Sends one request and waits for its whole answer, within the deadlines. Nothing is repeated but what a 401, a
    /// 415 or a redirect proves not to have been done.
    func call(_ call: Call) async throws(HTTPFailure) -> Answer {
        let watch = Watch(stopwatch, deadlines)
        let first = first
        return try await withTaskGroup(of: Outcome.self) { group in
            group.addTask {
                do throws(HTTPFailure) {
                    return .finished(.success(try await first.call(call, watch: watch)))
                } catch {
                    return .finished(.failure(error))
                }
            }
            group.addTask { await watch.expires() ? .expired : .unwatched }
            var isExpired = false
            while let outcome = await group.next() {
                switch outcome {
                case .unwatched: continue
                case .expired:
                    isExpired = true
                    group.cancelAll()
                case .finished(let result):
                    group.cancelAll()
                    guard isExpired, case .failure(let failure) = result, failure.kind == .cancelled else {
                        return result
                    }
                    return .failure(HTTPFailure(.timedOut, "no answer within the deadlines"))
                }
            }
            return .failure(HTTPFailure(.cancelled, "cancelled"))
        }.get()
    }

    private enum Outcome: Sendable {
        case finished(Result<Answer, HTTPFailure>)
        case expired
        case unwatched
    }

    /// Closes the HTTP client: ends what is under way; later calls fail.
    public func close() async {
        await http.close()
    }
}
