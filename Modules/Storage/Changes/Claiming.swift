import GRDB
import SyncCore

/// One claim at work: what goes next is picked, merged where it may be, and marked as being sent.
///
/// 1. In the queue's order: what was sent before and has no verdict, as it was, and what was never sent. A successor
///    keeps its place, so what was sent after its predecessor stays behind it.
/// 2. What needs a create that was set aside is marked as blocked, and left out.
/// 3. Neighbours of one record that were never sent, with nothing between them that stays, are merged (``Coalescing``).
/// 4. Each is marked with its `baseVersion`, which it keeps for ever.
///
/// A unit goes whole or not at all; a first change or unit that passes a limit goes alone.
struct Claiming {
    let table: ChangeTable
    let now: Int64
    let limits: ClaimLimits
    private let behind: Behind?
    private let needs: Needs
    private var hasAside = false
    private var hasDrafts = false
    private var groups: [Group] = []
    private var count = 0
    private var bytes = 0
    /// Places of changes that came to nothing together.
    private var dropped: [Int64] = []
    /// What cannot be read, in the order of its places.
    private var broken: [(change: StoredChange, reason: SetAsideReason)] = []
    /// The versions held of the records of changes that are no creates, by the changes' places.
    private var held: [Int64: Int64] = [:]

    /// One change, or the members of a unit.
    private struct Group {
        var changes: [StoredChange]
        var bytes: Int
        /// Places of changes that were merged into this one.
        var merged: [Int64] = []
        var isRewritten = false
    }

    /// So many rows are looked at in one claim, so that a long run of merged edits does not hold the file for long.
    private static let mostRows = 5_000
    /// A change's members beside its fields, about.
    private static let overhead = 200

    /// - Parameter behind: the claim that is under way, where one is; ``claim(_:_:)`` then takes only what was never sent and
    ///   what that one's answer cannot make another.
    init(table: ChangeTable, now: Int64, limits: ClaimLimits, behind: Behind? = nil) {
        self.table = table
        self.now = now
        self.limits = limits
        self.behind = behind
        needs = Needs(schema: table.schema)
    }

    mutating func claim(_ db: Database, _ settling: inout Settling) throws -> [QueuedChange] {
        hasDrafts = try !Drafts.isEmpty(db)
        if hasDrafts { try Drafts.freeGone(db, table.schema) }
        hasAside = try hasDrafts || QueueFigures.hasAside(db)
        while try !scan(db, &settling) { (groups, dropped, broken, held, count, bytes) = ([], [], [], [:], 0, 0) }
        return try mark(db, &settling)
    }

    // MARK: Picking

    /// - Returns: `false` where a repair put something into the queue before what was looked at: then it is looked at anew.
    private mutating func scan(_ db: Database, _ settling: inout Settling) throws -> Bool {
        let states = behind == nil ? "state < 3" : "state = 0"
        // A create has no `baseVersion`.
        let sql = """
            SELECT \(StoredChange.columns), CASE WHEN operation <> 0 THEN (
              SELECT version FROM sync_record r WHERE r.entity = c.entity AND r.id = c.id AND r.version > 0) END
            FROM sync_change c WHERE position > ? AND \(states) ORDER BY position
            """
        let rows = try RawStatement(db, sql)
        rows.begin()
        rows.add(behind?.position ?? 0)
        defer { rows.begin() }
        var unit: Group?
        var seen = 0
        var isFull = false
        while !isFull, try rows.step() {
            seen += 1
            let change: StoredChange
            do {
                change = try readable(db, rows)
            } catch let error as Unreadable {
                // It is set aside in its turn, when nothing is under way.
                if behind != nil { isFull = true }
                broken.append((error.change, error.reason))
                continue
            }
            if let behind, behind.records.contains(change.record) {
                isFull = true
                break
            }
            if let version = rows.integer(StoredChange.columnCount) { held[change.position] = version }
            if !change.wasSent, change.hasEmptyDifference(table.deltas) { try settling.keepBase(db, of: change.record) }
            if hasAside, !change.wasSent, try settling.goPastKept(db, change) { return false }
            if hasAside, !change.wasSent, try settling.endRefusal(db, before: change) { return false }
            if let open = unit, open.changes[0].unit != change.unit {
                unit = nil
                isFull = try !isBlocked(db, open.changes) && !add(open)
                if isFull { break }
            }
            if change.unit != nil {
                unit = Group(changes: (unit?.changes ?? []) + [change], bytes: (unit?.bytes ?? 0) + size(rows))
                continue
            }
            if hasDrafts, !change.wasSent, try Drafts.kind(db, of: change.record) == .held {
                try block(db, change, by: Drafts.root(of: change.record, .held))
                continue
            }
            if !change.wasSent, let later = try needs.createBehind(db, of: change) {
                if try UnitCircle(schema: table.schema, now: now).open(db, between: change, and: later) { return false }
                hasAside = true
                try block(db, change, by: later)
                continue
            }
            // Of two that name each other, the one for which the other waits goes first.
            if hasAside, let blocker = try needs.blocker(db, of: change), blocker.root != change.key {
                if !change.wasSent, try settling.mend(db, change, blocker) { return false }
                try block(db, change, by: blocker.root)
                continue
            }
            if try limits.merges && merge(db, change, size(rows), &settling) { continue }
            isFull = (seen >= Self.mostRows && !groups.isEmpty) || !add(Group(changes: [change], bytes: size(rows)))
        }
        if let open = unit, !isFull, try !isBlocked(db, open.changes) { _ = add(open) }
        if behind == nil { for (change, reason) in broken { try settling.setAsideUnreadable(db, change, reason) } }
        return true
    }

