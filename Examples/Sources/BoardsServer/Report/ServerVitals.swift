internal import NIOConcurrencyHelpers
internal import Synchronization

/// What the server counts about itself, told by `/metrics`; and the bytes it holds, which bound what it takes on.
///
/// Counters are atomic, the tables stand behind a lock; any thread may count.
final class ServerVitals: Sendable {
    /// Seconds; the upper bounds of the duration histogram.
    static let bounds: [Double] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

    struct Durations: Sendable {
        var buckets = [Int](repeating: 0, count: ServerVitals.bounds.count)
        var count = 0
        var sum = 0.0
    }

    struct Tables: Sendable {
        var requests: [RouteName: [Int: Int]] = [:]
        var durations: [RouteName: Durations] = [:]
        var problems: [String: Int] = [:]
        var commits = 0
        var tokens: Int?
    }

    private let tables = NIOLockedValueBox(Tables())
    private let connections = Atomic<Int>(0)
    private let connectionsEver = Atomic<Int>(0)
    private let inWork = Atomic<Int>(0)
    private let heldRequests = Atomic<Int>(0)
    private let heldAnswers = Atomic<Int>(0)
    private let streams = Atomic<Int>(0)
    private let eventsSent = Atomic<Int>(0)
    private let streamsDropped = Atomic<Int>(0)

    // MARK: Connections and bytes

    func connectionOpened() {
        connections.add(1, ordering: .relaxed)
        connectionsEver.add(1, ordering: .relaxed)
    }

    func connectionClosed() { connections.subtract(1, ordering: .relaxed) }

    func holdRequest(_ bytes: Int) { heldRequests.add(bytes, ordering: .relaxed) }
    func releaseRequest(_ bytes: Int) { heldRequests.subtract(bytes, ordering: .relaxed) }
    func holdAnswer(_ bytes: Int) { heldAnswers.add(bytes, ordering: .relaxed) }
    func releaseAnswer(_ bytes: Int) { heldAnswers.subtract(bytes, ordering: .relaxed) }

    /// Bytes of requests that were not decided, and of answers that were not taken yet.
    var held: Int { heldRequests.load(ordering: .relaxed) + heldAnswers.load(ordering: .relaxed) }

    // MARK: Requests

    func workBegan() { inWork.add(1, ordering: .relaxed) }
    func workEnded() { inWork.subtract(1, ordering: .relaxed) }

    func count(_ route: RouteName, status: Int, seconds: Double) {
        tables.withLockedValue { tables in
            tables.requests[route, default: [:]][status, default: 0] += 1
            var durations = tables.durations[route] ?? Durations()
            durations.count += 1
            durations.sum += seconds
            if let bucket = Self.bounds.firstIndex(where: { seconds <= $0 }) { durations.buckets[bucket] += 1 }
            tables.durations[route] = durations
        }
    }

    func count(problem code: String) {
        tables.withLockedValue { $0.problems[code, default: 0] += 1 }
    }

    // MARK: Events and tokens

    func streamOpened() { streams.add(1, ordering: .relaxed) }
    func streamClosed() { streams.subtract(1, ordering: .relaxed) }
    func streamDropped() { streamsDropped.add(1, ordering: .relaxed) }
    func eventSent() { eventsSent.add(1, ordering: .relaxed) }
    func committed() { tables.withLockedValue { $0.commits += 1 } }
    func knows(tokens: Int) { tables.withLockedValue { $0.tokens = tokens } }

    // MARK: What is told

    /// A copy of all of it.
    var reading: Reading {
        Reading(
            tables: tables.withLockedValue { $0 }, connections: connections.load(ordering: .relaxed),
            connectionsEver: connectionsEver.load(ordering: .relaxed), inWork: inWork.load(ordering: .relaxed),
            heldRequests: heldRequests.load(ordering: .relaxed), heldAnswers: heldAnswers.load(ordering: .relaxed),
            streams: streams.load(ordering: .relaxed), eventsSent: eventsSent.load(ordering: .relaxed),
            streamsDropped: streamsDropped.load(ordering: .relaxed))
    }

    struct Reading: Sendable {
        var tables: Tables
        var connections: Int
        var connectionsEver: Int
        var inWork: Int
        var heldRequests: Int
        var heldAnswers: Int
        var streams: Int
        var eventsSent: Int
        var streamsDropped: Int
    }
}
