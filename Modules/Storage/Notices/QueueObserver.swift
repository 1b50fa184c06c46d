import GRDB

/// Speaks after each commit of this process that touched the change log, the app's own writes among them.
final class QueueObserver: TransactionObserver, Sendable {
    private let speak: @Sendable () -> Void

    init(speak: @escaping @Sendable () -> Void) { self.speak = speak }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { eventKind.tableName == "sync_change" }

    func databaseDidChange(with event: DatabaseEvent) {
        hasChanged = true
        // One event says it all: the rest of the transaction is spared the calls.
        stopObservingDatabaseChangesUntilNextTransaction()
    }
}
