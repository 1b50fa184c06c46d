public import Orchestrator
import Foundation

/// What a platform says of the network, said by a test.
public final class PathSwitch: Connectivity, @unchecked Sendable {
    // Sendable: `listeners` and `present` are used under `lock` alone; nobody is told anything under it.
    private let lock = NSLock()
    private var listeners: [Int: AsyncStream<NetworkPath>.Continuation] = [:]
    private var count = 0
    private var present: NetworkPath?

    /// - Parameter path: how the device is connected; `nil` as long as nobody has said.
    public init(_ path: NetworkPath? = nil) { present = path }

    /// The device is connected like this from now on.
    public func say(_ path: NetworkPath) {
        let all = lock.withLock {
            present = path
            return listeners.keys.sorted().compactMap { listeners[$0] }
        }
        for listener in all { listener.yield(path) }
    }

    /// How many listen now.
    public var listenerCount: Int { lock.withLock { listeners.count } }

    public func paths() -> AsyncStream<NetworkPath> {
        let (stream, continuation) = AsyncStream.makeStream(of: NetworkPath.self, bufferingPolicy: .bufferingNewest(1))
        let (id, path) = lock.withLock { () -> (Int, NetworkPath?) in
            count += 1
            listeners[count] = continuation
            return (count, present)
        }
        continuation.onTermination = { [weak self] _ in self?.forget(id) }
        if let path { continuation.yield(path) }
        return stream
    }

    private func forget(_ id: Int) { lock.withLock { listeners[id] = nil } }
}
