public import Storage
public import SyncCore

extension SyncEngine {
    /// Waits until everything that was written of a record is acknowledged or set aside, or the time is over.
    ///
    /// It waits only: something must sync meanwhile, ``run()`` or ``syncNow()``. Of the record alone, not of what is under
    /// it; and of what the queue knows: what a handler has not found yet is not waited for.
    /// - Returns: what became of it; `waiting` when the time is over or the task is cancelled.
    public func settled(_ record: RecordKey, timeout: Duration) async throws(StoreFailure) -> RecordFate {
        // Listened to before the first look, so that no change falls between.
        let changes = store.stateChanges()
        let first = try await store.fate(of: record)
        guard first == .waiting else { return first }
        let result = await withTaskGroup(of: Result<RecordFate, StoreFailure>?.self) { group in
            group.addTask { [store] in
                for await _ in changes {
                    do throws(StoreFailure) {
                        let fate = try await store.fate(of: record)
                        if fate != .waiting { return .success(fate) }
                    } catch {
                        return .failure(error)
                    }
                }
                return nil
            }
            group.addTask {
                _ = await self.slept(timeout)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
        if let result { return try result.get() }
        return try await store.fate(of: record)
    }
}
