import Foundation

/// Tells any number of listeners that something happened; each keeps the newest only.
final class Broadcast: @unchecked Sendable {
    // Sendable: `listeners` and `nextID` are used under `lock` alone; continuations are spoken to outside it.
    private let lock = NSLock()
    private var listeners: [Int: AsyncStream<Void>.Continuation] = [:]
    private var nextID = 0

    func listen() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let id = lock.withLock { () -> Int in
            nextID += 1
            listeners[nextID] = continuation
            return nextID
        }
        continuation.onTermination = { [weak self] _ in self?.remove(id) }
        return stream
    }

    func speak() {
        for listener in lock.withLock({ listeners.keys.sorted().compactMap { listeners[$0] } }) { listener.yield() }
    }

    private func remove(_ id: Int) {
        lock.withLock { listeners[id] = nil }
    }
}
