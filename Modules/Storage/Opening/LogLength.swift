import Foundation
import GRDB
internal import GRDBSQLite

/// How long the write-ahead log is, in pages, as the last commit of the writing connection left it.
///
/// SQLite tells a connection's hook after each commit; its own one, which it takes the place of, brings the log into the
/// file once it is so long, and so does this one (`sqlite3_wal_autocheckpoint`).
final class LogLength: @unchecked Sendable {  // the lock guards the field
    /// In the commit that makes it so long, SQLite brings the log into the file itself. A captured write touches four pages
    /// where a bare one touches one: as many writes for each.
    private static let most: CInt = 4_000

    private let lock = NSLock()
    private var present = 0
    /// By which number the log began that the last commit went to.
    private var number: UInt32?
    /// Whether this connection may note what becomes of the log: one that was found lost stays noted until a commit has told of it, and
    /// GRDB makes one before.
    private var mayNote: Bool
    /// Whether a log has begun that is not noted.
    private var owesNote = false
    private var standing = LogMark.Standing()
    /// Hears where a log begins, and that the connections are gone; `nil` in memory.
    private let mark: LogMark?

    /// - Parameter found: what was found as the file was opened.
    init(_ mark: LogMark? = nil, _ found: LogMark.Found = .asLeft) {
        (self.mark, mayNote) = (mark, found == .asLeft)
        // What was found stays noted until a commit has told of it.
        if let mark, mayNote { standing = mark.begin() }
    }

    var pages: Int { lock.withLock { present } }

    /// Hears of the connection's commits. GRDB keeps the closure that calls this as long as the connection, and this with it.
    func watch(_ db: Database) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        _ = sqlite3_wal_hook(  // kept: the hook before, of which there is none
            db.sqliteConnection,
            { context, connection, name, pages in
                guard let context else { return SQLITE_OK }
                Unmanaged<LogLength>.fromOpaque(context).takeUnretainedValue().note(pages, connection)
                // What it cannot do now the next commit does: others may read or be at it.
                if pages >= LogLength.most {
                    // Tried only: where it fails the log is longer, and the next commit tries again.
                    _ = sqlite3_wal_checkpoint_v2(  // kept: as above
                        connection, name, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
                }
                return SQLITE_OK
            }, context)
    }

    /// What is to be noted as a connection closes; `nil` in memory.
    func closing() -> Closing? { mark.map { Closing($0, self) } }

    /// Notes the closing of one connection, which alone tells it of that.
    final class Closing {
        private let mark: LogMark
        private let log: LogLength
        /// What was noted as the closing began.
        private var noted: LogMark.Closing?

        fileprivate init(_ mark: LogMark, _ log: LogLength) { (self.mark, self.log) = (mark, log) }

        func begin() { noted = log.lock.withLock { log.mayNote ? mark.noteClosing(log.standing) : nil } }

        func end() {
            // Somebody else traces the connection, and this was not told: late is better than never.
            if noted == nil { begin() }
            if let noted { mark.noteClosed(since: noted) }
        }
    }

    private func note(_ pages: CInt, _ connection: OpaquePointer?) {
        let begun = mark == nil ? nil : Self.number(of: connection)
        lock.withLock {
            // Another process may have emptied the log since: a commit of many pages looks then as if that one went on.
            let begins = present == 0 || present >= Int(pages) || begun != number
            (present, number) = (Int(pages), begun)
            guard begins else { return }
            if mayNote { mark?.noteBegun(&standing) } else { owesNote = true }
        }
    }

    /// By which the log in use begins, by SQLite's own handle of it; `nil` where that does not say.
    private static func number(of connection: OpaquePointer?) -> UInt32? {
        var log: UnsafeMutablePointer<sqlite3_file>?
        guard sqlite3_file_control(connection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK,
            let log, let read = log.pointee.pMethods?.pointee.xRead
        else { return nil }
        var bytes: UInt32 = 0
        guard read(log, &bytes, 4, sqlite3_int64(LogMark.place)) == SQLITE_OK else { return nil }
        return UInt32(bigEndian: bytes)
    }

    /// A commit has told of what was found as the file was opened.
    func noteTold() {
        lock.withLock {
            if owesNote { mark?.noteBegun(&standing) }
            (mayNote, owesNote) = (true, false)
        }
    }
}
