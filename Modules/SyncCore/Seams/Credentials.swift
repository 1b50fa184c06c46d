/// A token, and whose it is.
public struct Token: Sendable, Hashable {
    /// What goes behind `Bearer`.
    public var value: String
    /// The account that it speaks for, compared with the queue's before anything is sent; `nil` if the app cannot tell.
    public var account: String?

    public init(value: String, account: String? = nil) {
        self.value = value
        self.account = account
    }
}

/// Where tokens come from. Asked for by Transport, given by the app.
public protocol Credentials: Sendable {
    /// The present token; `nil` sends requests without one.
    func token() async throws -> Token?
    /// A new token in place of `old`, which the server refused; `nil` if there is none to be had without the user.
    func refresh(_ old: Token?) async throws -> Token?
}

/// One token that never changes.
public struct FixedCredentials: Credentials {
    private let fixed: Token?
    public init(_ token: Token?) { fixed = token }
    public func token() async throws -> Token? { fixed }
    public func refresh(_ old: Token?) async throws -> Token? { nil }
}
