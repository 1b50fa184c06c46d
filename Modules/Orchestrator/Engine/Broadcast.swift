/// One value stream for any number of listeners, owned by the actor that holds it.
///
/// Each stream begins with the newest value, if there is one, and keeps as many unread ones as its policy says.
struct Broadcast<Element: Sendable>: Sendable {
    private var listeners: [Int: AsyncStream<Element>.Continuation] = [:]
    private var next = 0
    private var isFinished = false
    private(set) var newest: Element?
    private let keepsNewest: Bool
    private let policy: AsyncStream<Element>.Continuation.BufferingPolicy

    /// - Parameter keepsNewest: whether a new listener is told the newest value at once.
    init(keepsNewest: Bool, policy: AsyncStream<Element>.Continuation.BufferingPolicy) {
        self.keepsNewest = keepsNewest
        self.policy = policy
    }

    mutating func stream() -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream.makeStream(of: Element.self, bufferingPolicy: policy)
        if keepsNewest, let newest { continuation.yield(newest) }
        guard !isFinished else {
            continuation.finish()
            return stream
        }
        listeners[next] = continuation
        next += 1
        return stream
    }

    mutating func send(_ element: Element) {
        newest = element
        for (number, continuation) in listeners.sorted(by: { $0.key < $1.key }) {
            if case .terminated = continuation.yield(element) { listeners[number] = nil }
        }
    }

    /// Ends all streams, and each that is asked for from then on after its newest value.
    mutating func finish() {
        isFinished = true
        for (_, continuation) in listeners.sorted(by: { $0.key < $1.key }) { continuation.finish() }
        listeners = [:]
    }
}
