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
    private let overseer: Overseer?
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
        overseer = stopwatch.isLive ? Overseer(stopwatch) : nil
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
        let result =
            if let overseer { await overseen(call, watch, overseer) } else { await slept(call, watch) }
        guard watch.hasExpired, case .failure(let failure) = result, failure.kind == .cancelled else {
            return try result.get()
        }
        throw HTTPFailure(.timedOut, "no answer within the deadlines")
    }

    /// A body compressed before its call; `nil` for one that goes as it is.
    func packed(_ body: [UInt8]) -> [UInt8]? { CompressionCaller.packed(body) }

    /// In a task of its own, which the overseer can end without ending the caller's.
    private func overseen(_ call: Call, _ watch: Watch, _ overseer: Overseer) async -> Result<Answer, HTTPFailure> {
        let first = first
        return await withTaskGroup(of: Result<Answer, HTTPFailure>.self) { group in
            group.begin {
                await overseer.oversee(watch) { await Self.perform(call, watch, first) }
            }
            return await group.next() ?? .failure(HTTPFailure(.cancelled, "cancelled"))
        }
    }

    /// With a second task that sleeps on a clock of any kind.
    private func slept(_ call: Call, _ watch: Watch) async -> Result<Answer, HTTPFailure> {
        let first = first
        return await withTaskGroup(of: Result<Answer, HTTPFailure>?.self) { group in
            group.addTask { await Self.perform(call, watch, first) }
            group.addTask {
                _ = await watch.expires()
                return nil
            }
            while let outcome = await group.next() {
                group.cancelAll()
                if let outcome { return outcome }
            }
            return .failure(HTTPFailure(.cancelled, "cancelled"))
        }
    }

    private static func perform(_ call: Call, _ watch: Watch, _ first: any Caller) async -> Result<Answer, HTTPFailure>
    {
        do throws(HTTPFailure) {
            return .success(try await first.call(call, watch: watch))
        } catch {
            return .failure(error)
        }
    }

    /// Closes the HTTP client: ends what is under way; later calls fail.
    public func close() async {
        await http.close()
    }
}

extension TaskGroup {
    /// Adds a task that begins on this thread at once, where the platform can: a thread less to wake for each request.
    fileprivate mutating func begin(_ operation: sending @escaping @isolated(any) () async -> ChildTaskResult) {
        if #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) {
            addImmediateTask(operation: operation)
        } else {
            addTask(operation: operation)
        }
    }
}
