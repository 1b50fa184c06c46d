internal import NIOConcurrencyHelpers

/// What one account has used of its share, as a value: a bucket that refills by the second, and counts.
struct Allowance: Sendable {
    private(set) var left: Double
    private(set) var filled: Int64
    var inWork = 0
    var streams = 0

    init(_ limits: RateLimits, now: Int64) {
        left = Double(limits.perSecond)
        filled = now
    }

    /// Takes one request; otherwise the seconds until there is one again.
    mutating func take(_ limits: RateLimits, now: Int64) -> Double? {
        let rate = Double(limits.perSecond)
        if now > filled {
            left = min(rate, left + Double(now - filled) / 1e9 * rate)
            filled = now
        }
        guard left >= 1 else { return rate > 0 ? (1 - left) / rate : 60 }
        left -= 1
        return nil
    }
}

/// Keeps each account within its share, so that one cannot starve another.
final class AccountLimiter: Sendable {
    let limits: RateLimits
    private let now: @Sendable () -> Int64
    private let allowances = NIOLockedValueBox<[String: Allowance]>([:])

    /// `now`: nanoseconds of a clock that does not jump.
    init(limits: RateLimits, now: @escaping @Sendable () -> Int64) {
        self.limits = limits
        self.now = now
    }

    /// One request more of this account.
    func begin(_ account: String) throws(Problem) {
        let wait = change(account) { $0.take(limits, now: now()) }
        if let wait { throw .rateLimited(retryAfter: max(1, Int(wait.rounded(.up)))) }
    }

    /// The request goes to work; paired with ``leave(_:)``.
    func enter(_ account: String) throws(Problem) {
        let isIn = change(account) { allowance in
            guard allowance.inWork < limits.concurrent else { return false }
            allowance.inWork += 1
            return true
        }
        if !isIn { throw .rateLimited(retryAfter: 1) }
    }

    func leave(_ account: String) {
        change(account) { $0.inWork -= 1 }
    }

    /// One event stream more; paired with ``closeStream(_:)``.
    func openStream(_ account: String) throws(Problem) {
        let isOpen = change(account) { allowance in
            guard allowance.streams < limits.streams else { return false }
            allowance.streams += 1
            return true
        }
        if !isOpen { throw .rateLimited(retryAfter: 60) }
    }

    func closeStream(_ account: String) {
        change(account) { $0.streams -= 1 }
    }

    private func change<Value: Sendable>(_ account: String, _ body: (inout Allowance) -> Value) -> Value {
        allowances.withLockedValue { allowances in
            body(&allowances[account, default: Allowance(limits, now: now())])
        }
    }
}
