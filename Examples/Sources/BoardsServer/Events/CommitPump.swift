internal import NIOConcurrencyHelpers
internal import ServiceLifecycle

/// Carries commits from the store to the event streams: one listener for each account that has, or had, a stream.
final class CommitPump: Service {
    private typealias Listening = (account: String, commits: any AsyncSequence<Commit, Never> & Sendable)

    private let backend: any SyncBackend
    private let hub: EventHub
    private let vitals: ServerVitals
    private let known = NIOLockedValueBox<Set<String>>([])
    private let begun: AsyncStream<Listening>
    private let begin: AsyncStream<Listening>.Continuation

    init(backend: any SyncBackend, hub: EventHub, vitals: ServerVitals) {
        self.backend = backend
        self.hub = hub
        self.vitals = vitals
        (begun, begin) = AsyncStream.makeStream(of: Listening.self, bufferingPolicy: .unbounded)
    }

    /// From this call on the account's commits are told; a second call changes nothing.
    func listen(to account: String) {
        guard known.withLockedValue({ $0.insert(account).inserted }) else { return }
        begin.yield((account, backend.commits(account: account)))
    }

    func run() async throws {
        await withDiscardingTaskGroup { group in
            for await listening in begun.cancelOnGracefulShutdown() {
                group.addTask { [hub, vitals] in
                    for await commit in listening.commits {
                        vitals.committed()
                        hub.announce(account: listening.account, version: commit.version, scopes: commit.scopes)
                    }
                }
            }
            group.cancelAll()
        }
    }
}
