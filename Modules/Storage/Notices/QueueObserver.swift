import GRDB

/// Speaks after each commit of this process that put something into the queue, the app's own writes among them.
///
/// GRDB asks before each statement which kinds of events are of interest; that a statement may write the queue is all that
/// is noted there. Watching the rows themselves, or asking the clock after each commit, made a captured write dearer. So an
/// app's write that changed nothing speaks, too; the engine's own say exactly whether they added anything (``note(_:)``).
final class QueueObserver: TransactionObserver, @unchecked Sendable {  // GRDB calls it on its writer's queue only
    private let speak: @Sendable () -> Void
    private let tables: Set<String>
    private var mayHaveAdded = false
    private var added: Bool?

    /// - Parameter tables: where captured writes leave a trace.
    init(tables: Set<String>, speak: @escaping @Sendable () -> Void) {
        self.tables = tables
        self.speak = speak
    }

    /// The transaction at work, the engine's own, knows whether it added to the queue.
    func note(_ added: Bool) { self.added = added }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool {
        if case .insert(let table) = eventKind, tables.contains(table) { mayHaveAdded = true }
        return false
    }

    func databaseDidChange(with event: DatabaseEvent) {}

    func databaseDidCommit(_ db: Database) {
        if added ?? mayHaveAdded { speak() }
        (mayHaveAdded, added) = (false, nil)
    }

    func databaseDidRollback(_ db: Database) { (mayHaveAdded, added) = (false, nil) }
}
