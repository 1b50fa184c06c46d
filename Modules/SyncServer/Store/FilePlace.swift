#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Where a file stands: its volume and inode.
///
/// A file that was removed or moved away can be written as long as it is open, and nobody opens it again: what a server acknowledges
/// then is lost (Decision 471).
struct FilePlace: Sendable, Hashable {
    private let volume: UInt64
    private let inode: UInt64

    /// - Returns: `nil` where nothing stands under the path.
    init?(_ path: String) {
        var facts = stat()
        guard stat(path, &facts) == 0 else { return nil }
        volume = UInt64(truncatingIfNeeded: facts.st_dev)
        inode = UInt64(truncatingIfNeeded: facts.st_ino)
    }
}
