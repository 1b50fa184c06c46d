#if canImport(Darwin)
    import Foundation
#endif

/// Keeps a token of this installation where no backup carries it, so that a database that was restored from one is noticed
/// also where volume and inode happen to be the same (PRC-19).
///
/// Implemented for Apple's platforms by ``FileOutsideBackups``; a test gives one of its own. What ``keep(_:for:)`` has kept
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

/// What this platform offers to tell a restored database by.
public enum PlatformInstallToken {
    /// `nil` where it offers nothing.
    public static var live: (any InstallToken)? {
        #if canImport(Darwin)
            FileOutsideBackups()
        #else
            nil
        #endif
    }
}
