import Foundation

/// Who listens to a kind of notice; each listener gets the newest one only.
///
/// A lock guards the list, since a commit of the app's speaks on GRDB's thread.
final class Speakers: @unchecked Sendable {  // the lock guards both fields
    private let lock = NSLock()
    private var listeners: [Int: AsyncStream<Void>.Continuation] = [:]
    private var next = 0

    /// A new listener; it is forgotten when its stream ends.
    func stream() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = lock.withLock {
            next += 1
            listeners[next] = continuation
            return next
        }
        continuation.onTermination = { [weak self] _ in self?.remove(number) }
        return stream
    }

    func speak() {
        let all = lock.withLock { inOrder }
        for continuation in all { continuation.yield() }
    }

    /// Ends all streams.
    func finish() {
        let all = lock.withLock {
            defer { listeners = [:] }
            return inOrder
        }
        for continuation in all { continuation.finish() }
    }

    /// Whoever came first is told first: who wakes whom is part of what a seed decides.
    private var inOrder: [AsyncStream<Void>.Continuation] { listeners.sorted { $0.key < $1.key }.map(\.value) }

    private func remove(_ number: Int) {
        lock.withLock { _ = listeners.removeValue(forKey: number) }
    }
}
