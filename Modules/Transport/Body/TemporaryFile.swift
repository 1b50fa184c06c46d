import SyncCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A file without a name, in which a long answer waits: gone with its last user, also when the process is killed.
///
/// Used by one writer; then ``map()`` ends the writing.
final class TemporaryFile {
    private var descriptor: Int32
    private(set) var count = 0

    /// Makes the file in `folder` and takes its name away at once.
    init(in folder: String) throws(HTTPFailure) {
        var template = Array("\(folder)/ferry-XXXXXX".utf8CString)
        descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw Self.failure("create a temporary file") }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        // `deinit` closes it, here, too.
        guard unlink(template) == 0 else { throw Self.failure("take away a temporary file's name") }
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    func append(_ bytes: UnsafeBufferPointer<UInt8>) throws(HTTPFailure) {
        var written = 0
        while written < bytes.count {
            let result = write(descriptor, bytes.baseAddress! + written, bytes.count - written)
            if result < 0 {
                if errno == EINTR { continue }
                throw Self.failure("write \(bytes.count) bytes into a temporary file")
            }
            written += result
        }
        count += bytes.count
    }

    /// The file's bytes as memory that the system pages in and out.
    func map() throws(HTTPFailure) -> UnsafeRawBufferPointer {
        guard count > 0 else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        guard let address = mmap(nil, count, PROT_READ, MAP_PRIVATE, descriptor, 0), address != MAP_FAILED else {
            throw Self.failure("map a temporary file")
        }
        return UnsafeRawBufferPointer(start: address, count: count)
    }

    private static func failure(_ what: String) -> HTTPFailure {
        HTTPFailure(.local, "cannot \(what): \(String(cString: strerror(errno)))")
    }

    /// Where the platform wants temporary files.
    static var platformFolder: String {
        guard let folder = getenv("TMPDIR").map({ String(cString: $0) }), !folder.isEmpty else { return "/tmp" }
        return folder.hasSuffix("/") ? String(folder.dropLast()) : folder
    }
}

/// An answer's body, whole: in memory, or in a file that is mapped.
struct AnswerBody: Sendable {
    let bytes: JSONBytes
    /// Where the mapped pages begin; `nil` for memory.
    private let mapped: Int?

    init(_ bytes: some Collection<UInt8>) {
        self.bytes = JSONBytes(bytes)
        mapped = nil
    }

    init(_ file: TemporaryFile) throws(HTTPFailure) {
        let memory = try file.map()
        mapped = memory.baseAddress.map(Int.init(bitPattern:))
        bytes = JSONBytes(lending: memory) { memory in
            guard let address = memory.baseAddress else { return }
            munmap(UnsafeMutableRawPointer(mutating: address), memory.count)
        }
    }

    var count: Int { bytes.count }
    var isInFile: Bool { mapped != nil }

    /// Lets go of the memory of what was read up to `offset`; it comes back from the file if it is read again.
    func release(before offset: Int) {
        guard let mapped else { return }
        let length = offset & ~0xffff
        guard length > 0 else { return }
        madvise(UnsafeMutableRawPointer(bitPattern: mapped), length, MADV_DONTNEED)
    }
}
