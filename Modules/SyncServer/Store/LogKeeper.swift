internal import GRDB
internal import GRDBSQLite

/// The write-ahead log's length, and the connection that brings it into the file.
///
/// SQLite does that in the commit that fills the log, and that request's answer waits for the disk until all of it is
/// there. A passive checkpoint of a connection of its own keeps no commit waiting (Decision 185). SQLite's own stays for
/// who does not call ``SyncService/bringLogIn()``.
final class LogKeeper: Sendable {
    /// 16 MiB of log: pages of keys change with every request, and go into the file once for many.
    private static let most: CInt = 4_000
    /// So long a log is brought in by who has the time; it grows on meanwhile.
    private static let long: CInt = 2_500
    /// A pass that meets a commit leaves a rest, and the log begins anew only without one.
    private static let passes = 4

    private let path: String
    private let length = Guarded<CInt>(0)
    private let connection = Guarded<DatabaseQueue?>(nil)

    init(path: String) { self.path = path }

    var isLong: Bool { length.with { $0 } >= Self.long }

    /// Hears of the connection's commits, as long as this lives.
    func watch(_ db: Database) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        _ = sqlite3_wal_hook(  // kept: the hook before, of which there is none
            db.sqliteConnection,
            { context, connection, name, pages in
                guard let context else { return SQLITE_OK }
                Unmanaged<LogKeeper>.fromOpaque(context).takeUnretainedValue().length.with { $0 = pages }
                // What it cannot do now the next commit does: others may be at it.
                if pages >= LogKeeper.most {
                    // Tried only: where it fails the log is longer, and the next commit tries again.
                    _ = sqlite3_wal_checkpoint_v2(  // kept: as above
                        connection, name, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
                }
                return SQLITE_OK
            }, context)
    }

    /// Brings the log into the file, if it is long and nobody else is at it.
    func bringIn() {
        guard isLong else { return }
        _ = connection.ifFree { connection -> Bool? in
            do {
                let open = try connection ?? DatabaseQueue(path: path)
                connection = open
                for _ in 0..<Self.passes {
                    let (pages, done) = try open.writeWithoutTransaction { try $0.checkpoint(.passive) }
                    if done >= pages { return true }
                }
            } catch {
                // kept: a full disk, or a copy at work: SQLite's own checkpoint tells whoever writes.
            }
            return nil
        }
    }

    /// Waits for what is under way.
    func close() throws {
        length.with { $0 = 0 }
        try connection.with { connection in
            try connection?.close()
            connection = nil
        }
    }
}
