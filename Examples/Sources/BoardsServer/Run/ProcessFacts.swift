internal import NIOCore

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif
#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// What the system says of this process, and what is asked of it.
enum ProcessFacts {
    /// Allows as many open files as the system lets us have, since each connection is one.
    static func raiseFileLimit() {
        var limit = rlimit()
        #if canImport(Glibc)
            let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
            let files = RLIMIT_NOFILE
        #endif
        guard getrlimit(files, &limit) == 0 else { return }
        limit.rlim_cur = min(limit.rlim_max, 65_536)
        // Refused, the limit stays as it is, and fewer connections fit.
        _ = setrlimit(files, &limit)
    }

    /// Bytes of memory that the process has resident; nil where the system does not tell.
    static var residentMemory: Int? {
        guard let bytes = FileManager.default.contents(atPath: "/proc/self/statm") else { return nil }
        let words = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        guard words.count > 1, let pages = Int(words[1]) else { return nil }
        return pages * Int(sysconf(CInt(_SC_PAGESIZE)))
    }

    /// Nanoseconds of a clock that does not jump.
    @Sendable static func monotonicNow() -> Int64 { Int64(NIODeadline.now().uptimeNanoseconds) }
}
