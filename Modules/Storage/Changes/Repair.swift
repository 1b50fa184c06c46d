import GRDB
import SyncCore

/// A place in the queue, behind which a list of it goes on (``Store/queued(from:limit:)``); a new one is its beginning.
public struct QueuePlace: Sendable, Hashable {
    fileprivate var position: Int64 = 0
    /// What waits without a mark, as it was at the beginning of the list; looking for that takes as long as the queue is.
    fileprivate var roots: [Int64: String]?

    /// The beginning of the queue.
    public init() {}

    fileprivate init(position: Int64, roots: [Int64: String]) {
        self.position = position
        self.roots = roots
    }
}

/// A place among what was set aside, behind which a list of it goes on (``Store/failures(from:limit:)``); a new one is its beginning.
public struct FailurePlace: Sendable, Hashable {
    fileprivate var failedAt = Int64.min
    fileprivate var position: Int64 = 0

    /// The beginning.
    public init() {}
}

/// What an app does with changes by hand (``ChangeRepair``).
extension ChangeTable {
    /// Everything queued, in flight or blocked, in the queue's order.
    func queued(_ db: Database) throws -> [QueuedChange] { try queued(db, from: QueuePlace(), limit: -1).changes }

    /// The next of them from a place on, and the place behind them; `nil` where there are no more.
    /// - Parameter limit: how many; all of them below 0.
    func queued(
        _ db: Database, from place: QueuePlace, limit: Int
    ) throws -> (changes: [QueuedChange], next: QueuePlace?) {
        let sql = """
            SELECT \(StoredChange.columns) FROM sync_change WHERE position > ? AND state <> 4 ORDER BY position LIMIT ?
            """
        let roots = try place.roots ?? unmarkedRoots(db)
        var last = place.position
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: [last, limit])
        var changes: [QueuedChange] = []
        while let row = try rows.next() {
            var change = StoredChange(lenient: row, schema)
            last = change.position
            if let root = roots[last] { (change.state, change.blockedBy) = (.blocked, root) }
            changes.append(change.queued)
        }
        return (changes, changes.count == limit ? QueuePlace(position: last, roots: roots) : nil)
    }

    /// By position, what was written since the last settlement and will be marked as waiting by the next.
    func unmarkedRoots(_ db: Database) throws -> [Int64: String] {
        guard try QueueFigures.hasAside(db) || !Drafts.isEmpty(db) else { return [:] }
        let items = try Needs(schema: schema).newlyBlocked(db)
        return Dictionary(items.map { ($0.position, $0.root) }, uniquingKeysWith: { $1 })
    }

    /// Everything set aside, oldest first.
    func failures(_ db: Database) throws -> [FailedChange] {
        try failures(db, from: FailurePlace(), limit: -1).failures
    }

    /// The next of them from a place on, and the place behind them; `nil` where there are no more.
    /// - Parameter limit: how many; all of them below 0.
    func failures(
        _ db: Database, from place: FailurePlace, limit: Int
    ) throws -> (failures: [FailedChange], next: FailurePlace?) {
        let sql = """
            SELECT \(StoredChange.columns.split(separator: ", ").map { "c.\($0)" }.joined(separator: ", ")),
              f.reason, f.failedAt, f.uncertain
            FROM sync_change c JOIN sync_failure f ON f.key = c.key
            WHERE c.state <> 0 AND c.state = 4 AND (f.failedAt, c.position) > (?, ?)
            ORDER BY f.failedAt, c.position LIMIT ?
            """
        var next = place
        let rows = try Row.fetchCursor(
            db.cachedStatement(sql: sql), arguments: [place.failedAt, place.position, limit])
        var failures: [FailedChange] = []
        while let row = try rows.next() {
            let change = StoredChange(lenient: row, schema)
            (next.failedAt, next.position) = (row[19], change.position)
            failures.append(
                FailedChange(
                    queued: change.queued, reason: try ReasonCodec.reason(row[18]), failedAtMilliseconds: row[19],
                    isUncertain: Failures.Doubt(rawValue: row[20])?.isUncertain ?? false))
        }
        return (failures, failures.count == limit ? next : nil)
    }

    /// The changes that would go with this one; itself not among them.
    func dependants(_ db: Database, of key: String) throws -> [String] { try dependants(db, of: key, in: nil) }

    /// The same of several, in their order; the queue is looked through once.
    func dependants(_ db: Database, of keys: [String]) throws -> [[String]] {
        let graph = keys.count > 1 ? try NeedGraph(db, schema) : nil
        return try keys.map { try dependants(db, of: $0, in: graph) }
    }

    private func dependants(_ db: Database, of key: String, in graph: NeedGraph?) throws -> [String] {
        guard let change = try find(db, key) else { return [] }
        let parting = try Parting(db, of: change, schema, in: graph)
        let isDecided = try Failures.find(db, key: key)?.doubt == Failures.Doubt.none
        return (parting.going + parting.emptied(schema, isDecided: isDecided)).map(\.key).filter { $0 != key }
    }

    /// Puts a successor of a failed change in its place, or the change itself where it never got a verdict.
    /// - Returns: the key of what is in the queue now, and the records whose rows changed.
    /// - Throws: ``StoreFailure``: `notFound` for a change that is not there, `invalid` for one that is not set aside.
    func retry(_ db: Database, _ key: String, now: Int64) throws -> (key: String, touched: [RecordKey]) {
        let change = try failed(db, key)
        var settling = Settling(table: self, now: now)
        var result = key
        // The server does all of a unit or none of it: its members go again together.
        let members =
            try change.unit.map { try Dependants(schema: schema).members(db, of: $0, around: change.position) } ?? [
                change
            ]
        for member in members where member.state == .failed {
            let next = try settling.retry(db, member)
            if member.key == key { result = next }
        }
        try settling.finish(db)
        return (result, settling.touched)
    }

    /// The same for several, one after another: what one that cannot be retried has done is taken back, and no more.
    /// - Returns: what came of each, and the records whose rows changed.
    /// - Throws: what is no single change's.
    func retry(
        _ db: Database, _ keys: [String], now: Int64
    ) throws -> (outcomes: [RetryOutcome], touched: [RecordKey]) {
        var outcomes: [RetryOutcome] = []
        var touched: [RecordKey] = []
        for key in keys {
            do {
                var retried: (key: String, touched: [RecordKey]) = (key, [])
                try db.inSavepoint {
                    retried = try retry(db, key, now: now)
                    return .commit
                }
                outcomes.append(.retried(retried.key))
                touched += retried.touched
            } catch {
                // Of some failures SQLite ends the whole transaction.
                guard db.isInsideTransaction else { throw error }
                outcomes.append(try RetryOutcome(StoreFailure(error, while: "retrying a change")))
            }
        }
        return (outcomes, touched)
    }

    /// Gives a failed change up, with what needs it; rows go back to base plus what remains.
    /// - Returns: the keys of all that was discarded, and the records whose rows changed.
    /// - Throws: ``StoreFailure``: `notFound` for a change that is not there, `invalid` for one that is not set aside,
    ///   `refused` while something that needs it is on its way.
    func discard(_ db: Database, _ key: String, now: Int64) throws -> (keys: [String], touched: [RecordKey]) {
        let parting = try Parting(db, of: try failed(db, key), schema)
        if let going = (parting.going + parting.staying).first(where: { $0.state == .uploading }) {
            throw StoreFailure(
                kind: .refused,
                message: "The change \(going.key), which needs \(key), is being sent now; try again after it.")
        }
        let isDecided = try Failures.find(db, key: key)?.doubt == Failures.Doubt.none
        var settling = Settling(table: self, now: now)
        let going = parting.going + parting.emptied(schema, isDecided: isDecided)
        for change in going {
            // Its values are lost to the user from here on: they stay in the event.
            let detail = try DeltaCodec.json(change.fields, operation: change.operation)
            try ChangeNotes.event(db, "discarded", of: change, detail: detail, now: now)
        }
        try settling.giveUp(db, parting, isDecided: isDecided)
        try settling.finish(db)
        return (going.map(\.key), settling.touched)
    }

    /// The row of a change, by its key.
    ///
    /// Keys have no index, which would cost every write; what is aside or on its way is found by its state first.
    func find(_ db: Database, _ key: String) throws -> StoredChange? {
        if let place = try Failures.find(db, key: key),
            let change = try ChangeRows.read(db, position: place.position, schema), change.key == key
        {
            return change
        }
        let aside =
            "SELECT \(StoredChange.columns) FROM sync_change WHERE state <> 0 AND state IN (1, 2, 3, 5) AND key = ?"
        let pending = "SELECT \(StoredChange.columns) FROM sync_change WHERE position > 0 AND key = ?"
        for sql in [aside, pending] {
            if let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [key]) {
                return StoredChange(lenient: row, schema)
            }
        }
        return nil
    }

    private func failed(_ db: Database, _ key: String) throws -> StoredChange {
        guard let place = try Failures.find(db, key: key),
            let change = try ChangeRows.read(db, position: place.position, schema), change.key == key,
            change.state == .failed
        else {
            let isThere = try find(db, key) != nil
            throw StoreFailure(
                kind: isThere ? .invalid : .notFound,
                message: isThere
                    ? "The change \(key) is not set aside; cancel it instead." : "No change \(key) is in the queue.")
        }
        return change
    }

    /// Sets aside what waits of a record that left all scopes (PROTOCOL.md, `gone`); its row is the caller's to remove.
    func setAside(_ db: Database, allOf record: RecordKey, _ reason: SetAsideReason, now: Int64) throws {
        var settling = Settling(table: self, now: now)
        try settling.setAllAside(db, of: record, reason)
        try settling.finish(db)
    }

    /// Sets aside what moves a record, unsent, under one of those that left; its row goes back to base plus what remains.
    /// - Returns: the records whose rows changed.
    func setAside(
        _ db: Database, movesOf record: RecordKey, under left: Set<RecordKey>, _ reason: SetAsideReason, now: Int64
    ) throws -> [RecordKey] {
        var settling = Settling(table: self, now: now)
        try settling.setMovesAside(db, of: record, under: left, reason)
        try settling.finish(db)
        return settling.touched
    }
}

