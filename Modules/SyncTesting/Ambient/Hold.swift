import Foundation

/// Keeps those who come until they are let go, or cancelled, and tells a test how many have come.
package final class Hold: @unchecked Sendable {
    // Sendable: `waiting`, `watchers` and `arrived` are used under `lock` alone; nobody is woken under it.
    private let lock = NSLock()
    private var waiting: [Int: AsyncStream<Void>.Continuation] = [:]
    private var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    private var arrived = 0

    package init() {}

    /// Waits for ``release()``; ends at once where the task is cancelled.
    package func wait() async {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        let (id, met) = lock.withLock { () -> (Int, [CheckedContinuation<Void, Never>]) in
            arrived += 1
            waiting[arrived] = continuation
            let met = watchers.filter { $0.count <= arrived }.map(\.continuation)
            watchers.removeAll { $0.count <= arrived }
            return (arrived, met)
        }
        for watcher in met { watcher.resume() }
        for await _ in stream {}
        lock.withLock { waiting[id] = nil }
    }

    /// Lets go who waits now, in the order in which they came.
    package func release() {
        let all = lock.withLock { waiting.keys.sorted().compactMap { waiting[$0] } }
        for continuation in all { continuation.finish() }
    }

    /// Waits until so many have come, those among them who have gone on.
    package func waitForArrivals(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isMet = lock.withLock { () -> Bool in
                if arrived >= count { return true }
                watchers.append((count, continuation))
                return false
            }
            if isMet { continuation.resume() }
        }
    }
}
