#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// `FILE.version`: the sum of the highest versions handed out in all data sets, kept beside the database, so that an
/// older database put in its place is noticed.
///
/// It is written after the commit and before the answer, and not forced to the disk: after a power loss it may be too
/// low, which hides a replaced file at worst, and never too high, which would invent one.
final class VersionFile: Sendable {
    /// Twenty digits and a line feed, always as long, so that it is overwritten in place.
    private static let length = 21
    private let descriptor: Int32
    private let path: String

    init(database path: String) throws(ServiceFailure) {
        self.path = path + ".version"
        descriptor = open(self.path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw .storage(path: self.path, reason: String(cString: strerror(errno)))
        }
    }

    /// The number; 0 where there is none.
    func read() -> Int64 {
        var bytes = [UInt8](repeating: 0, count: 32)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { return 0 }
        var text = bytes[..<count]
        while let last = text.last, last == 0x0a || last == 0x20 || last == 0x0d { text.removeLast() }
        return Int64(String(decoding: text, as: UTF8.self)) ?? 0
    }

    func write(_ number: Int64) throws(ServiceFailure) {
        let digits = String(number)
        let text = String(repeating: "0", count: max(0, Self.length - 1 - digits.utf8.count)) + digits + "\n"
        let bytes = Array(text.utf8)
        guard pwrite(descriptor, bytes, bytes.count, 0) == bytes.count else {
            throw .storage(path: path, reason: String(cString: strerror(errno)))
        }
    }

    deinit {
        _ = close(descriptor)
    }
}
