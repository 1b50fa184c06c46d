import GRDB

/// How often the process died over the page that begins at the present checkpoint (PRC-21): the system ends a process that
/// takes too much memory, and it would ask for the same page again.
enum PageDeaths {
    /// So many deaths at one place halve the page.
    private static let patience: Int64 = 3

    /// - Returns: the most records to ask for.
    static func begin(_ db: Database, limit: Int) throws -> Int {
        let checkpoint = try Meta.integer(db, .checkpoint) ?? 0
        var deaths = try Meta.integer(db, .pullDeaths) ?? 0
        let isSamePlace = try Meta.integer(db, .pullFrom) == checkpoint
        if !isSamePlace {
            deaths = 0
            try Meta.set(db, .pullFrom, checkpoint)
        } else if try Meta.integer(db, .pullOpen) == 1 {
            deaths += 1
        }
        try Meta.set(db, .pullDeaths, deaths)
        try Meta.set(db, .pullOpen, 1)
        return max(1, limit >> Int(min(deaths / patience, 62)))
    }

    /// It came to an end; at the same place the page stays as small as it was, until it is passed.
    static func end(_ db: Database) throws { try Meta.set(db, .pullOpen, 0) }
}
