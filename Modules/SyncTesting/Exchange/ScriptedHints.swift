public import SyncCore
import Foundation

/// Hints that a test gives: a stream for each call, which the test speaks on and ends.
public final class ScriptedHints: HintSource, @unchecked Sendable {
    // Sendable: `streams`, `calls` and `refusals` are used under `lock` alone.
    private let lock = NSLock()
    private var streams: [Int: AsyncStream<Hint>.Continuation] = [:]
    private var calls: [Int64?] = []
    private var refusals: [ExchangeFailure] = []

    public init() {}

    /// The next call, behind those that were said before, gets no stream but this.
    public func refuseNext(_ failure: ExchangeFailure = .unreachable) { lock.withLock { refusals.append(failure) } }

    /// The version that each call knew, in the order of the calls.
    public var versions: [Int64?] { lock.withLock { calls } }

    /// How many listen now.
    public var listenerCount: Int { lock.withLock { streams.count } }

    /// Tells everybody who listens.
    public func say(_ hint: Hint) { for stream in all { stream.yield(hint) } }

    /// Ends every stream once what was said is heard.
    public func end() { for stream in all { stream.finish() } }

    public func listen(
        after version: Int64?, _ heard: @escaping @Sendable (HintEvent) async -> Void
    ) async throws(ExchangeFailure) {
        let (stream, continuation) = AsyncStream.makeStream(of: Hint.self)
        let (id, refusal) = lock.withLock { () -> (Int, ExchangeFailure?) in
            calls.append(version)
            if !refusals.isEmpty { return (0, refusals.removeFirst()) }
            streams[calls.count] = continuation
            return (calls.count, nil)
        }
        if let refusal { throw refusal }
        await heard(.opened)
        for await hint in stream { await heard(.hint(hint)) }
        lock.withLock { streams[id] = nil }
        if Task.isCancelled { throw .cancelled }
    }

    private var all: [AsyncStream<Hint>.Continuation] {
        lock.withLock { streams.keys.sorted().compactMap { streams[$0] } }
    }
}
