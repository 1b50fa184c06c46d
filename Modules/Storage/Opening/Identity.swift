import Foundation
import GRDB
import SyncCore

/// Which device this is: a file that was restored or copied is another one (PRC-19).
///
/// The file notes where it lives (volume and inode) with its device id, and how often it was opened. Another place,
/// another installation (``InstallToken``), or less than is noted beside it (``DeviceNote``), mean a copy, and
/// another log (``LogMark``) or start of the system (``SystemStart``) may mean one: it gets a new device id, and the unsent changes keep the
/// earlier one, under which the server may know them. 62 bits of a key are random, so none is ever repeated.
enum Identity {
    /// What a check found.
    struct Checked {
        /// How often the file was opened.
        var openings: Int64
        /// Nothing was in the file, and another was here before.
        var isBegunAnew: Bool
        /// Why commits may be missing, where they may by what happened to the file itself.
        var missingCommits: String?
    }

    /// Checks the file in the transaction that opens it.
    /// - Parameters:
    ///   - note: what is noted beside the file.
    ///   - log: what was found of its write-ahead log.
    ///   - start: the present start of the system.
    ///   - mayLose: a power loss takes commits along.
    /// - Returns: what to note and to tell once the transaction stands.
    static func check(
        _ db: Database, path: String, note: DeviceNote, _ log: LogMark.Found, _ installation: (any InstallToken)?,
        start: String?, mayLose: Bool, now: Int64
    ) throws -> Checked {
        let home = home(of: path)
        let generation = try Meta.integer(db, .generation) ?? 0
        let beside = note.read()
        // Above both, so that the copy and what it was copied from part for good.
        let next = min(max(generation, beside.openings ?? 0), .max - 1) + 1
        try Meta.set(db, .generation, next)
        guard let device = try Meta.text(db, .device) else {
            try Meta.set(db, .device, Clock.key(db))
            try Meta.set(db, .home, home)
            try noteInstallation(db, path, installation)
            try SystemStart.note(db, start)
            return Checked(openings: next, isBegunAnew: try noteBeginning(db, path, beside.openings, now: now))
        }
        let earlier = try Meta.text(db, .home)
        // What was copied with it may say that not all of it was (PRC-15).
        let missingCommits = try missing(db, device, generation, beside, log, hasHome: home != nil)
        if let home, let earlier, home != earlier {
            try renew(
                db, from: device, home: home, why: "The file is a copy." + (missingCommits.map { " \($0)" } ?? ""),
                now: now)
        } else if let missingCommits {
            try renew(db, from: device, home: home, why: missingCommits, now: now)
        } else if home != nil, try isElsewhere(db, path, installation) {
            try renew(db, from: device, home: home, why: "The file was restored from a backup.", now: now)
        } else if home != nil, mayLose, try SystemStart.isAnother(db, start) {
            let why = "The system was started anew since the file was open; the last commits may be missing."
            try renew(db, from: device, home: home, why: why, now: now)
        } else if earlier == nil, home != nil {
            try Meta.set(db, .home, home)
        }
        try noteInstallation(db, path, installation)
        try SystemStart.note(db, start)
        return Checked(openings: next, isBegunAnew: false, missingCommits: missingCommits)
    }

    /// Why the last commits are missing in the file, or may be, by what is noted beside it and what was found of its log.
    private static func missing(
        _ db: Database, _ device: String, _ generation: Int64, _ beside: (openings: Int64?, sent: DeviceNote.Sent?),
        _ log: LogMark.Found, hasHome: Bool
    ) throws -> String? {
        if let openings = beside.openings, generation < openings {
            return "The file is an older copy of itself; what was committed since is missing."
        }
        if let sent = beside.sent, sent.device == device, try ChangeRows.sequence(db) < sent.sequence {
            return "The file is an older copy of itself: it sent change \(sent.sequence), and does not know it."
        }
        guard hasHome else { return nil }
        return switch log {
        case .lost: "The file's write-ahead log is gone; the last commits may be missing."
        case .other: "The file's write-ahead log is another one; the last commits may be missing."
        case .asLeft: nil
        }
    }

    /// A file that knows no device, where one was opened before: that one was emptied, or taken away, with all that it held. There is
    /// nothing to move aside, and a file that another process is just making must stay where it is.
    private static func noteBeginning(_ db: Database, _ path: String, _ noted: Int64?, now: Int64) throws -> Bool {
        guard let noted, home(of: path) != nil, AsideNote(database: path).targets.isEmpty else { return false }
        let detail = "A file that was opened \(noted) times was here before; it was empty, or is gone."
        try Journal.event(db, .begunAnew, detail: detail, at: now)
        return true
    }

    /// Whether the installation is another one than the file knows.
    private static func isElsewhere(_ db: Database, _ path: String, _ installation: (any InstallToken)?) throws -> Bool
    {
        guard let installation, let known = try Meta.text(db, .install) else { return false }
        do {
            return try installation.token(for: path) != known
        } catch {
            // kept: it may be there: a device that is locked does not show it.
            return false
        }
    }

    /// The token is kept before the transaction stands: killed between the two, one that is there already is taken over where
    /// the file has none, and else the next opening gives a new device id, once.
    private static func noteInstallation(_ db: Database, _ path: String, _ installation: (any InstallToken)?) throws {
        guard let installation, home(of: path) != nil else { return }
        let known = try Meta.text(db, .install)
        do {
            let kept = try installation.token(for: path)
            if let kept, kept == known { return }
            if let kept, !kept.isEmpty, known == nil { return try Meta.set(db, .install, kept) }
            let token = try Clock.key(db)
            try installation.keep(token, for: path)
            // As it will be found; with the file's time where that is part of it.
            try Meta.set(db, .install, installation.token(for: path) ?? token)
        } catch let error as DatabaseError {
            throw error
        } catch {
            // kept: without a token the file is told by its place alone; the next opening tries again.
            return
        }
    }

    /// Gives the file a new device id.
    static func renew(_ db: Database, from device: String, home: String?, why: String, now: Int64) throws {
        try db.execute(sql: "UPDATE sync_change SET device = ? WHERE device IS NULL", arguments: [device])
        try ChangeTable.recover(db)
        try Meta.set(db, .device, Clock.freshKey(db))
        try Meta.set(db, .home, home)
        try Lease.end(db)
        try Journal.event(db, .newDevice, detail: "\(why) Before, the device was \(device).", at: now)
    }

    /// Volume and inode, or `nil` for what is no file.
    static func home(of path: String) -> String? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return "\(status.st_dev):\(status.st_ino)"
    }
}
