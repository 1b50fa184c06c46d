public import SyncCore

extension Store {
    /// Makes entries of the change log of all rows that a dirty flag marks (`capture: .dirtyFlag`).
    ///
    /// The store does so by itself before each claim, page and question about the queue; a handler's `collectDirty` or a
    /// test may ask for it alone.
    /// - Returns: how many entries there are more.
    @discardableResult
    public func collectDirty() throws(StoreFailure) -> Int {
        let (schema, now) = (schema, now)
        return try perform("collecting dirty rows") { db in
            let count = try DirtyFlags.collect(db, schema, now: now)
            try DirtyFlags.clear(db, schema, now: now)
            return count
        }
    }
}
