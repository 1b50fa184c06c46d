/// Who is told of commits.
struct Listeners {
    private var nextID = 0
    private var streams: [Int: (account: String, listener: Listener)] = [:]
    private var isFinished = false

    mutating func add(_ account: String, _ listener: Listener) -> Int? {
        guard !isFinished else { return nil }
        nextID += 1
        streams[nextID] = (account, listener)
        return nextID
    }

    mutating func remove(_ id: Int) { streams[id] = nil }

    /// In the order in which they came.
    func tell(_ notice: CommitNotice) {
        guard !streams.isEmpty else { return }
        for (_, stream) in streams.sorted(by: { $0.key < $1.key })
        where stream.account.utf8.elementsEqual(notice.account.utf8) {
            stream.listener.tell(notice)
        }
    }

    /// The service ends: the listeners, for the caller to end outside of any lock.
    mutating func takeAll() -> [Listener] {
        isFinished = true
        defer { streams = [:] }
        return streams.sorted { $0.key < $1.key }.map(\.value.listener)
    }
}

/// One listener's pile, which is never more than one notice.
final class Listener: Sendable {
    private let pending = Guarded<CommitNotice?>(nil)
    private let wake: AsyncStream<Void>.Continuation

    init(wake: AsyncStream<Void>.Continuation) { self.wake = wake }

    /// Joins the notice to what was not taken yet.
    func tell(_ notice: CommitNotice) {
        pending.with { $0 = $0.map(notice.joined(with:)) ?? notice }
        wake.yield()
    }

    func take() -> CommitNotice? {
        pending.with { pending in
            defer { pending = nil }
            return pending
        }
    }

    func finish() { wake.finish() }
}

extension SyncService {
    /// What is committed in an account from now on, the caller's own commits too; ends when the service is closed.
    ///
    /// A listener that is slow gets one notice for all that it missed: the newest version, with the scopes of all; no
    /// scopes, where they are more than ``CommitNotice/mostScopes``. Stop listening by ending the iteration.
    public func events(account: String) -> AsyncStream<CommitNotice> {
        let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let listener = Listener(wake: wake)
        if let id = listeners.with({ $0.add(account, listener) }) {
            let listeners = listeners
            wake.onTermination = { _ in listeners.with { $0.remove(id) } }
        } else {
            wake.finish()
        }
        return AsyncStream {
            for await _ in wakes {
                if let notice = listener.take() { return notice }
            }
            return nil
        }
    }
}
