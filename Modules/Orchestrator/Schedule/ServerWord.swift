/// The pause that the server asked for, by the monotonic clock: no jump of the wall clock frees or jails, and nobody's
/// wish goes past it. A pure value.
///
/// The queue keeps the time durably as a time of day; it is measured once, when it is first seen. Of several pauses the one
/// that ends last binds, whoever heard it.
struct ServerWord: Sendable, Hashable {
    /// The longest that a server may make us wait: 24 hours (PROTOCOL.md, section 4).
    static let longest: Int64 = 86_400_000

    private var seen: Int64?
    private var end: Int64?

    /// How long nothing may go, in milliseconds; `nil` if it may.
    /// - Parameter until: what the queue's schedule says, milliseconds since 1970.
    mutating func remaining(_ until: Int64?, wall: Int64, elapsed: Int64) -> Int64? {
        if until != seen {
            seen = until
            if let until {
                let (left, overflow) = until.subtractingReportingOverflow(wall)
                asked(milliseconds: overflow ? Self.longest : left, elapsed: elapsed)
            }
        }
        return left(elapsed: elapsed)
    }

    /// The server said so just now; an earlier pause that ends later stays.
    mutating func asked(milliseconds: Int64, elapsed: Int64) {
        end = max(end ?? .min, elapsed + min(Self.longest, milliseconds))
    }

    /// How long nothing may go, as it was last seen.
    func left(elapsed: Int64) -> Int64? {
        guard let end, end > elapsed else { return nil }
        return end - elapsed
    }
}
