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

    /// Asks for these roots from now on; for everything with `nil`, which is a full pass where roots were chosen before.
    ///
    /// A new root is caught up from 0 by itself; the others go on where they stand, or where a pull began that is not through
    /// while a root is dropped (Decision 191). One that comes back before it had left says then what left it (251).
    /// Rows of roots that are not asked for any more go at once, but for those with changes in the queue: these are sent like
    /// all others, and go with ``evictLeaving()`` when they are decided, or given up where they were set aside. Nothing of it is
    /// told to the server as a delete.
    /// A root that the server calls otherwise may be named by either id; ``scopes()`` has this device's.
    /// - Returns: how many rows went.
    /// - Throws: ``StoreFailure`` `invalid` for a root of an entity that is not declared, or with an id that none can have.
    @discardableResult
    public func setScopes(_ roots: Set<RecordKey>?) throws(StoreFailure) -> Int {
        let schema = schema
        try Self.check(roots ?? [], schema)
        let now = now
        let removed = try perform("choosing scopes") { db in
            try tellingFreed(db) { try untold.noting(db, .gone) { try choose(db, roots, now) } }
        }
        if removed > 0 {
            tellOfMany()
            stateSpeakers.speak()
        }
        return removed
    }

    /// - Returns: how many rows went.
    private func choose(_ db: Database, _ roots: Set<RecordKey>?, _ now: Int64) throws -> Int {
        let present = try Scopes.read(db)
        guard let roots else {
            guard present != nil else { return 0 }
            try Meta.set(db, .scopes, nil as String?)
            // What was not asked for is not here, so all begins at 0; and who begins there is not told what of the rows that are
            // here died before the oldest tombstone, so what is not brought has to go (Decision 267).
            if try PassState.read(db).isRunning {
                try FullPass.beginAgain(db, now: now)
            } else {
                try FullPass.begin(db, epoch: nil, now: now)
            }
            return 0
        }
        let names = Set(try roots.map { try IdentityMap.present(db, $0).scopeName })  // any order
        var next = try present ?? Self.everything(db, names, schema)
        let dropped = Set(next.asked.keys).subtracting(names)
        let isLess = present == nil || !dropped.isEmpty
        if isLess, next.isOpen, try PassState.read(db).isRunning {
            // What it brought may have left since, unheard.
            try FullPass.beginAgain(db, now: now)
            next.restart()
        }
        let here = try Self.here(db, names.filter(next.isFromStart), schema)
        next.choose(names, dropped: dropped, isLess: isLess, here: here)
        if isLess { next.unknown.formUnion(try HeldRecords.forgetUnknown(db)) }
        let removed = try context.derivingAll(db, now: now) {
            try Self.evict(db, &next, context.changes)
        }
        try next.write(db)
        return removed
    }

    /// What nothing can ever be under is a mistake of who asks, not an empty part of the account.
    private static func check(_ roots: Set<RecordKey>, _ schema: Schema) throws(StoreFailure) {
        for root in roots.sorted() {
            guard schema[root.entity] != nil else {
                let names = schema.entities.map(\.name).sorted().joined(separator: ", ")
                throw StoreFailure(
                    kind: .invalid,
                    message: "“\(root.entity)” is not declared, so nothing can be under “\(root.id)” of it; "
                        + "name a root by its record's entity, one of: \(names).")
            }
            guard RecordKey.isValidID(root.id) else {
                throw StoreFailure(
                    kind: .invalid,
                    message: "“\(root.id)” cannot be the id of a \(root.entity); name a root by its record's own id, "
                        + "1 to 128 bytes of letters, digits and - _ . :")
            }
        }
    }

    /// A root that begins at 0, and has rows here by now: these were acknowledged, and the process was killed before anything of
    /// the page was taken, or before the verdict came that is repeated now.
    /// - Parameter versions: those of verdicts told once more. Edits beside them may have raised all that is held past what left
    ///   since (seed 38746).
    /// - Returns: whether there is one.
    @discardableResult
    static func catchUp(_ db: Database, _ schema: Schema, since versions: [Int64] = []) throws -> Bool {
        guard var scopes = try Scopes.read(db) else { return false }
        var here = try here(db, Set(scopes.asked.keys.filter(scopes.isFromStart)), schema)
        guard !here.isEmpty else { return false }
        if let since = versions.min() { here = here.mapValues { min($0, since) } }
        scopes.askForLeaves(since: here)
        try scopes.write(db)
        return true
    }

    /// Of these roots, those that have rows here which the server knows, or had before they were deleted here, unsent; each with the
    /// lowest version of them.
    private static func here(_ db: Database, _ names: Set<String>, _ schema: Schema) throws -> [String: Int64] {
        // What a full pass does not bring goes at its end, whoever told of it.
        guard try !names.isEmpty && !PassState.read(db).isRunning else { return [:] }
        return try names.sorted().reduce(into: [:]) { lowest, name in
            guard let root = RecordKey(scopeName: name), let entity = schema[root.entity] else { return }
            let family = try Removal.family(db, root, schema)
            let rows = try RowWriter(entity).exists(db, root.id) ? family : Array(family.dropFirst())
            let versions = try (rows + Eviction.hidden(db, in: family, schema)).compactMap {
                try StoredRecord.read(db, $0)?.version
            }
            lowest[name] = versions.filter { $0 > 0 }.min()
        }
    }

    /// Takes away what was kept of roots that are not asked for any more, as far as it is decided by now, and what was made
    /// or moved under records that are not here.
    /// - Parameter isPulled: whether everything that is asked for is here; else nothing goes: what stands under a dropped root here
    ///   may be under one that is asked for by now, of which a page is still to tell (seed 106201).
    /// - Returns: how many rows went.
    @discardableResult
    public func evictLeaving(isPulled: Bool = true) throws(StoreFailure) -> Int {
        let isIdle = try look("reading the scopes") { db in
            guard isPulled, let scopes = try Scopes.read(db) else { return true }
            return try scopes.leaving.isEmpty && !HeldRecords.hasStrays(db)
        }
        guard !isIdle else { return 0 }
        let now = now
        let removed = try perform("taking dropped roots away") { db -> Int in
            guard var scopes = try Scopes.read(db) else { return 0 }
            let before = scopes
            let removed = try tellingFreed(db) {
                try context.derivingAll(db, now: now) {
                    try untold.noting(db, .gone) {
                        try dropStrays(db, scopes, now) + Self.evict(db, &scopes, context.changes)
                    }
                }
            }
            if scopes != before { try scopes.write(db) }
            return removed
        }
        if removed > 0 { tellOfMany() }
        return removed
    }

    /// What verdicts put under records that have not come with the pages since leaves like all that a page says to leave. If such
    /// a record comes later, all that is under it has new versions.
    private func dropStrays(_ db: Database, _ scopes: Scopes, _ now: Int64) throws -> Int {
        let strays = try HeldRecords.strayed(db, upTo: scopes.asked.values.min() ?? .max)
        guard !strays.isEmpty else { return 0 }
        return try RowWriter.applying(db) {
            let applier = try SliceApplier(db, context, now: now, isOfRoots: false)
            try applier.apply(strays.map { ServerRecord(key: $0.key, version: $0.version, presence: .gone) })
            return applier.report.deleted
        }
    }

    /// Everything that was asked for until now, root by root: each that is here or is to be, and stands where the whole stood.
    private static func everything(_ db: Database, _ names: Set<String>, _ schema: Schema) throws -> Scopes {
        let known = try names.union(Eviction.roots(db, schema).map(\.scopeName))
        let checkpoint = try Meta.integer(db, .checkpoint) ?? 0
        let open = try Meta.integer(db, .openFrom)
        func all(at version: Int64) -> [String: Int64] { known.reduce(into: [:]) { $0[$1] = version } }
        return Scopes(asked: all(at: checkpoint), open: open.map(all))
    }

    private static func evict(_ db: Database, _ scopes: inout Scopes, _ changes: ChangeTable) throws -> Int {
        var removed = 0
        try RowWriter.applying(db) {
            for name in scopes.leaving.keys.sorted() {
                guard let root = RecordKey(scopeName: name) else { continue }
                let result = try Eviction.evict(db, root, changes)
                removed += result.removed.count
                scopes.stayed.formUnion(result.stayed.map(\.scopeName))
                if result.isComplete { scopes.leaving[name] = nil }
            }
        }
        return removed
    }
}
