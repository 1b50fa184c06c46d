import GRDB

/// Speaks after each commit of this process that put something into the queue, the app's own writes among them.
///
/// It asks the clock once for a commit: watching the rows themselves made each captured write a third dearer.
final class QueueObserver: TransactionObserver, @unchecked Sendable {  // GRDB calls it on its writer's queue only
    private let speak: @Sendable () -> Void
    private var seen: Int64?

    /// - Parameter seen: the sequence as it is now; the first commit that raises it speaks.
    init(seen: Int64?, speak: @escaping @Sendable () -> Void) {
        self.seen = seen
        self.speak = speak
    }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }

    func databaseDidChange(with event: DatabaseEvent) {}

    func databaseDidCommit(_ db: Database) {
        let sequence: Int64?
        do {
            sequence = try Int64.fetchOne(db.cachedStatement(sql: "SELECT sequence FROM sync_clock WHERE one = 1"))
        } catch {
            // Whoever listens looks for itself.
            sequence = nil
        }
        if let sequence, sequence == seen { return }
        seen = sequence
        speak()
    }

    func databaseDidRollback(_ db: Database) {}
}
