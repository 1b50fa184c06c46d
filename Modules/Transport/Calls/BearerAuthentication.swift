public import HTTPTypes
public import SyncCore

/// `Authorization: Bearer TOKEN` from the app's ``Credentials``, with one refresh for all who wait for it.
///
/// Owns the refresh under way, and the last token that was got in place of a refused one. A token of another account
/// than the queue's is never sent. Where a refresh brings nothing, or what it brought is refused in its turn, only the user
/// can help: the app is asked again after a minute, then ever more seldom, once an hour in the end; at once when it has
/// another token by itself, or after one was accepted (SEC-03). Who is cancelled waits for no refresh of another's.
public actor BearerAuthentication: Authentication {
    private let credentials: any Credentials
    private let account: String?
    private let stopwatch: Stopwatch
    /// The last refused token, and what came in its place; behind a lock of its own, so that a request that has its
    /// token waits for no refresh and changes no thread.
    private let renewed = Locked<Renewed?>(nil)
    private var isRefreshing = false
    private var waiting: [RenewalWait] = []
    /// The last refresh, until a token is accepted.
    private let last = Locked<Attempt?>(nil)

    private struct Renewed: Sendable {
        var old: Token?
        var new: Token
    }

    /// A refresh after which no token was accepted yet.
    private struct Attempt: Sendable {
        /// What requests go out with since; with another one all begins anew.
        var token: Token?
        /// No other refresh before this.
        var until: Duration
        var pause: Duration
    }

    private static let firstPause = Duration.seconds(60)
    private static let longestPause = Duration.seconds(3_600)

    /// - Parameters:
    ///   - account: the account that the queue belongs to; `nil` compares nothing.
    ///   - clock: what pauses between refreshes in vain go by.
    public init<C: Clock>(
        credentials: any Credentials, account: String?,
        clock: C = ContinuousClock()  // live
    ) where C.Duration == Duration {
        self.credentials = credentials
        self.account = account
        stopwatch = Stopwatch(clock)
    }

    public nonisolated func authenticate(_ request: HTTPRequest, body: [UInt8]) async throws(HTTPFailure) -> HTTPRequest
    {
        guard let token = try await present() else { return request }
        var proved = request
        // A line break in a token would end the header and begin another.
        guard token.value.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
            throw HTTPFailure(.authentication, "the token has characters that no header can carry")
        }
        proved.headerFields[.authorization] = "Bearer \(token.value)"
        return proved
    }

    public nonisolated func accepted(_ request: HTTPRequest) {
        guard let proof = request.headerFields[.authorization] else { return }
        last.withLock { last in
            if let token = last?.token, proof == "Bearer \(token.value)" { last = nil }
        }
    }

    public func renew(after request: HTTPRequest) async throws(HTTPFailure) -> Bool {
        while isRefreshing {
            let wait = RenewalWait()
            waiting.append(wait)
            if let outcome = await wait.outcome() { return try outcome.get() }
            // Who refreshed was cancelled, and the next takes its place; or this one is.
            waiting.removeAll { $0 === wait }
            if Task.isCancelled { throw HTTPFailure(.cancelled, "cancelled") }
        }
        isRefreshing = true
        let outcome: Result<Bool, HTTPFailure>
        do throws(HTTPFailure) {
            outcome = .success(try await refresh(request.headerFields[.authorization]))
        } catch {
            outcome = .failure(error)
        }
        isRefreshing = false
        let shared: Result<Bool, HTTPFailure>? =
            if case .failure(let failure) = outcome, failure.kind == .cancelled {
                nil
            } else {
                outcome
            }
        let told = waiting
        waiting = []
        for wait in told { wait.end(shared) }
        return try outcome.get()
    }

    private func refresh(_ refused: String?) async throws(HTTPFailure) -> Bool {
        let now = try await present()
        // Somebody else's refusal has brought a new one already.
        if let now, "Bearer \(now.value)" != refused { return true }
        let before = last.withLock { $0 }
        var pause = Self.firstPause
        if let before, before.token == now {
            guard stopwatch.now() >= before.until else { return false }
            pause = min(Self.longestPause, before.pause * 2)
        }
        let new: Token?
        do { new = try await credentials.refresh(now) } catch { throw Self.failure(error) }
        let isNew = new != nil && new?.value != now?.value
        if let new, isNew { try check(new) }
        let attempt = Attempt(token: isNew ? new : now, until: stopwatch.now() + pause, pause: pause)
        last.withLock { $0 = attempt }
        guard let new, isNew else { return false }
        renewed.withLock { $0 = Renewed(old: now, new: new) }
        return true
    }

    /// The app's token; in place of one that was refused, the one got for it.
    private nonisolated func present() async throws(HTTPFailure) -> Token? {
        var token: Token?
        do { token = try await credentials.token() } catch { throw Self.failure(error) }
        if let renewed = renewed.withLock({ $0 }), renewed.old == token { token = renewed.new }
        if let token { try check(token) }
        return token
    }

    private nonisolated func check(_ token: Token) throws(HTTPFailure) {
        guard let account, let whose = token.account, whose != account else { return }
        throw HTTPFailure(.authentication, "the token is another account's than the queue's; nothing was sent")
    }

    /// What an app's credentials throw means: try later. Only the user's turn is said by `nil`.
    private static func failure(_ error: any Error) -> HTTPFailure {
        if let failure = error as? HTTPFailure { return failure }
        if error is CancellationError { return HTTPFailure(.cancelled, "cancelled") }
        return HTTPFailure(.local, "the credentials could not be had: \(type(of: error))")
    }
}
