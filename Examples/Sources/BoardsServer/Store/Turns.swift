internal import NIOCore

/// What waits for the store, by account: accounts take turns, and within one what came first goes first.
///
/// A value; whoever shares it guards it. Source: FAILURES.md, SEC-22.
struct Turns<Waiting> {
    /// Whose turn it is: an account, or `nil` for what the server asks of the store itself.
    typealias Lane = String?

    /// Of each lane what waits, the first in front; none is empty.
    private var lanes: [Lane: CircularBuffer<Waiting>] = [:]
    /// Each lane once; the one whose turn is next in front.
    private var order = CircularBuffer<Lane>()
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    /// What has the next turn.
    var first: Waiting? { order.first.flatMap { lanes[$0]?.first } }

    mutating func append(_ waiting: Waiting, of lane: Lane) {
        count += 1
        if lanes[lane]?.append(waiting) == nil {
            lanes[lane] = CircularBuffer([waiting])
            order.append(lane)
        }
    }

    /// Takes what has the next turn; its lane stands last then.
    mutating func removeFirst() -> (lane: Lane, waiting: Waiting)? {
        guard let lane = order.popFirst(), let waiting = lanes[lane]?.popFirst() else { return nil }
        count -= 1
        if lanes[lane]?.isEmpty == true { lanes[lane] = nil } else { order.append(lane) }
        return (lane, waiting)
    }

    /// Puts back, before all others and in this order, what was taken and had no turn.
    mutating func putBack(_ taken: [(lane: Lane, waiting: Waiting)]) {
        for (lane, waiting) in taken.reversed() {
            count += 1
            if lanes[lane]?.prepend(waiting) == nil {
                lanes[lane] = CircularBuffer([waiting])
            } else {
                order.removeAll { $0 == lane }
            }
            order.prepend(lane)
        }
    }

    /// Takes all there is.
    mutating func removeAll() -> [Waiting] {
        var all: [Waiting] = []
        while let (_, waiting) = removeFirst() { all.append(waiting) }
        return all
    }
}

extension Turns: Sendable where Waiting: Sendable {}
