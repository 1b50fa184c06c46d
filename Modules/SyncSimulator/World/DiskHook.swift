import Foundation
import GRDB

/// What stands between a device's database and its disk: counts statements, kills the device at one, and lets commits fail.
///
/// A kill takes a picture of the device's files at that very statement, open transaction and all, as a process that
/// dies leaves them; what the doomed code still writes afterwards goes into files that are thrown away.
final class DiskHook: @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor; SQLite calls back on that thread, since
    // GRDB's synchronous calls run where they are made.
    private(set) var statements = 0
    /// Statements at which the device dies.
    var crashes: Set<Int> = []
    /// Statements from and to which commits fail, and how.
    var failures: [(range: Range<Int>, code: ResultCode)] = []
    private(set) var isDead = false
    /// What a dead process left in memory is being cleared away: nothing of that reaches the files that count.
    var isClearing = false
    private(set) var struckCommits = 0
    private(set) var diedInTransaction = false
    /// Takes the picture.
    var onCrash: () -> Void = {}
    var note: (String) -> Void = { _ in }

    /// Called before each statement of the writing connection; `false` breaks it off.
    func statement(_ sql: () -> String) -> Bool {
        guard !isClearing else { return true }
        // A doomed transaction may still be rolled back: GRDB insists on leaving none open.
        guard !isDead else { return sql().hasPrefix("ROLLBACK") }
        statements += 1
        guard crashes.remove(statements) != nil else { return true }
        note("crash at statement \(statements)")
        diedInTransaction = diedInTransaction || !sql().hasPrefix("BEGIN")
        kill()
        return false
    }

    /// The process is gone from now on.
    func kill() {
        guard !isDead else { return }
        onCrash()
        isDead = true
    }

    /// A new process begins.
    func revive() { isDead = false }

    func failure() -> DatabaseError? {
        guard !isClearing else { return nil }
        if isDead { return DatabaseError(resultCode: .SQLITE_IOERR, message: "the process is dead") }
        guard let failure = failures.first(where: { $0.range.contains(statements) }) else { return nil }
        struckCommits += 1
        note("commit fails with \(failure.code.rawValue)")
        return DatabaseError(resultCode: failure.code, message: "injected")
    }
}

/// Lets a commit fail as SQLite would: the transaction is rolled back, and the writer gets the code.
final class CommitFailer: TransactionObserver, Sendable {
    private let hook: DiskHook
    init(_ hook: DiskHook) { self.hook = hook }

    /// It wants commits only, and those come to every observer.
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseWillCommit() throws {
        if let failure = hook.failure() { throw failure }
    }
    func databaseDidCommit(_ db: Database) {}
    func databaseDidRollback(_ db: Database) {}
}

/// The files of one device: a folder that can be photographed and put back, byte for byte and in place.
///
/// In place, since a database knows by its inode whether it is a copy.
struct DeviceFolder: Sendable {
    let path: String
    static let database = "device.sqlite"
    var databasePath: String { path + "/" + Self.database }

    /// The files' contents by name; the shared memory of the WAL is no part of what a disk keeps.
    func photograph() throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: path).sorted()
        where !name.hasSuffix("-shm") {
            contents[name] = try Data(contentsOf: URL(fileURLWithPath: path + "/" + name))
        }
        return contents
    }

    /// Makes the folder hold these files, and no others.
    func putBack(_ contents: [String: Data]) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: path)
        where contents[name] == nil {
            try FileManager.default.removeItem(atPath: path + "/" + name)
        }
        for name in contents.keys.sorted() {
            // Not atomically: that would be a new file with a new inode.
            try contents[name]?.write(to: URL(fileURLWithPath: path + "/" + name), options: [])
        }
    }
}
