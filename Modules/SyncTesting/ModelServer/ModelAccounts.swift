public import SyncCore
import Foundation

/// A model server with accounts: one ``ModelServer`` for each, and the tokens that open them.
///
/// What a device holds is ``exchange(for:)``: each request goes to the account of the token that the credentials have then, so
/// that a token that runs out, a refused one, and another user's are the test's to give.
public final class ModelAccounts: @unchecked Sendable {
    // Sendable: `servers` and `tokens` are used under `lock` alone.
    private let lock = NSLock()
    private let make: @Sendable (_ account: String) -> ModelServer
    private var servers: [String: ModelServer] = [:]
    private var tokens: [String: String] = [:]

    /// - Parameter make: the server of an account that is asked for the first time; each is to have a data set of its own.
    public init(_ make: @escaping @Sendable (_ account: String) -> ModelServer) { self.make = make }

    /// The account's server, which is made when it is asked for first.
    public func server(of account: String) -> ModelServer {
        lock.withLock {
            if let known = servers[account] { return known }
            let server = make(account)
            servers[account] = server
            return server
        }
    }

    /// The accounts that have a server, sorted by name.
    public var accounts: [String] { lock.withLock { servers.keys.sorted() } }

    /// From now on this token opens the account, and no other that it may have opened before.
    public func issue(_ token: String, to account: String) { lock.withLock { tokens[token] = account } }

    /// From now on this token is answered with 401.
    public func revoke(_ token: String) { lock.withLock { tokens[token] = nil } }

    /// The server as one device reaches it: a 401 asks once for new credentials and sends the request once more, as Transport does.
    ///
    /// Closing it closes nobody else's.
    public func exchange(for credentials: any Credentials) -> any Exchange {
        AccountExchange(accounts: self, credentials: credentials)
    }

    fileprivate func server(for token: Token?) -> ModelServer? {
        let account = lock.withLock { token.flatMap { tokens[$0.value] } }
        return account.map { server(of: $0) }
    }
}

/// One device's way to its account.
private final class AccountExchange: Exchange, @unchecked Sendable {
    // Sendable: `isClosed` is used under `lock` alone.
    private let lock = NSLock()
    private let accounts: ModelAccounts
    private let credentials: any Credentials
    private var isClosed = false

    init(accounts: ModelAccounts, credentials: any Credentials) {
        self.accounts = accounts
        self.credentials = credentials
    }

    func exchange(_ request: ExchangeRequest) async throws(ExchangeFailure) -> ExchangeAnswer {
        let old = try await had { try await credentials.token() }
        if lock.withLock({ isClosed }) { throw .closed }
        if let server = accounts.server(for: old) { return try server.answer(request) }
        let new = try await had { try await credentials.refresh(old) }
        if lock.withLock({ isClosed }) { throw .closed }
        guard new?.value != old?.value, let server = accounts.server(for: new) else {
            throw .status(401, code: "unauthorized")
        }
        return try server.answer(request)
    }

    func close() async { lock.withLock { isClosed = true } }

    /// What an app's credentials throw means: try later. Only the user's turn is said by `nil`.
    private func had(_ token: () async throws -> Token?) async throws(ExchangeFailure) -> Token? {
        do {
            return try await token()
        } catch {
            if error is CancellationError { throw .cancelled }
            throw ExchangeFailure(kind: .network, message: "the credentials could not be had: \(type(of: error))")
        }
    }
}
