import Foundation

/// Speaks after each commit that put something into the queue or freed it.
final class LogNotifier: @unchecked Sendable {
    // Sendable: `continuations` is used under `lock` alone.
    private let lock = NSLock()
    private var continuations: [Int: AsyncStream<Void>.Continuation] = [:]
    private var number = 0

    func stream() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let own = lock.withLock {
            number += 1
            continuations[number] = continuation
            return number
        }
        continuation.onTermination = { [weak self] _ in
            guard let self else { return }
            _ = self.lock.withLock { self.continuations.removeValue(forKey: own) }
        }
        return stream
    }

    func notify() {
        for continuation in lock.withLock({ continuations }).values { continuation.yield() }
    }
}
