import SyncCore

/// The token that a device's app has, and the one that the server takes.
final class DeviceTokens: Credentials, @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor.
    private var held = 1
    private var valid = 1
    /// Whether the app gets a new one by itself; else its user has to sign in.
    private var refreshes = true
    /// Something came of an expired token: it was renewed, or was not to be had.
    var onRefresh: (_ isRenewed: Bool) -> Void = { _ in }

    /// From now on the server takes another one.
    func expire(refreshes: Bool) {
        valid += 1
        self.refreshes = refreshes
    }

    /// The user signs in, or nothing goes wrong any more.
    func signIn() { (held, refreshes) = (valid, true) }

    /// Whether the server takes what stands in a request's header.
    func isValid(_ header: String?) -> Bool { header == "Bearer \(value(valid))" }

    /// What a transport does before a request and after a 401, in one.
    /// - Returns: whether the server takes the token then.
    func present() async throws -> Bool {
        guard held != valid else { return true }
        return try await refresh(token()) != nil
    }

    func token() async throws -> Token? { Token(value: value(held), account: nil) }

    func refresh(_ old: Token?) async throws -> Token? {
        onRefresh(refreshes)
        guard refreshes else { return nil }
        held = valid
        return try await token()
    }

    private func value(_ number: Int) -> String { "token-\(number)" }
}
