import Foundation

/// A file beside the database that names the write-ahead log in use, so that one that is gone, or an older one, is noticed (PRC-15).
///
/// SQLite takes the log away when the last connection closes, and takes whatever log it finds for the file's own. So `<file>-log`
/// says, from the first commit of a process on, by which number the log begins, and that there is none once it was taken in.
/// A process that is killed leaves both. It is written where a log begins anew, never for a single commit, and nothing is synced:
/// what a power loss takes is told by ``SystemStart``.
///
/// The number (`salt-1` of the log's header) grows by one each time the log begins anew; a file that is made is given any.
///
/// Processes open and close a file beside each other. So each note differs from all others, one notes at a time, who has closed says that
/// there is no log only where no other process has begun since, which may make one at any moment, and who leaves the log to others puts
/// back what it found of them.
struct LogMark {
    /// What stands beside the file that is opened.
    enum Found: Sendable {
        case asLeft
        /// There was one, and none is there.
        case lost
        /// It is not the one that was left, or none was.
        case other
    }

    private let database: String
    private var path: String { database + "-log" }
    private var log: String { database + "-wal" }

    /// A log may have begun anew so often between two notes, by connections that know nothing of this one.
    private static let restarts: UInt32 = 1 << 16
    /// The place of the number in the log's header.
    static let place = off_t(16)
    /// The header's length.
    private static let header = off_t(32)
    /// Instead of a number, each as long: there is no log, and whatever is found is right.
    private static let (none, any) = ("none....", "any.....")
    /// The length of a note in bytes.
    private static let most = 32
    private static let notes = Notes()

    init(database: String) { self.database = database }

    /// Compares what is noted with what is there, before SQLite makes a log of its own.
    ///
    /// Others may close meanwhile, and note it a moment after the log is gone: what does not fit is looked at again.
    func look() -> Found {
        for _ in 0..<4 {
            let found = lookOnce()
            guard found != .asLeft else { return found }
            usleep(5_000)  // live: for other processes
        }
        return lookOnce()
    }

    private func lookOnce() -> Found {
        guard let data = FileManager.default.contents(atPath: path) else { return .asLeft }
        let text = String(decoding: data.prefix(Self.none.utf8.count), as: UTF8.self)
        if text == Self.none { return length ?? 0 > Self.header ? .other : .asLeft }
        guard let noted = UInt32(text, radix: 16) else { return .asLeft }
        guard let length else { return .lost }
        // Emptied: a checkpoint has brought all of it into the file.
        guard length >= Self.header, let number else { return .asLeft }
        return number &- noted <= Self.restarts ? .asLeft : .other
    }

    /// What one connection noted.
    struct Standing: Sendable {
        fileprivate var last: String?
        /// Whether another one began or closed beside it, of which it does not know what became.
        fileprivate var isBeside = false
    }

    /// A process begins to write, and has committed nothing yet.
    func begin() -> Standing { Standing(last: put(creates: true) { _ in .text(Self.any) }) }

    /// A log has begun.
    func noteBegun(_ standing: inout Standing) {
        var others = false
        let noted = put(creates: true) { present in
            others = isOfAnother(present, standing)
            return begun
        }
        guard let noted else { return }
        standing.last = noted
        if others { standing.isBeside = true }
    }

    /// What stands in the mark while a connection closes.
    struct Closing: Sendable {
        fileprivate let own: String
        /// What another one noted before, that begins or closes.
        fileprivate let other: String?
        fileprivate let isBeside: Bool
    }

    /// A connection is about to be closed, and with the last one the log goes, whoever wrote it: whatever is found until that is noted
    /// is right. Not for a connection that has not told yet of a log that is lost: what tells of it is the note that is there.
    /// - Returns: what is noted now, which nobody else notes.
    func noteClosing(_ standing: Standing) -> Closing? {
        var other: String?
        let own = put { present in
            other = isOfAnother(present, standing) ? present : nil
            return .text(Self.any)
        }
        return own.map { Closing(own: $0, other: other, isBeside: standing.isBeside) }
    }

    private func isOfAnother(_ note: String, _ standing: Standing) -> Bool {
        note.hasPrefix(Self.any) && note != standing.last
    }

    /// A connection was closed: where it was the last, the log was taken in, and others may hold an empty one.
    /// - Parameter closing: what ``noteClosing(_:)`` gave. Where another process begins or closes meanwhile, that one may have a log at
    ///   any moment, and with others at work the log goes on.
    func noteClosed(since closing: Closing) {
        put { present in
            let (isOurs, isAny) = (present == closing.own, present.hasPrefix(Self.any))
            guard isOurs else {
                guard let length else { return isAny ? nil : .text(Self.none) }
                return length == 0 && !isAny ? .text(Self.any) : nil
            }
            // Of one who closes, and still is to find it; or who begins.
            if let other = closing.other { return .note(other) }
            guard let length else { return .text(closing.isBeside ? Self.any : Self.none) }
            return length == 0 ? .text(Self.any) : begun
        }
    }

    /// The note for the log that is there.
    private var begun: Note? {
        guard let number else { return nil }
        let text = String(number, radix: 16)
        return .text(String(repeating: "0", count: Self.none.utf8.count - text.count) + text)
    }

    /// `nil` where there is no log.
    private var length: off_t? {
        var status = stat()
        guard stat(log, &status) == 0 else { return errno == ENOENT ? nil : 0 }
        return status.st_size
    }

    /// By which the log begins.
    private var number: UInt32? {
        let file = open(log, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { _ = close(file) }
        var bytes = [UInt8](repeating: 0, count: 4)
        guard pread(file, &bytes, bytes.count, Self.place) == bytes.count else { return nil }
        return bytes.reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// What is to be noted.
    private enum Note {
        /// A new note that says this.
        case text(String)
        /// One that was there before, as it was.
        case note(String)
    }

    /// Notes what `choose` says, and by which a new note is told from all others, while nobody else notes anything.
    /// - Parameter choose: is given what is noted; `nil` leaves it.
    /// - Returns: what was noted.
    @discardableResult
    private func put(creates: Bool = false, _ choose: (String) -> Note?) -> String? {
        let file = open(path, O_RDWR | O_CLOEXEC | (creates ? O_CREAT : 0), 0o644)
        guard file >= 0 else { return nil }
        // Closing lets it go.
        defer { _ = close(file) }
        // Where there are no such locks it is as good as without.
        _ = flock(file, LOCK_EX)
        var bytes = [UInt8](repeating: 0, count: Self.most)
        let count = max(pread(file, &bytes, bytes.count, 0), 0)
        let note: String
        switch choose(String(decoding: bytes.prefix(count), as: UTF8.self)) {
        case nil: return nil
        case .note(let before): note = before
        case .text(let text):
            let name = "\(text)\n\(getpid())-\(Self.notes.next())"
            note = name + String(repeating: " ", count: max(Self.most - 1 - name.utf8.count, 0)) + "\n"
        }
        return pwrite(file, note, note.utf8.count, 0) == note.utf8.count ? note : nil
    }

    /// Counts the notes of this process.
    private final class Notes: @unchecked Sendable {
        // Sendable: `count` is used under `lock` alone.
        private let lock = NSLock()
        private var count: UInt32 = 0

        func next() -> UInt32 {
            lock.withLock {
                count &+= 1
                return count
            }
        }
    }
}