extension Settling {
    /// A failed change goes again.
    /// - Returns: its key from now on.
    mutating func retry(_ db: Database, _ change: StoredChange) throws -> String {
        let doubt = try Failures.find(db, key: change.key)?.doubt ?? .none
        try Failures.delete(db, key: change.key)
        guard !doubt.isUncertain else {
            // It may have happened: only its own key tells.
            let sql = "UPDATE sync_change SET state = 2, attempts = 0 WHERE position = ?"
            try db.cachedStatement(sql: sql).execute(arguments: [change.position])
            let inverse = try heldInverse(db, of: change)
            try ChangeRows.release(db, blockedBy: change.key)
            if let inverse { try ChangeRows.setState(db, position: inverse.position, .blocked, blockedBy: change.key) }
            return change.key
        }
        var next = try successor(db, of: change)
        next.conflicts = 0
        if var work = try takeWork(db, change.record) {
            let isShowing = work.isShowing(change.key)
            if !isShowing { work.lookWhetherAway() }
            // Over what is not here it says what it said.
            if change.operation != .create, !work.base.isAway {
                next.fields = rebased(next, onto: work.state(before: next.position))
                work.giveWay(&next)
            }
            if isShowing { work.replace(change.key, with: next) } else { work.insert(next) }
            works[change.record] = work
        }
        try ChangeRows.replace(db, next)
        try ChangeRows.release(db, blockedBy: change.key)
        try ChangeNotes.event(db, "retried", of: next, detail: change.key, now: now)
        return next.key
    }

    /// What a change says over another state before it.
    private func rebased(_ change: StoredChange, onto state: RecordState) -> [String: FieldDelta] {
        // What is dead already has nothing to lose, although its fields may be known still.
        if change.operation == .delete {
            guard state.isLive else { return [:] }
            let edited = change.fields.filter { !$0.value.new.isNull }
            return state.fields.mapValues { FieldDelta(old: $0, new: .null) }
                .merging(edited) { FieldDelta(old: $0.old, new: $1.new) }
        }
        var fields = change.fields
        for (name, delta) in change.fields {  // any order
            let present = state.fields[name] ?? .null
            fields[name]?.old = present
            fields[name]?.new = table.deltas.rebase(delta, onto: present)
        }
        return fields
    }
}
