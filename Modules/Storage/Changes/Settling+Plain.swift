import GRDB
import SyncCore

extension Settling {
    /// The way of nearly every change: it goes, the version moves, base and row are right as they are. All such changes
    /// of a settlement are found in one walk over what is on its way, and go by one statement for each unbroken row of them.
    ///
    /// It is that simple where the server did as it was asked, just now, and had nothing to add, the change is no delete, the
    /// record has no base of its own, nothing is held, and no earlier change of the record is undecided.
    /// - Returns: the other outcomes, in their order.
    mutating func acknowledgeMany(
        _ db: Database, _ outcomes: [Settlement.Outcome]
    ) throws -> [Settlement.Outcome] {
        guard works.isEmpty, pass == nil, !hasHeld, outcomes.contains(where: { Self.plainVersion($0) != nil }) else {
            return outcomes
        }
        let found = try Walk(db, outcomes)
        guard !found.plain.isEmpty else { return outcomes }
        try raise(db, found.raised)
        for run in found.runs { try take(db, run) }
        counted -= found.plain.count
        if hasAside { for index in found.plain { try ChangeRows.release(db, blockedBy: outcomes[index].changeID) } }
        guard found.plain.count < outcomes.count else { return [] }
        for raised in found.raised { noteRaised(RecordKey(raised.entity, raised.id)) }
        let done = Set(found.plain)
        return outcomes.indices.filter { !done.contains($0) }.map { outcomes[$0] }
    }

    /// The version of an outcome without anything beside it: `.some(nil)` where the server told none.
    fileprivate static func plainVersion(_ outcome: Settlement.Outcome) -> Int64?? {
        guard !outcome.isClamped, !outcome.isRepeated,
            case .applied(let version, let overwrote, let serverID) = outcome.kind,
            overwrote.isEmpty, serverID == nil
        else { return nil }
        return .some(version)
    }

    /// Versions rise where they may (PROTOCOL.md, *Records*). A kept row by one statement, and new ones eight by one that says
    /// `OR FAIL`: of several rows in one SQLite would keep a journal, to take back half of them (Decision 186).
    private func raise(_ db: Database, _ raised: [Walk.Raised]) throws {
        let kept = try RawStatement(db, "UPDATE sync_record SET version = ? WHERE entity = ? AND id = ?")
        for record in raised where !record.isNew {
            kept.begin()
            add(record, to: kept)
            try kept.runUnseen()
        }
        var rest = raised.filter(\.isNew)[...]
        guard !rest.isEmpty else { return }
        let eight = try RawStatement(
            db,
            """
            INSERT OR FAIL INTO sync_record (version, entity, id)
            VALUES (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?)
            """)
        while rest.count >= 8 {
            eight.begin()
            for record in rest.prefix(8) { add(record, to: eight) }
            try eight.runUnseen()
            rest = rest.dropFirst(8)
        }
        let one = try RawStatement(db, "INSERT INTO sync_record (version, entity, id) VALUES (?, ?, ?)")
        for record in rest {
            one.begin()
            add(record, to: one)
            try one.runUnseen()
        }
    }

    private func add(_ record: Walk.Raised, to row: RawStatement) {
        row.add(record.version)
        row.add(record.entity)
        row.add(record.id)
    }

    /// What is on its way between two places goes.
    private func take(_ db: Database, _ run: ClosedRange<Int64>) throws {
        // Not by the index over the state, which is a longer way.
        let sql = "DELETE FROM sync_change WHERE position BETWEEN ? AND ? AND +state = 1 AND +blockedBy IS NULL"
        try db.cachedStatement(sql: sql).execute(arguments: [run.lowerBound, run.upperBound])
    }
}

/// What a look at the changes on their way finds of a settlement, before anything is written.
private struct Walk {
    /// A record whose held version rises.
    struct Raised {
        var entity: String
        var id: String
        var version: Int64
        /// Whether no version of it was held.
        var isNew: Bool
    }

    /// The places, among the outcomes, of those that are simple.
    private(set) var plain: [Int] = []
    private(set) var raised: [Raised] = []
    /// Their places in the queue: everything on its way in each of these is simple.
    private(set) var runs: [ClosedRange<Int64>] = []

    private static let sql = """
        SELECT c.position, c.key,
          c.operation <> 2 AND r.base IS NULL AND (c.operation = 0 OR r.version IS NOT 0) AND NOT EXISTS (
            SELECT 1 FROM sync_change e WHERE e.entity = c.entity AND e.id = c.id AND e.position < c.position),
          r.version, coalesce(c.baseVersion, 0), c.entity, c.id
        FROM sync_change c LEFT JOIN sync_record r ON r.entity = c.entity AND r.id = c.id
        WHERE c.state <> 0 AND c.state = 1 AND c.blockedBy IS NULL ORDER BY c.position
        """

    init(_ db: Database, _ outcomes: [Settlement.Outcome]) throws {
        plain.reserveCapacity(outcomes.count)
        raised.reserveCapacity(outcomes.count)
        let rows = try RawStatement(db, Self.sql)
        rows.begin()
        defer { rows.begin() }
        var order = Order(outcomes)
        var seen = 0
        var isOpen = false
        while seen < outcomes.count, try rows.step() {
            guard let index = order.next(rows) else {
                isOpen = false
                continue
            }
            seen += 1
            guard rows.integer(2) == 1, let told = Settling.plainVersion(outcomes[index]) else {
                isOpen = false
                continue
            }
            plain.append(index)
            let position = rows.integer(0) ?? 0
            if isOpen, let last = runs.popLast() {
                runs.append(last.lowerBound...position)
            } else {
                runs.append(position...position)
            }
            isOpen = true
            let held = rows.integer(3)
            if let told, told > held ?? 0, held ?? 0 == rows.integer(4) {
                raised.append(Raised(entity: rows.text(5), id: rows.text(6), version: told, isNew: held == nil))
            }
        }
    }

    /// Finds the outcome of each change: most servers answer in the order of the request, so that it is the next.
    private struct Order {
        private let outcomes: [Settlement.Outcome]
        private var expected = 0
        private var byKey: [String: Int]?

        init(_ outcomes: [Settlement.Outcome]) { self.outcomes = outcomes }

        mutating func next(_ row: RawStatement) -> Int? {
            if expected < outcomes.count, row.isText(1, outcomes[expected].changeID) {
                expected += 1
                return expected - 1
            }
            if byKey == nil {
                // Of two outcomes for one change the first counts.
                let places = zip(outcomes.lazy.map(\.changeID), outcomes.indices)
                byKey = Dictionary(places, uniquingKeysWith: { first, _ in first })
            }
            guard let index = byKey?[row.text(1)] else { return nil }
            expected = index + 1
            return index
        }
    }
}
