import Foundation
import GRDB

#if canImport(Darwin)
    import Darwin
#endif

/// In which start of the system the file was open last, so that what a power loss took is noticed (PRC-22).
///
/// With `synchronous=NORMAL` SQLite syncs the log at checkpoints alone: after a power loss the file is as it was at one of the
/// commits since the last. Nothing in it says so. The sequences of the changes that are missing would be given again, and what
/// the server has of them already would be sent under other keys. The power does not go without a new start of the system.
///
/// The first opening in a start of the system is committed with a sync, so that the file knows of that start whatever comes.
public enum SystemStart {
    /// What this platform tells it by; `nil` where it says nothing.
    public static var live: String? {
        #if canImport(Darwin)
            var size = 0
            guard sysctlbyname("kern.bootsessionuuid", nil, &size, nil, 0) == 0, size > 1 else { return nil }
            var bytes = [UInt8](repeating: 0, count: size)
            guard sysctlbyname("kern.bootsessionuuid", &bytes, &size, nil, 0) == 0 else { return nil }
            return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        #else
            // No file of a size: the kernel writes it when it is read.
            guard let data = FileManager.default.contents(atPath: "/proc/sys/kernel/random/boot_id") else { return nil }
            let text = String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
            return text.isEmpty ? nil : text
        #endif
    }

    /// Whether the file was open last in another start of the system than this one.
    static func isAnother(_ db: Database, _ start: String?) throws -> Bool {
        guard let start, let known = try Meta.text(db, .systemStart) else { return false }
        return known != start
    }

    static func note(_ db: Database, _ start: String?) throws {
        guard let start, try Meta.text(db, .systemStart) != start else { return }
        try Meta.set(db, .systemStart, start)
    }

    /// Runs the transaction that opens the file; the first one in a start of the system is on the disk when this returns.
    static func write<Result>(
        _ read: Reading, _ configuration: StoreConfiguration, _ body: (Database) throws -> Result
    ) throws -> Result {
        guard configuration.synchronous == .normal, let start = configuration.systemStart,
            try read({ try EngineTables.found($0) == nil || Meta.text($0, .systemStart) != start })
        else { return try read.database.write(body) }
        return try read.database.writeWithoutTransaction { db in
            let usual = try Int.fetchOne(db, sql: "PRAGMA synchronous") ?? 1
            try db.execute(sql: "PRAGMA synchronous = FULL")
            var result: Result?
            do {
                try db.inTransaction {
                    result = try body(db)
                    return .commit
                }
            } catch let failure {
                do { try db.execute(sql: "PRAGMA synchronous = \(usual)") } catch {
                    // kept: the connection is of no use any more; what failed first says why.
                }
                throw failure
            }
            try db.execute(sql: "PRAGMA synchronous = \(usual)")
            guard let result else { throw DatabaseError(message: "the transaction had no end") }
            return result
        }
    }
}
