import GRDB

/// Speaks after each commit of this process that touched the change log, the app's own writes among them.
final class QueueObserver: TransactionObserver, @unchecked Sendable {  // GRDB calls it on its writer's queue only
    private let speak: @Sendable () -> Void
    private var hasChanged = false

    init(speak: @escaping @Sendable () -> Void) { self.speak = speak }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { eventKind.tableName == "sync_change" }

    func databaseDidChange(with event: DatabaseEvent) {
        hasChanged = true
        // One event says it all: the rest of the transaction is spared the calls.
        stopObservingDatabaseChangesUntilNextTransaction()
    }

    func databaseDidCommit(_ db: Database) {
        guard hasChanged else { return }
        hasChanged = false
        speak()
    }

    func databaseDidRollback(_ db: Database) { hasChanged = false }
}
