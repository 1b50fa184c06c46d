import Foundation

/// One stream of values for any number of listeners, who may come from any isolation.
///
/// Each stream buffers as its policy says, so that a listener that has died or dawdles never holds up the queue.
final class Listeners<Element: Sendable>: @unchecked Sendable {
    // Sendable: every stored variable is read and written under `lock` alone. A lock and no actor, so that a listener
    // is registered when `stream()` returns and misses nothing that happens afterwards.
    private let lock = NSLock()
    private let policy: AsyncStream<Element>.Continuation.BufferingPolicy
    private let keepsNewest: Bool
    private var continuations: [Int: AsyncStream<Element>.Continuation] = [:]
    private var number = 0
    private var newest: Element?

    /// - Parameter keepsNewest: whether a new listener is told the newest value at once.
    init(_ policy: AsyncStream<Element>.Continuation.BufferingPolicy, keepsNewest: Bool = false) {
        self.policy = policy
        self.keepsNewest = keepsNewest
    }

    func stream() -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream.makeStream(of: Element.self, bufferingPolicy: policy)
        let (own, first) = lock.withLock {
            number += 1
            continuations[number] = continuation
            return (number, keepsNewest ? newest : nil)
        }
        if let first { continuation.yield(first) }
        continuation.onTermination = { [weak self] _ in self?.remove(own) }
        return stream
    }

    func send(_ element: Element) {
        let all = lock.withLock {
            newest = element
            return continuations
        }
        // Each listener has a stream of its own, so the order among them shows nowhere.
        for continuation in all.values { continuation.yield(element) }
    }

    /// Ends the streams of all listeners there are; later ones start afresh.
    func finish() {
        let all = lock.withLock {
            let all = continuations
            continuations = [:]
            newest = nil
            return all
        }
        for continuation in all.values { continuation.finish() }
    }

    private func remove(_ number: Int) {
        _ = lock.withLock { continuations.removeValue(forKey: number) }
    }
}
