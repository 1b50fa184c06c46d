internal import Foundation
internal import GRDB

extension SyncService {
    /// Copies the database into a new file while the service goes on; the copy is whole, as of one moment.
    ///
    /// A service that opens the copy begins a new epoch by itself. Throws ``ServiceFailure``; nothing is left behind
    /// then.
    public func backup(to target: String) throws(ServiceFailure) {
        try Self.backup(database: path, to: target)
    }

    /// The same from another process, while a server has the file open.
    public static func backup(database path: String, to target: String) throws(ServiceFailure) {
        try backup(database: path, to: target) {}
    }

    /// The copy has another name until it is whole and marked as one: who is killed leaves nothing under the name that was
    /// asked for.
    /// - Parameter copied: called between the copying and the mark.
    static func backup(
        database path: String, to target: String, copied: () throws -> Void
    ) throws(ServiceFailure) {
        let files = FileManager.default
        guard files.fileExists(atPath: path) else {
            throw .storage(path: path, reason: "there is no such file")
        }
        try FileLock.checkHasOneName(path, given: path)
        guard !target.isEmpty else { throw .storage(path: target, reason: "it has no name") }
        guard !files.fileExists(atPath: target) else { throw .targetExists(path: target) }
        let source = try source(path)
        let part = "\(target).part-\(UUID().uuidString.lowercased())"  // live: a name that nobody else has
        do {
            let copy = try DatabaseQueue(path: part)
            try source.backup(to: copy)
            try copied()
            try copy.writeWithoutTransaction { db in
                try db.execute(sql: "INSERT OR REPLACE INTO meta(name, value) VALUES ('copy', '1')")
                // One file, without a journal beside it.
                try db.execute(sql: "PRAGMA journal_mode = DELETE")
            }
            try copy.close()
            try source.close()
            try files.moveItem(atPath: part, toPath: target)
        } catch {
            for suffix in ["", "-wal", "-shm", "-journal"] where files.fileExists(atPath: part + suffix) {
                do {
                    try files.removeItem(atPath: part + suffix)
                } catch let other {
                    let (reason, stays) = (ServiceFailure.words(error), ServiceFailure.words(other))
                    throw .storage(path: target, reason: "\(reason); and the half copy \(part) stays: \(stays)")
                }
            }
            throw .storage(path: target, reason: ServiceFailure.words(error))
        }
    }

    /// The database to copy, looked at first: a file of something else is told as what it is, under its own name.
    private static func source(_ path: String) throws(ServiceFailure) -> DatabaseQueue {
        var reading = Configuration()
        reading.readonly = true
        reading.busyMode = .timeout(5)
        do {
            let source = try DatabaseQueue(path: path, configuration: reading)
            guard try source.read({ try $0.tableExists("meta") && $0.tableExists("outcome") }) else {
                throw ServiceFailure.storage(path: path, reason: "it is not a server's database")
            }
            return source
        } catch let failure as ServiceFailure {
            throw failure
        } catch DatabaseError.SQLITE_NOTADB {
            throw .storage(path: path, reason: "it is not a server's database")
        } catch {
            throw .storage(path: path, reason: ServiceFailure.words(error))
        }
    }
}
