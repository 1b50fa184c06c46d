import Foundation

/// Keeps a token of this installation where no backup carries it, so that a database that was restored from one is noticed
/// also where volume and inode happen to be the same (PRC-19).
///
/// Implemented for Apple's platforms by ``FileOutsideBackups``, elsewhere by ``UncopiedFile``; a test gives one of its own. What ``keep(_:for:)`` has kept
/// must be there as long as the installation is, and must not come with a backup or a copy of the database.
public protocol InstallToken: Sendable {
    /// The token that was kept for the database at this path; `nil` where there is none.
    /// - Throws: where there may be one that cannot be read now; nothing follows from that.
    func token(for database: String) throws -> String?
    /// Keeps a token in place of the one there was.
    func keep(_ token: String, for database: String) throws
}

#if canImport(Darwin)
    /// The token in a file beside the database that is excluded from backups.
    public struct FileOutsideBackups: InstallToken {
        public init() {}

        private func url(_ database: String) -> URL { URL(fileURLWithPath: database + "-install") }

        public func token(for database: String) throws -> String? {
            let file = url(database)
            guard FileManager.default.fileExists(atPath: file.path) else { return nil }
            return String(decoding: try Data(contentsOf: file), as: UTF8.self)
        }

        public func keep(_ token: String, for database: String) throws {
            var file = url(database)
            // Excluded before it says anything: a backup between the two steps must not carry it.
            try Data().write(to: file)
            var values = URLResourceValues()
            values.isExcludedFromBackup = true
            try file.setResourceValues(values)
            let handle = try FileHandle(forWritingTo: file)
            try handle.write(contentsOf: Data(token.utf8))
            try handle.close()
        }
    }
#endif

#if !canImport(Darwin)
    /// The token is in a file beside the database, and is as much the time at which that file was last changed.
    ///
    /// That time (`st_ctim`) is the system's own: no program can set it, so a copy of the file has another one, also where a
    /// backup was written over it in its place. What touches the file without copying it (a new owner or mode, a
    /// new name) changes the time, too: then the database gets a new device id that it did not need, which costs a row.
    public struct UncopiedFile: InstallToken {
        public init() {}

        private func path(_ database: String) -> String { database + "-install" }

        public func token(for database: String) throws -> String? {
            var status = stat()
            guard stat(path(database), &status) == 0 else {
                if errno == ENOENT { return nil }
                throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
            }
            let text = String(decoding: try Data(contentsOf: URL(fileURLWithPath: path(database))), as: UTF8.self)
            let changed = status.st_ctim
            return text.isEmpty ? nil : "\(text) \(changed.tv_sec).\(changed.tv_nsec)"
        }

        public func keep(_ token: String, for database: String) throws {
            try Data(token.utf8).write(to: URL(fileURLWithPath: path(database)))
        }
    }
#endif

/// What this platform offers to tell a restored database by.
public enum PlatformInstallToken {
    public static var live: (any InstallToken)? {
        #if canImport(Darwin)
            FileOutsideBackups()
        #else
            UncopiedFile()
        #endif
    }
}
