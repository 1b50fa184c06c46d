import GRDB

/// Brings the write-ahead log into the file while slices are applied, between them and on a connection of its own.
///
/// SQLite does it by itself in the commit that fills the log, and then every write of the app's waits until the disk has
/// taken all of it. A passive checkpoint of another connection keeps nobody waiting. SQLite's own stays as it is, for logs
/// that grow long otherwise.
final class Checkpointer {
    /// After so many records: a log of about 4 MiB.
    private static let interval = 4_000

    private let path: String
    private var connection: DatabaseQueue?
    private var records = 0

    init(path: String) { self.path = path }

    /// So many records were applied.
    func note(_ applied: Int) {
        records += applied
        guard records >= Self.interval else { return }
        records = 0
        do {
            try open().writeWithoutTransaction { db in _ = try db.checkpoint(.passive) }
        } catch {
            // Somebody else is at it, or the disk is full: SQLite's own checkpoint tells whoever writes.
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

    func close() throws {
        try connection?.close()
        connection = nil
    }
}
