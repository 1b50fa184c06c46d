import Dispatch
import Foundation
import GRDB

/// Brings the write-ahead log into the file while slices are applied, on a connection of its own.
///
/// SQLite does it by itself in the commit that fills the log, and then every write of the app's waits until the disk has
/// taken all of it. A passive checkpoint of another connection keeps nobody waiting, but one that meets a commit
/// does not come to the log's end, and only then does the log begin anew. So it is repeated: each pass leaves
/// less to the next, and takes so much shorter, until one comes through between two commits.
/// SQLite's own stays as it is, for logs that grow long otherwise.
///
/// Live it works beside the store (Decision 185): most of its time it waits for the disk, and the engine need not. A store on an
/// executor that a configuration brought does it between two slices, on that.
final class Checkpointer: @unchecked Sendable {  // `connection` is touched in turns alone, `isAtWork` under the lock
    /// A log of 4 MiB.
    private static let pages = 1_000
    private static let passes = 5

    private let path: String
    private let log: LogLength
    private let turns: DispatchQueue?  // live
    private let lock = NSLock()
    private var isAtWork = false
    private var connection: DatabaseQueue?

    /// - Parameter isLive: whether it may work on a thread of its own.
    init(path: String, log: LogLength, isLive: Bool) {
        self.path = path
        self.log = log
        turns = isLive ? DispatchQueue(label: "storage.checkpoints", qos: .utility) : nil  // live
    }

    /// Whether nobody waits for it.
    var worksBeside: Bool { turns != nil }

    /// Something was written.
    func logGrew() {
        guard log.pages >= Self.pages else { return }
        guard let turns else { return bringIn() }
        let isFirst = lock.withLock {
            defer { isAtWork = true }
            return !isAtWork
        }
        guard isFirst else { return }
        turns.async { [self] in
            bringIn()
            lock.withLock { isAtWork = false }
        }
    }

    private func bringIn() {
        do {
            let connection = try open()
            for _ in 0..<Self.passes {
                let (pages, done) = try connection.writeWithoutTransaction { try $0.checkpoint(.passive) }
                if done >= pages { return }
            }
        } catch {
            // kept: somebody else is at it, or the disk is full: SQLite's own checkpoint tells whoever writes.
            return
        }
    }

    private func open() throws -> DatabaseQueue {
        if let connection { return connection }
        var settings = Configuration()
        settings.label = "Storage.checkpoints"
        settings.observesSuspensionNotifications = true
        let opened = try DatabaseQueue(path: path, configuration: settings)
        connection = opened
        return opened
    }

    /// Waits for what is under way.
    func close() throws {
        guard let turns else { return try end() }
        try turns.sync { try end() }
    }

    private func end() throws {
        try connection?.close()
        connection = nil
    }
}
