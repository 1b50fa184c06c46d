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
            // `deinit` closes the descriptor, here, too: closed twice it might be somebody else's by then.
            let code = errno
            if code == EWOULDBLOCK { throw .fileInUse(path: given) }
            throw .storage(path: lockPath, reason: String(cString: strerror(code)))
        }
    }

    /// The path without symbolic links; where nothing is there yet, without those that lead to where it will be made.
    static func resolved(_ path: String) -> String {
        var path = path
        // As many as the system follows itself.
        for _ in 0..<40 {
            if let resolved = realpath(path, nil) {
                defer { free(resolved) }
                return String(cString: resolved)
            }
            guard let target = target(ofLink: path) else { return path }
            let folder = path.lastIndex(of: "/").map { path[...$0] } ?? ""
            path = target.hasPrefix("/") ? target : folder + target
        }
        return path
    }

    /// What a symbolic link says; `nil` for what is none.
    private static func target(ofLink path: String) -> String? {
        var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self) : nil
    }

    /// Refuses a file that has several names (hard links). A lock beside one of them keeps nobody from the others, and what was
    /// committed stands in the log beside one name until it is brought into the file (Decision 480).
    static func checkHasOneName(_ path: String, given: String) throws(ServiceFailure) {
        var facts = stat()
        // What is not there yet has none.
        guard stat(path, &facts) == 0 else { return }
        guard facts.st_mode & S_IFMT != S_IFDIR else { throw .storage(path: given, reason: "is a folder") }
        guard facts.st_nlink > 1 else { return }
        throw .severalNames(path: given)
    }

    deinit {
        _ = close(descriptor)
    }
}
