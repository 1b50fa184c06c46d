import Foundation
import GRDB

/// What stands between a device's database and its disk: counts statements, kills the device at one, and lets the disk fail.
///
/// A kill takes a picture of the device's files at that very statement, open transaction and all, as a process that
/// dies leaves them; what the doomed code still writes afterwards goes into files that are thrown away.
final class DiskHook: @unchecked Sendable {
    // Sendable: all of it is used by the one thread that drives the executor; SQLite calls back on that thread, since
    // GRDB's synchronous calls run where they are made.
    private(set) var statements = 0
    /// Statements at which the device dies.
    var crashes: Set<Int> = []
    /// Statements from and to which the disk fails, and how.
    var failures: [(range: Range<Int>, failure: FaultTape.DiskFailure)] = []
    /// Openings in which the disk fails once, when it was asked for that so often: by the number of the process, or the first that has
    /// another version of the app.
    var openings: [(number: Int?, failure: FaultTape.DiskFailure, after: Int)] = []
    /// The process that lives now, from 1 on, and whether it is the first with another version of the app.
    private var process = 0
    private var isUpgrade = false
    /// How often this process has asked its disk for what can fail.
    private var asked: [FaultTape.DiskFailure: Int] = [:]
    /// Another connection holds the writer's lock; how many such locks kept this device from writing.
    var isLocked = false {
        didSet { if isLocked != oldValue { metLock = false } }
    }
    private var metLock = false
    private(set) var timesLockedOut = 0
    /// The simulator itself looks.
    var isLookedAt = false
    /// What struck, each failure of the tape once.
    private(set) var struck: [FaultTape.DiskFailure: Int] = [:]
    /// How often the disk failed.
    private(set) var timesStruck = 0
    private var struckRanges: Set<Range<Int>> = []
    private(set) var isDead = false
    /// What a dead process left in memory is being cleared away: nothing of that reaches the files that count.
    var isClearing = false
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

    /// The file was busy, by no failure of the tape.
    func noteBusy() {
        guard isLocked, !metLock, !isLookedAt else { return }
        metLock = true
        timesLockedOut += 1
    }

    /// A new process begins.
    /// - Parameter isUpgrade: it is the first with another version of the app.
    func revive(isUpgrade: Bool) {
        isDead = false
        process += 1
        self.isUpgrade = isUpgrade
        asked = [:]
    }

    /// The disk works again where it fails now.
    func mend() { failures.removeAll { $0.range.contains(statements) } }

    /// Nothing goes wrong any more.
    func heal() { (crashes, failures, openings) = ([], [], []) }

    /// Whether the disk fails at what it is asked for now.
    func failure(of operation: DiskShim.Operation) -> ResultCode? {
        // What a dead process still does goes into files that are thrown away.
        guard !isClearing, !isDead, !isLookedAt else { return nil }
        if let (range, failure) = failures.first(where: { $0.range.contains(statements) }),
            let code = failure.code(for: operation)
        {
            timesStruck += 1
            if struckRanges.insert(range).inserted { strike(failure) }
            note("disk: \(failure) at statement \(statements)")
            return code
        }
        return openings.isEmpty ? nil : failureOfOpening(operation)
    }

    private func failureOfOpening(_ operation: DiskShim.Operation) -> ResultCode? {
        for failure in FaultTape.DiskFailure.allCases {
            guard let code = failure.code(for: operation) else { continue }
            let before = asked[failure, default: 0]
            asked[failure] = before + 1
            let place = openings.firstIndex { opening in
                opening.failure == failure && opening.after == before
                    && (opening.number.map { $0 == process } ?? isUpgrade)
            }
            guard let place else { continue }
            openings.remove(at: place)
            timesStruck += 1
            strike(failure)
            note("disk: \(failure) in process \(process), after \(before)")
            return code
        }
        return nil
    }

    private func strike(_ failure: FaultTape.DiskFailure) { struck[failure, default: 0] += 1 }
}

/// Lets no commit of a dead process go through: it gets the code, and the transaction is rolled back.
final class CommitFailer: TransactionObserver, Sendable {
    private let hook: DiskHook
    private let life: SecondProcess.Life?

    /// - Parameter life: of a process that may die alone.
    init(_ hook: DiskHook, _ life: SecondProcess.Life? = nil) { (self.hook, self.life) = (hook, life) }

    /// It wants commits only, and those come to every observer.
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseWillCommit() throws {
        guard hook.isDead && !hook.isClearing || life?.isDead == true else { return }
        throw DatabaseError(resultCode: .SQLITE_IOERR, message: "the process is dead")
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