    /// Marks the members of a unit as waiting where one of them was set aside, waits, or needs a create that does.
    private func isBlocked(_ db: Database, _ members: [StoredChange]) throws -> Bool {
        guard hasAside, let first = members.first, let unit = first.unit else { return false }
        let all = try Dependants(schema: table.schema).members(db, of: unit, around: first.position)
        var root: String?
        for member in all where root == nil {
            if try hasDrafts && !member.wasSent && Drafts.kind(db, of: member.record) == .held {
                root = Drafts.root(of: member.record, .held)
                break
            }
            root = member.state == .failed ? member.key : member.blockedBy
            if root == nil, let blocker = try needs.blocker(db, of: member) {
                // What waits for one of these follows.
                root = all.contains { $0.key == blocker.root && $0.state != .failed } ? nil : blocker.root
            }
        }
        guard let root else { return false }
        for member in members { try block(db, member, by: root) }
        return true
    }

    private func block(_ db: Database, _ change: StoredChange, by root: String) throws {
        try ChangeRows.setState(
            db, position: change.position, change.wasSent ? .blockedAfterSending : .blocked, blockedBy: root)
    }

    /// A change that cannot go out as it is stored.
    private struct Unreadable: Error {
        var change: StoredChange
        var reason: SetAsideReason
    }

    private func readable(_ db: Database, _ row: RawStatement) throws -> StoredChange {
        do {
            let change = try StoredChange(row, table.schema)
            // What was sent reads the same whatever is declared.
            if change.wasSent || table.schema[change.record.entity] != nil { return change }
            let reason = SetAsideReason(
                code: Rejection.Code.unknownEntity.rawValue,
                message: "This program does not know “\(change.record.entity)” any more.")
            throw Unreadable(change: change, reason: reason)
        } catch let error as JSONFailure {
            let reason = SetAsideReason(
                code: Rejection.Code.invalid.rawValue, message: "The change cannot be read: \(error).")
            // Its deltas are none then.
            guard let position = row.integer(0),
                let change = try ChangeRows.read(db, position: position, table.schema)
            else { throw error }
            throw Unreadable(change: change, reason: reason)
        }
    }

    /// Merges the change into the last group, if the table of ``Coalescing`` says so.
    private mutating func merge(
        _ db: Database, _ change: StoredChange, _ size: Int, _ settling: inout Settling
    ) throws -> Bool {
        guard var last = groups.last, last.changes.count == 1, last.changes[0].record == change.record,
            try !isParted(db, from: last.changes[0].position, to: change.position)
        else { return false }
        let first = last.changes[0]
        let result = try Coalescing(deltas: table.deltas).combine(first, change) {
            // A restored copy does not know what the device sent that it was copied from (Decision 175).
            guard try StoredRecord.read(db, first.record) != nil || first.device != nil else {
                return try isBehind(db, first)
            }
            try settling.keepBase(db, before: first)
            return true
        }
        switch result {
        case .both: return false
        case .one(let one):
            last.changes = [one]
            last.merged.append(first.position)
            last.isRewritten = true
            last.bytes += size
            bytes += size
            groups[groups.count - 1] = last
        case .nothing:
            last.merged += [first.position, change.position]
            last.changes = []
            count -= 1
            groups[groups.count - 1] = last
            // What follows is a neighbour of what was before.
            dropped += groups.removeLast().merged
        }
        return true
    }

