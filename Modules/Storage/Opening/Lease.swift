import Foundation
import GRDB
import SyncCore

/// Who syncs a file that several processes have open (PRC-11).
enum Lease {
    /// A lease that was taken.
    struct Taken {
        var generation: Int64
        /// It was nobody's: whoever had it last gave it back.
        var wasFree: Bool
    }

    /// Takes the lease, or prolongs it for the same holder.
    /// - Returns: `nil` where another holder's has not run out.
    static func take(_ db: Database, holder: String, until: Int64, now: Int64) throws -> Taken? {
        let sql = "SELECT holder, generation, expires FROM sync_lease WHERE one = 1"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql)) else {
            try db.cachedStatement(sql: "INSERT INTO sync_lease (one, holder, generation, expires) VALUES (1, ?, 1, ?)")
                .execute(arguments: [holder, until])
            return Taken(generation: 1, wasFree: true)
        }
        let (present, generation): (String?, Int64) = (row[0], row[1])
        if present == holder {
            try db.cachedStatement(sql: "UPDATE sync_lease SET expires = ? WHERE one = 1").execute(arguments: [until])
            return Taken(generation: generation, wasFree: false)
        }
        guard present == nil || isOver(row[2], now: now) || present.map(isDead) == true else { return nil }
        try db.cachedStatement(
            sql: "UPDATE sync_lease SET holder = ?, generation = generation + 1, expires = ? WHERE one = 1"
        ).execute(arguments: [holder, until])
        return Taken(generation: generation + 1, wasFree: present == nil)
    }

    /// Takes a lease that is known to be nobody's, as who had it last; its generation grows by one.
    static func takeAgain(_ db: Database, holder: String, until: Int64) throws {
        let statement = try RawStatement(
            db, "UPDATE sync_lease SET holder = ?, generation = generation + 1, expires = ? WHERE one = 1")
        statement.begin()
        statement.add(holder)
        statement.add(until)
        try statement.run()
    }

    /// Whether somebody holds the lease, lives, and did not let it run out.
    static func isTaken(_ db: Database, now: Int64) throws -> Bool {
        let sql = "SELECT holder, expires FROM sync_lease WHERE one = 1"
        guard let row = try Row.fetchOne(db, sql: sql), let holder = row[0] as String? else { return false }
        return !isOver(row[1], now: now) && !isDead(holder)
    }

    /// The longest that a lease may stand without being prolonged: one hour.
    private static let longest: Int64 = 3_600_000

    /// How long one stands that is asked for so long, in milliseconds: not quite an hour at most, since one that seems to last longer
    /// counts as over, and the clock may be set back a little meanwhile.
    static func length(seconds: Double) -> Int64 {
        guard seconds > 0 else { return 0 }
        return Int64(min(seconds * 1_000, Double(longest - 60_000)))
    }

    /// One that lasts longer than any may was taken before the clock was set back: its holder is silent for who knows how long.
    private static func isOver(_ expires: Int64?, now: Int64) -> Bool {
        guard let expires, expires > now else { return true }
        let (left, overflow) = expires.subtractingReportingOverflow(now)
        return overflow || left > longest
    }

    /// Whether a holder named `PID/…` is a process of this machine that is no more: then nobody need wait for the end.
    private static func isDead(_ holder: String) -> Bool {
        guard let number = holder.split(separator: "/", maxSplits: 1).first.flatMap({ pid_t($0) }), number > 0 else {
            return false
        }
        return kill(number, 0) != 0 && errno == ESRCH
    }

    /// Takes the lease away from whoever has it.
    static func end(_ db: Database) throws {
        try db.execute(sql: "UPDATE sync_lease SET holder = NULL, generation = generation + 1, expires = NULL")
    }

    static func release(_ db: Database, holder: String) throws {
        let statement = try RawStatement(
            db, "UPDATE sync_lease SET holder = NULL, expires = NULL WHERE one = 1 AND holder = ?")
        statement.begin()
        statement.add(holder)
        try statement.run()
    }

    /// A holder that another one has replaced applies no page; its verdicts are still recorded.
    static func check(_ db: Database, _ generation: Int64?) throws {
        guard try isHeld(db, generation) else {
            throw StoreFailure(kind: .refused, message: "Another process syncs this database now.")
        }
    }

    /// Who is at work keeps the lease, however long the cycle takes: prolonged once half of it is over.
    /// - Parameter isEarly: whether it is prolonged before that, too.
    static func prolong(
        _ db: Database, _ generation: Int64?, by length: Int64, now: Int64, isEarly: Bool = false
    ) throws {
        guard let generation, length > 0 else { return }
        try db.cachedStatement(
            sql: "UPDATE sync_lease SET expires = ? WHERE one = 1 AND generation = ? AND expires < ?"
        ).execute(arguments: [now + length, generation, isEarly ? now + length : now + length / 2])
    }

    /// Whether nobody took the lease over; a store that never took it is not asked.
    static func isHeld(_ db: Database, _ generation: Int64?) throws -> Bool {
        guard let generation else { return true }
        let sql = "SELECT generation FROM sync_lease WHERE one = 1"
        return try Int64.fetchOne(db.cachedStatement(sql: sql)) == generation
    }
}
