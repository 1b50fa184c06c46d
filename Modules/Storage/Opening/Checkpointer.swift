import GRDB

/// Brings the write-ahead log into the file while slices are applied, between them and on a connection of its own.
///
/// SQLite does it by itself in the commit that fills the log, and then every write of the app's waits until the disk has
/// taken all of it. A passive checkpoint of another connection keeps nobody waiting, but one that meets a commit of the
/// app's does not come to the log's end, and only then does the log begin anew. So it is repeated: each pass leaves
/// less to the next, and takes so much shorter, until one comes through between two commits.
/// SQLite's own stays as it is, for logs that grow long otherwise.
final class Checkpointer {
    /// A log of 4 MiB.
    private static let pages = 1_000
    private static let passes = 5

    private let path: String
    private let log: LogLength
    private var connection: DatabaseQueue?

    init(path: String, log: LogLength) {
        self.path = path
        self.log = log
    }

    /// Something was written.
    func logGrew() {
        guard log.pages >= Self.pages else { return }
        do {
            let connection = try open()
            for _ in 0..<Self.passes {
                let (pages, done) = try connection.writeWithoutTransaction { try $0.checkpoint(.passive) }
                if done >= pages { return }
            }
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