    /// Whether something that stays in the queue stands between two places: it may need the first of them, as what it refers to,
    /// and would go before it once it waits no longer (seed 32168).
    private func isParted(_ db: Database, from first: Int64, to second: Int64) throws -> Bool {
        if let last = broken.last?.change.position, last > first { return true }
        guard hasAside else { return false }
        let sql = "SELECT 1 FROM sync_change WHERE position > ? AND position < ? AND state >= 3 LIMIT 1"
        return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [first, second]) != nil
    }

    /// Whether an earlier change of a create's record waits, so that the server may come to know it.
    private func isBehind(_ db: Database, _ create: StoredChange) throws -> Bool {
        // What was merged into the create stands there still, at the create's place or behind it.
        let first = (groups.last?.merged ?? []).min() ?? create.position
        let sql = "SELECT 1 FROM sync_change WHERE entity = ? AND id = ? AND position < ? AND state <> 4 LIMIT 1"
        return try Row.fetchOne(
            db.cachedStatement(sql: sql), arguments: [create.record.entity, create.record.id, first]) != nil
    }

    /// Of what goes as values, and was worked out from others than the server has by its last word here, an earlier version is said: the
    /// server refuses it, and a successor is made from what it has (Decision 494).
    /// - Returns: by the changes' places.
    private func earlierVersions(_ db: Database) throws -> [Int64: Int64] {
        var versions: [Int64: Int64] = [:]
        let epoch = try QueueFigures.epochSequence(db)
        for change in groups.lazy.flatMap(\.changes) where !change.wasSent && change.hasRules {
            let isKnown = held[change.position] != nil && change.sequence > epoch
            if isKnown {
                let waiting = try Base.remaining(db, of: change.record, table.schema)
                let base = Base.named(in: waiting, over: try StoredRecord.read(db, change.record))
                guard !change.isWorkedOut(over: base) else { continue }
            } else if let told = change.baseVersion, change.sequence > epoch {
                // A conflict told the record, and it is worked out from that (seed 170037 with `--rest --handlers --damage`).
                versions[change.position] = told
                continue
            }
            versions[change.position] = max(0, (held[change.position] ?? 0) - 1)
        }
        return versions
    }

    // MARK: Limits and marks

    private func size(_ row: RawStatement) -> Int { row.bytes(9) + Self.overhead }

    /// - Returns: whether there was room for it.
    private mutating func add(_ group: Group) -> Bool {
        let fits = count + group.changes.count <= limits.maxChanges && bytes + group.bytes <= limits.maxBytes
        guard fits || groups.isEmpty else { return false }
        groups.append(group)
        count += group.changes.count
        bytes += group.bytes
        return true
    }

    /// What waits for a change that is merged into another waits for that one.
    private func handOver(_ db: Database) throws {
        let sql = "SELECT key FROM sync_change WHERE position = ?"
        for (position, heir) in dropped.map({ ($0, String?.none) })
            + groups.flatMap({ group in group.merged.map { ($0, group.changes.first?.key) } })
        {
            guard let key = try String.fetchOne(db.cachedStatement(sql: sql), arguments: [position]) else { continue }
            if let heir {
                try ChangeRows.hand(db, blockedBy: key, to: heir)
            } else {
                try ChangeRows.release(db, blockedBy: key)
            }
        }
    }

    private func mark(_ db: Database, _ settling: inout Settling) throws -> [QueuedChange] {
        if hasAside { try handOver(db) }
        // What was merged still tells what it was worked out from.
        let stated = limits.sendsValues ? try earlierVersions(db) : [:]
        for position in dropped + groups.flatMap(\.merged) {
            try ChangeRows.delete(db, position: position)
            settling.counted -= 1
        }
        return try Marking.mark(
            db, groups.map { ($0.changes, $0.isRewritten) }, held: held, stated: stated)
    }
}
