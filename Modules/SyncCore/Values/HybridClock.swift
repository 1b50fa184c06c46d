/// A hybrid logical clock: a value that gives a stamp above all it gave or saw, near the wall clock where it can.
///
/// It reads no clock; the caller hands the wall time in. Source of the rule: "Logical Physical Clocks", Kulkarni et al., 2014.
public struct HybridClock: Sendable, Hashable {
    /// The greatest stamp given or seen.
    public private(set) var last: Stamp

    /// A clock that has given or seen `last`.
    public init(last: Stamp = .zero) { self.last = last }

    /// The stamp of a write made now; strictly greater than every stamp given or seen before.
    public mutating func tick(wallMilliseconds: UInt64) -> Stamp {
        last = max(last.successor, Stamp(milliseconds: wallMilliseconds, counter: 0))
        return last
    }

    /// Moves past a stamp that came from elsewhere, so that an edit made after seeing a value beats it.
    public mutating func observe(_ stamp: Stamp) {
        last = max(last, stamp)
    }
}
