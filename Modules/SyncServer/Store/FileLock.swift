#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// One server per file: a lock on `FILE.lock` that ends with the process, however that ends.
///
/// SQLite's own exclusive lock would shut out the online backup of another process.
final class FileLock: Sendable {
    private let descriptor: Int32

    /// - Parameter given: What the file is called in errors.
    init(path: String, given: String) throws(ServiceFailure) {
        let lockPath = path + ".lock"
        descriptor = open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw .storage(path: lockPath, reason: String(cString: strerror(errno)))
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            _ = close(descriptor)
            if code == EWOULDBLOCK { throw .fileInUse(path: given) }
            throw .storage(path: lockPath, reason: String(cString: strerror(code)))
        }
    }

    /// Refuses a file that has several names: SQLite keeps the log of a database by its name, so what is acknowledged under one is not
    /// seen under the other, and lost (https://www.sqlite.org/howtocorrupt.html, *Multiple links to the same file*).
    static func refuseHardLinks(_ path: String, given: String) throws(ServiceFailure) {
        var status = stat()
        guard stat(path, &status) == 0, status.st_nlink > 1 else { return }
        throw .storage(
            path: given,
            reason: "the file has \(status.st_nlink) names (hard links); a database is served where it has one")
    }

    /// The path without symbolic links; as it is where nothing is there yet.
    static func resolved(_ path: String) -> String {
        guard let resolved = realpath(path, nil) else { return path }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    deinit {
        _ = close(descriptor)
    }
}
