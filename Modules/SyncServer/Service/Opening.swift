internal import GRDB
internal import SyncCore

/// The start: lock, file, tables, epoch.
struct Opening {
    let path: String
    let configuration: ServerConfiguration
    let randomness: any Randomness
    let log: LogKeeper

    func open() throws(ServiceFailure) -> SyncService.State {
        // By whatever name the file is opened, its companions stand beside the file itself.
        let file = FileLock.resolved(path)
        let lock = try FileLock(path: file, given: path)
        try FileLock.checkHasOneName(file, given: path)
        let versionFile = try VersionFile(database: file)
        do {
            let queue = try DatabaseQueue(path: path, configuration: databaseConfiguration)
            try settle(queue)
            try migrate(queue)
            let kept = versionFile.read()
            return try queue.writeWithoutTransaction { db in
                let store = try ServerStore(db)
                var (epoch, handedOut) = ("", Int64(0))
                try db.inTransaction(.immediate) {
                    epoch = try self.epoch(store, over: kept)
                    handedOut = try store.handedOut()
                    // With the file, so that every backup has it.
                    _ = try store.identity { Self.makeName("i-", randomness) }
                    return .commit
                }
                try versionFile.write(handedOut)
                return SyncService.State(
                    lock: lock, file: file, place: FilePlace(file), versionFile: versionFile, queue: queue,
                    store: store,
                    epoch: epoch, handedOut: handedOut)
            }
        } catch let failure as ServiceFailure {
            throw failure
        } catch {
            throw .storage(path: path, reason: ServiceFailure.words(error))
        }
    }

    private var databaseConfiguration: Configuration {
        var database = Configuration()
        database.journalMode = .wal
        // Another process may make a backup; it never holds a lock for long.
        database.busyMode = .timeout(5)
        return database
    }

    /// GRDB says `synchronous = NORMAL` with the write-ahead log, after a connection is prepared; so ours comes then.
    private func settle(_ queue: DatabaseQueue) throws {
        let synchronous = configuration.synchronous.rawValue.uppercased()
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA synchronous = \(synchronous)")
            // 16 MiB: keys and ids come in no order.
            try db.execute(sql: "PRAGMA cache_size = -16384")
            log.watch(db)
        }
    }

    private func migrate(_ queue: DatabaseQueue) throws {
        let migrator = Tables.migrator
        if try queue.read({ db in try migrator.hasBeenSuperseded(db) }) {
            throw ServiceFailure.madeByLaterVersion(path: path)
        }
        try migrator.migrate(queue)
    }

    /// The present epoch: a new one where history was replaced by an older state.
    /// - Parameter kept: what `FILE.version` holds.
    private func epoch(_ store: ServerStore, over kept: Int64) throws -> String {
        let isReplaced = try kept > store.handedOut()
        let isCopy = try store.meta("copy") != nil
        let known = try store.meta("epoch")
        if let known, !isReplaced, !isCopy, !configuration.isRestored { return known }
        let epoch = Self.makeName("e-", randomness)
        try store.setMeta("epoch", epoch)
        try store.setMeta("copy", nil)
        // Also a file that was made since, where there was none: the one that comes back after it is older, too.
        if known != nil || kept > 0 { try store.lift(above: kept) }
        return epoch
    }

    /// A name of 128 random bits.
    static func makeName(_ prefix: String, _ randomness: any Randomness) -> String {
        prefix + Checksum.text(randomness.next()) + Checksum.text(randomness.next())
    }
}
