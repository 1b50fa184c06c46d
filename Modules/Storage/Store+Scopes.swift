import GRDB
public import SyncCore

/// What of the account this device holds: all, or chosen roots with everything under them.
extension Store {
    /// The roots asked for; `nil` for everything that the account may see.
    public func scopes() throws(StoreFailure) -> Set<RecordKey>? {
        try look("reading the scopes") { db in
            try Scopes.read(db).map { Set($0.asked.keys.compactMap(RecordKey.init(scopeName:))) }
        }
    }

    /// Asks for these roots from now on; for everything with `nil`.
    ///
    /// A new root is caught up from 0 by itself, the others go on where they stand. Rows of roots that are not asked for any
    /// more go at once, but for those with changes in the queue: these are sent like all others, and go with
    /// ``evictLeaving()`` when they are decided, or given up where they were set aside. Nothing of it is told to the server as a delete.
    /// - Returns: how many rows went.
    @discardableResult
    public func setScopes(_ roots: Set<RecordKey>?) throws(StoreFailure) -> Int {
        let schema = schema
        let now = now
        let removed = try perform("choosing scopes") { db -> Int in
            let present = try Scopes.read(db)
            guard let roots else {
                guard present != nil else { return 0 }
                try Meta.set(db, .scopes, nil as String?)
                // What was not asked for is not here: everything counts as new.
                try Meta.set(db, .checkpoint, 0)
                return 0
            }
            let names = Set(roots.map(\.scopeName))
            // Where everything was asked for, each root stands where the whole stood.
            let known =
                try present?.asked ?? names.reduce(into: [:]) { $0[$1] = try Meta.integer(db, .checkpoint) ?? 0 }
            var next = Scopes(asked: [:], leaving: (present?.leaving ?? []).subtracting(names))
            for name in names { next.asked[name] = known[name] ?? 0 }
            let gone =
                try present.map { Set($0.asked.keys).subtracting(names) }
                ?? Set(Eviction.roots(db, schema).map(\.scopeName)).subtracting(names)
            // One that comes back before it had left is caught up anew: some of its rows are gone.
            for name in names.intersection(present?.leaving ?? []) { next.asked[name] = 0 }
            next.leaving.formUnion(gone)
            let removed = try context.derivingAll(db, now: now) { try Self.evict(db, &next, schema) }
            try next.write(db)
            return removed
        }
        if removed > 0 {
            appliedSpeakers.speak()
            stateSpeakers.speak()
        }
        return removed
    }

    /// Takes away what was kept of roots that are not asked for any more, as far as it is decided by now, and what was made
    /// or moved under records that are not here.
    /// - Parameter isPulled: whether everything that is asked for is here.
    /// - Returns: how many rows went.
    @discardableResult
    public func evictLeaving(isPulled: Bool = true) throws(StoreFailure) -> Int {
        let isIdle = try look("reading the scopes") { db in
            guard let scopes = try Scopes.read(db) else { return true }
            return try scopes.leaving.isEmpty && !HeldRecords.hasStrays(db)
        }
        guard !isIdle else { return 0 }
        let schema = schema
        let now = now
        let removed = try perform("taking dropped roots away") { db -> Int in
            guard var scopes = try Scopes.read(db) else { return 0 }
            let before = scopes
            let removed = try context.derivingAll(db, now: now) {
                let strays = try isPulled ? dropStrays(db, scopes, now) : 0
                return try strays + Self.evict(db, &scopes, schema)
            }
            if scopes != before { try scopes.write(db) }
            return removed
        }
        if removed > 0 { appliedSpeakers.speak() }
        return removed
    }

    /// What verdicts put under records that have not come with the pages since leaves like all that a page says to leave. If such
    /// a record comes later, all that is under it has new versions.
    private func dropStrays(_ db: Database, _ scopes: Scopes, _ now: Int64) throws -> Int {
        let strays = try HeldRecords.strayed(db, upTo: scopes.asked.values.min() ?? .max)
        guard !strays.isEmpty else { return 0 }
        return try RowWriter.applying(db) {
            let applier = try SliceApplier(db, context, now: now)
            try applier.apply(strays.map { ServerRecord(key: $0.key, version: $0.version, presence: .gone) })
            return applier.report.deleted
        }
    }

    private static func evict(_ db: Database, _ scopes: inout Scopes, _ schema: Schema) throws -> Int {
        var removed = 0
        try RowWriter.applying(db) {
            for name in scopes.leaving.sorted() {
                guard let root = RecordKey(scopeName: name) else { continue }
                let result = try Eviction.evict(db, root, schema)
                removed += result.removed
                if result.isComplete { scopes.leaving.remove(name) }
            }
        }
        return removed
    }
}
