/// How often the engine takes time in the background: a pure value; times are milliseconds since 1970 and come in.
public struct BackgroundBudget: Sendable, Hashable {
    /// So many rounds at most in any window.
    public var most: Int
    /// The window, which begins with any round.
    public var windowMilliseconds: Int64
    /// Two rounds begin at least so far apart.
    public var apartMilliseconds: Int64

    public init(most: Int = 2, windowMilliseconds: Int64 = 86_400_000, apartMilliseconds: Int64 = 21_600_000) {
        self.most = max(1, most)
        self.windowMilliseconds = windowMilliseconds
        self.apartMilliseconds = apartMilliseconds
    }

    /// When the next round may begin.
    /// - Parameter rounds: when earlier ones began, in any order. One that lies ahead, since the clock was set back, counts
    ///   as now; who keeps them puts it down so (`Store.backgroundRounds(noLaterThan:)`), and a jump never costs more than one
    ///   window.
    public func next(after rounds: [Int64], now: Int64) -> Int64 {
        let past = rounds.map { min($0, now) }.sorted()
        var next = now
        if let last = past.last { next = max(next, last + apartMilliseconds) }
        if past.count >= most { next = max(next, past[past.count - most] + windowMilliseconds) }
        return next
    }
}
