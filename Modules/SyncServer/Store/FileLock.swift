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
