import GRDB

/// What the engine's work on rows frees in the queue: a change that waited behind one that was set aside with its rows, or for a row of
/// this device alone. No claim follows such work by itself, so who sends one change after another would not hear of it (seed 1015 with
/// `--drafts --single`, 10357 with `--single --capture explicit`).
extension Store {
    /// Does such work in a transaction; who waits for word of the queue has it once that stands.
    nonisolated func tellingFreed<T>(_ db: Database, _ body: () throws -> T) throws -> T {
        let waiting = try QueueFigures.Waiting(db)
        let result = try body()
        try tellFreed(db, since: waiting)
        return result
    }

    /// The same, once it is done.
    nonisolated func tellFreed(_ db: Database, since waiting: QueueFigures.Waiting) throws {
        guard waiting.count > 0, try waiting.isFreed(by: QueueFigures.Waiting(db)) else { return }
        db.afterNextTransaction { [queueSpeakers, stateSpeakers] _ in
            queueSpeakers.speak()
            stateSpeakers.speak()
        }
    }
}
