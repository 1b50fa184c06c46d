internal import SyncCore

/// The place of a write in the one order of all writes: stamp, then device as bytes, then sequence.
///
/// Source of the rule: PROTOCOL.md, *Last writer wins, per field*.
struct WriteTag: Sendable, Hashable, Comparable {
    var stamp: Stamp
    var device: String
    var sequence: Int64

    static func < (a: WriteTag, b: WriteTag) -> Bool {
        if a.stamp != b.stamp { return a.stamp < b.stamp }
        if a.device != b.device { return a.device.utf8.lexicographicallyPrecedes(b.device.utf8) }
        return a.sequence < b.sequence
    }
}

extension WriteTag {
    /// Whether this write comes before another, or there is no other.
    func isEarlier(than other: WriteTag?) -> Bool { other.map { self < $0 } ?? true }
}

extension Optional where Wrapped == WriteTag {
    /// Whether this write comes before another; none comes before every one.
    func isBefore(_ other: WriteTag) -> Bool {
        map { $0 < other } ?? true
    }

    /// The later of both.
    func latest(_ other: WriteTag?) -> WriteTag? {
        guard let self else { return other }
        guard let other else { return self }
        return Swift.max(self, other)
    }
}
