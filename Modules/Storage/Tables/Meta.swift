import GRDB

/// Single values of the file, in `sync_meta`.
enum Meta {
    enum Key: String, CaseIterable {
        /// The number of the engine tables' format.
        case format
        /// The device id, and the place (volume and inode) at which the file was when it was given.
        case device, home
        /// The installation at which that was, where the platform can tell (``InstallToken``).
        case install
        /// The start of the system in which the file was open last (``SystemStart``).
        case systemStart
        /// Counts openings; also kept outside the file, so that an older copy of it is noticed.
        case generation
        /// An account was wiped out of the file, which is still to be written anew (``Remnants``).
        case wiping
        /// Whose database it is.
        case account
        /// Made anew as an account is signed out: by it other processes see that (SEC-11).
        case signOut
        /// What the server said of its data.
        case dataset, epoch
        /// Everything up to this version is applied here.
        case checkpoint
        /// Where the pull under way began, while more of it is to come and everything is asked for.
        case openFrom
        /// The roots asked for, each with its checkpoint, and those that are leaving, as JSON; absent for all.
        case scopes
        /// The number of the present or last full pass, and the one that the last change of epoch began.
        case pass, epochPass
        /// A full pass has begun and not ended; rows in step when it began; whether its end waits for the app's word.
        case passRuns, passRows, passAwaits
        /// When the present or last full pass began, by the server's clock, milliseconds since 1970.
        case passBegan
        /// The highest version that had been seen then; a pass that begins anew keeps it.
        case passFrom
        /// Changes up to this sequence were made in an earlier epoch: they are first sent without `baseVersion`.
        case epochSequence
        /// The queue's schedule, as JSON.
        case schedule
        /// When the last rounds in the background began, milliseconds since 1970, as JSON.
        case backgroundRounds
        /// When contents were last compared with the server's, milliseconds since 1970.
        case comparedAt
        /// Which version of each snapshot builder made what is here, as JSON; local writes up to this sequence are in it.
        case snapshots, snapshotSequence
        /// A migration of the app's own took the triggers away.
        case migrating
        /// No version that is held is above this one.
        case highest
        /// Where a page was asked from whose end was not noted yet, and how often this process ended over it.
        case pullFrom, pullOpen, pullDeaths
        /// The declared schema, as the triggers were made for it.
        case schema
        /// The journal has values of changes of which nobody knows what came of them (``Lapsed``).
        case lapsed
        /// Columns without a field that an event has told of, a line each.
        case unmapped
        /// The fields that this history's records have named, a line each (``NamedFields``).
        case named
    }

    static func integer(_ db: Database, _ key: Key) throws -> Int64? {
        try Int64.fetchOne(db.cachedStatement(sql: select), arguments: [key.rawValue])
    }

    static func text(_ db: Database, _ key: Key) throws -> String? {
        try String.fetchOne(db.cachedStatement(sql: select), arguments: [key.rawValue])
    }

    /// Several values by one statement, as texts.
    static func texts(_ db: Database, _ keys: [Key]) throws -> [Key: String] {
        let list = keys.map { "'\($0.rawValue)'" }.joined(separator: ", ")
        let rows = try RawStatement(db, "SELECT key, value FROM sync_meta WHERE key IN (\(list)) AND value IS NOT NULL")
        rows.begin()
        defer { rows.begin() }
        var values: [Key: String] = [:]
        while try rows.step() { values[Key(rawValue: rows.text(0))!] = rows.text(1) }
        return values
    }

    static func set(_ db: Database, _ key: Key, _ value: (any DatabaseValueConvertible)?) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO sync_meta (key, value) VALUES (?, ?)
                ON CONFLICT (key) DO UPDATE SET value = excluded.value
                """
        ).execute(arguments: [key.rawValue, value])
    }

    /// Makes a number greater, never smaller.
    static func raise(_ db: Database, _ key: Key, to number: Int64?) throws {
        guard let number, try integer(db, key) ?? .min < number else { return }
        try set(db, key, number)
    }

    private static let select = "SELECT value FROM sync_meta WHERE key = ?"
}
