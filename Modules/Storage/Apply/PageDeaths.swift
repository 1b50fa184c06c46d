import GRDB

/// How often the process died over the page that begins at the present checkpoint (PRC-21): the system ends a process that
/// takes too much memory, and it would ask for the same page again.
///
/// The mark stands before a page is asked for. That the page came to its end is written with whatever this process writes
/// next; where it asks again from the same place before that, the mark stands already. So one who asks again and again
/// whether there is news writes nothing. A process that is killed at rest before it wrote anything counts as a death over
/// the page, which costs a smaller page and no more; between two cycles that found nothing the mark stands, too, and no death
/// counts there, since who died over a page had the lease.
struct PageDeaths {
    /// So many deaths at one place halve the page.
    private static let patience: Int64 = 3

    /// The page that is marked came to its end, which is not written yet.
    private(set) var isOver = false

    /// - Returns: the most records to ask for, where the mark of a page that is over serves for this one, too.
    mutating func goOn(_ db: Database, limit: Int) throws -> Int? {
        guard isOver, let from = try Meta.integer(db, .pullFrom), try Meta.integer(db, .pullOpen) == 1,
            try from == Meta.integer(db, .checkpoint) ?? 0
        else { return nil }
        isOver = false
        return Self.limit(limit, after: try Meta.integer(db, .pullDeaths) ?? 0)
    }

    /// Marks that a page is asked for.
    /// - Parameter wasAtRest: nobody was at work in the file until now, so a mark that stands is no death.
    /// - Returns: the most records to ask for.
    static func begin(_ db: Database, limit: Int, wasAtRest: Bool = false) throws -> Int {
        let known = try Meta.texts(db, [.checkpoint, .pullFrom, .pullOpen, .pullDeaths]).mapValues { Int64($0) ?? 0 }
        let checkpoint = known[.checkpoint] ?? 0
        let before = known[.pullDeaths]
        var deaths = before ?? 0
        if known[.pullFrom] != checkpoint {
            deaths = 0
            try Meta.set(db, .pullFrom, checkpoint)
        } else if known[.pullOpen] == 1, !wasAtRest {
            deaths += 1
        }
        if deaths != before { try Meta.set(db, .pullDeaths, deaths) }
        try Meta.set(db, .pullOpen, 1)
        return Self.limit(limit, after: deaths)
    }

    /// The same page is asked for again, and the mark still stands.
    mutating func beginAgain() { isOver = false }

    private static func limit(_ most: Int, after deaths: Int64) -> Int {
        max(1, most >> Int(min(deaths / patience, 62)))
    }

    /// It came to an end; at the same place the page stays as small as it was, until it is passed.
    mutating func end() { isOver = true }

    /// Takes the mark of a page that is over away, in the transaction of something else.
    func write(_ db: Database) throws {
        guard isOver else { return }
        try db.cachedStatement(sql: "UPDATE sync_meta SET value = 0 WHERE key = ? AND value <> 0")
            .execute(arguments: [Meta.Key.pullOpen.rawValue])
    }

    /// That transaction stands.
    mutating func noteWritten() { isOver = false }
}
