import Foundation
import GRDB

/// Breaks off the transaction whose statement a test's hook refused.
///
/// SQLite's interrupt alone ends long statements only; so the transaction that is at work fails at its end, too.
final class StatementBreaker: @unchecked Sendable {  // the lock guards all fields
    private let lock = NSLock()
    private weak var pool: DatabasePool?
    private var isBroken = false
    private var isAway = false

    func set(_ pool: DatabasePool) { lock.withLock { self.pool = pool } }

    func breakOff() {
        let pool = lock.withLock {
            isBroken = true
            return self.pool
        }
        pool?.interrupt()
    }

    /// While the engine reads over the connection that writes, the hook is not asked.
    func looksAway(_ away: Bool) { lock.withLock { isAway = away } }

    /// Whether the hook is asked.
    var isWatching: Bool { lock.withLock { !isAway } }

    /// A transaction begins.
    func begin() { lock.withLock { isBroken = false } }

    /// The transaction is to be committed.
    /// - Throws: where one of its statements was refused; then it is rolled back.
    func check() throws {
        guard lock.withLock({ isBroken }) else { return }
        throw DatabaseError(resultCode: .SQLITE_INTERRUPT, message: "a statement was refused by the hook")
    }
}
