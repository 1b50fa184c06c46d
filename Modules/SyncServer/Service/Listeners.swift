/// Who is told of commits.
struct Listeners {
    private var nextID = 0
    private var streams: [Int: (account: String, continuation: AsyncStream<CommitNotice>.Continuation)] = [:]
    private var isFinished = false

    mutating func add(_ account: String, _ continuation: AsyncStream<CommitNotice>.Continuation) -> Int? {
        guard !isFinished else { return nil }
        nextID += 1
        streams[nextID] = (account, continuation)
        return nextID
    }

    mutating func remove(_ id: Int) { streams[id] = nil }

    /// In the order in which they came.
    func tell(_ notice: CommitNotice) {
        guard !streams.isEmpty else { return }
        for (_, stream) in streams.sorted(by: { $0.key < $1.key }) where stream.account == notice.account {
            stream.continuation.yield(notice)
        }
    }

    /// The service ends: the streams, for the caller to end outside of any lock.
    mutating func takeAll() -> [AsyncStream<CommitNotice>.Continuation] {
        isFinished = true
        defer { streams = [:] }
        return streams.sorted { $0.key < $1.key }.map(\.value.continuation)
    }
}

extension SyncService {
    /// What is committed in an account from now on, the caller's own commits too; ends when the service is closed.
    ///
    /// A listener that is slow gets only the newest notice, in which no scope of an earlier one is told again: it says
    /// that asking is worth while, nothing more. Stop listening by ending the iteration.
    public func events(account: String) -> AsyncStream<CommitNotice> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: CommitNotice.self, bufferingPolicy: .bufferingNewest(1))
        guard let id = listeners.with({ $0.add(account, continuation) }) else {
            continuation.finish()
            return stream
        }
        let listeners = listeners
        continuation.onTermination = { _ in listeners.with { $0.remove(id) } }
        return stream
    }
}
