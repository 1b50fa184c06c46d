public import SyncCore
import Foundation

/// Credentials that have these tokens one after the other: the first now, the next with each refresh, and then none.
///
/// Who asks about a token that was replaced already gets the present one, and costs none.
public final class ScriptedCredentials: Credentials, @unchecked Sendable {
    // Sendable: everything that changes is used under `lock` alone.
    private let lock = NSLock()
    private let held = Hold()
    private var tokens: [Token]
    private var present: Token?
    private var failures: [any Error] = []
    private var refused: [Token?] = []
    private var asked = 0
    private var holds = false

    public init(_ tokens: [Token]) {
        present = tokens.first
        self.tokens = Array(tokens.dropFirst())
    }

    /// Tokens of one account with these values.
    public convenience init(_ values: String..., account: String? = nil) {
        self.init(values.map { Token(value: $0, account: account) })
    }

    /// How often a token was asked for.
    public var tokenCount: Int { lock.withLock { asked } }

    /// The tokens that a new one was asked for, in order.
    public var refreshes: [Token?] { lock.withLock { refused } }

    /// The next call, of either kind, throws this.
    public func failNext(_ failure: any Error) { lock.withLock { failures.append(failure) } }

    /// Refreshes wait from now on until ``release()``, or until they are cancelled.
    public func holdRefreshes() { lock.withLock { holds = true } }

    /// Lets refreshes go, those that wait and those to come.
    public func release() {
        lock.withLock { holds = false }
        held.release()
    }

    /// Waits until so many refreshes were held.
    public func waitForHeld(_ count: Int) async { await held.waitForArrivals(count) }

    public func token() async throws -> Token? {
        try lock.withLock {
            asked += 1
            if !failures.isEmpty { throw failures.removeFirst() }
            return present
        }
    }

    public func refresh(_ old: Token?) async throws -> Token? {
        let waits = lock.withLock { () -> Bool in
            refused.append(old)
            return holds
        }
        if waits { await held.wait() }
        try Task.checkCancellation()
        return try lock.withLock {
            if !failures.isEmpty { throw failures.removeFirst() }
            if present == old || present == nil { present = tokens.isEmpty ? nil : tokens.removeFirst() }
            return present
        }
    }
}
