import GRDB
import SyncCore

extension Settling {
    /// The way of nearly every change: it goes, the version moves, base and row are right as they are. All such changes
    /// of a settlement are done by one statement each for versions and queue.
    ///
    /// It is that simple where the server did as it was asked, just now, and had nothing to add, the change is no delete, the
    /// record has no base of its own, nothing is held, and no earlier change of the record is undecided.
    /// - Returns: the other outcomes, in their order.
    mutating func acknowledgeMany(
        _ db: Database, _ outcomes: [Settlement.Outcome]
    ) throws -> [Settlement.Outcome] {
        guard works.isEmpty, pass == nil, !hasHeld else { return outcomes }
        var asked: [Int64: Int64?] = [:]
        asked.reserveCapacity(outcomes.count)
        for outcome in outcomes {
            guard let version = plainVersion(outcome), let place = places[outcome.changeID] else { continue }
            // Of two outcomes for one change the first counts.
            if asked[place] == nil { asked[place] = .some(version) }
        }
        guard !asked.isEmpty else { return outcomes }
        let plain = try simple(db, asked)
        guard !plain.isEmpty else { return outcomes }
        let others = outcomes.filter { outcome in places[outcome.changeID].map { plain[$0] == nil } ?? true }
        try accept(db, plain, isFollowed: !others.isEmpty)
        for outcome in outcomes {
            guard let place = places[outcome.changeID], plain[place] != nil else { continue }
            places[outcome.changeID] = nil
            if hasAside { try ChangeRows.release(db, blockedBy: outcome.changeID) }
        }
        return others
    }

    /// The version of an outcome without anything beside it: `.some(nil)` where the server told none.
    private func plainVersion(_ outcome: Settlement.Outcome) -> Int64?? {
        guard !outcome.isClamped, !outcome.isRepeated,
            case .applied(let version, let overwrote, let serverID) = outcome.kind,
            overwrote.isEmpty, serverID == nil
        else { return nil }
        return .some(version)
    }

    /// Those of the asked places whose changes are of the simple kind, with their versions.
    private func simple(_ db: Database, _ asked: [Int64: Int64?]) throws -> [Int64: Int64?] {
        let sql = """
            SELECT c.position FROM json_each(?) j
            CROSS JOIN sync_change c ON c.position = CAST(j.key AS INTEGER)
            LEFT JOIN sync_record r ON r.entity = c.entity AND r.id = c.id
            WHERE c.operation <> 2 AND r.base IS NULL AND NOT EXISTS (
              SELECT 1 FROM sync_change e WHERE e.entity = c.entity AND e.id = c.id AND e.position < c.position)
            """
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: [Self.json(asked)])
        var plain: [Int64: Int64?] = [:]
        plain.reserveCapacity(asked.count)
        while let row = try rows.next() {
            let place: Int64 = row[0]
            plain[place] = asked[place]
        }
        return plain
    }

    /// Versions rise where they may (PROTOCOL.md, *Records*), and the changes go.
    private mutating func accept(_ db: Database, _ plain: [Int64: Int64?], isFollowed: Bool) throws {
        let list = Self.json(plain)
        let rising = """
            FROM json_each(?) j
            CROSS JOIN sync_change c ON c.position = CAST(j.key AS INTEGER)
            LEFT JOIN sync_record r ON r.entity = c.entity AND r.id = c.id
            WHERE j.value > coalesce(r.version, 0) AND coalesce(r.version, 0) = coalesce(c.baseVersion, 0)
            """
        if isFollowed {
            let sql = "SELECT c.entity, c.id \(rising)"
            let rows = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: [list])
            while let row = try rows.next() { noteRaised(RecordKey(row[0], row[1])) }
        }
        let sql = """
            INSERT INTO sync_record (entity, id, version)
            SELECT c.entity, c.id, j.value \(rising)
            ON CONFLICT (entity, id) DO UPDATE SET version = excluded.version
            """
        try db.cachedStatement(sql: sql).execute(arguments: [list])
        let delete = """
            DELETE FROM sync_change WHERE position IN (SELECT CAST(key AS INTEGER) FROM json_each(?))
            """
        try db.cachedStatement(sql: delete).execute(arguments: [list])
        counted -= plain.count
    }

    /// `{"17":42,"18":null}`, in the order of the places.
    private static func json(_ versions: [Int64: Int64?]) -> String {
        let members = versions.keys.sorted().map { place in
            let version = versions[place].flatMap { $0 }
            return "\"\(place)\":\(version.map(String.init) ?? "null")"
        }
        return "{\(members.joined(separator: ","))}"
    }
}
