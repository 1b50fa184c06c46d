import Foundation
import GRDB
internal import GRDBSQLite

/// A copy of a corrupt file whose first 100 bytes are those of a sound one, so that the rest can be read (PRC-14).
///
/// A header is the same in every file of this module but for the page size, which the rest of the file tells (``PageSize``), and counters, which
/// SQLite counts anew where they contradict each other. Nor is anything of a file read that is shorter than its header says; without
/// that number it is, as far as it goes.
struct MendedHeader {
    let copy: BrokenCopy

    private static let length = 100
    /// What never differs: the name of the format, the page size, both versions, the reserved bytes and the fractions.
    private static let fixed = 0..<24

    /// - Returns: `nil` where the header is sound, and the file as long as it says, or where there is nothing behind it.
    init?(of corrupt: String, like db: Database) throws {
        guard var sound = db.header(Self.length), let start = Self.start(of: corrupt) else { return nil }
        let broken = start.prefix(Self.length)
        if let size = PageSize.of(start) {
            sound.replaceSubrange(16..<18, with: PageSize.field(size))
        }
        guard sound[Self.fixed] != broken[Self.fixed] || Self.isCut(corrupt, broken) else { return nil }
        var mended = sound
        // The number of pages counts only where these two are equal; the free list is not looked at when reading.
        mended.replaceSubrange(24..<40, with: [0, 0, 0, 1] + [UInt8](repeating: 0, count: 12))
        mended.replaceSubrange(92..<96, with: [0, 0, 0, 0])
        do {
            copy = try BrokenCopy(of: corrupt, suffix: "-mended") { path in
                let handle = try FileHandle(forUpdating: URL(fileURLWithPath: path))
                try handle.write(contentsOf: mended)
                try handle.close()
            }
        } catch {
            // kept: without a copy, on a full disk for one, what can be read of the file as it is must do.
            return nil
        }
    }

    /// Whether the file has fewer pages than its header counts.
    private static func isCut(_ path: String, _ header: Data) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return false }
        let (pageSize, pages) = (number(header, 16..<18), number(header, 28..<32))
        // 65,536 does not fit.
        return Int64(status.st_size) < Int64(pages) * Int64(pageSize == 1 ? 1 << 16 : pageSize)
    }

    private static func number(_ bytes: Data, _ places: Range<Int>) -> Int {
        bytes[places].reduce(0) { $0 << 8 | Int($1) }
    }

    /// As much of it as the longest page has.
    private static func start(of path: String) -> Data? {
        guard let handle = FileHandle(forReadingAtPath: path) else { return nil }
        let start: Data?
        do { start = try handle.read(upToCount: 1 << 16) } catch { return nil }  // kept: the opening tells
        guard let start, start.count >= length else { return nil }
        return start
    }
}

extension Database {
    /// The first bytes of the file, by SQLite's own handle: who opens the file beside it, and closes it again, takes the locks of all
    /// connections of this process away, and another process takes the log away under them.
    /// - Returns: `nil` in memory, and where that many cannot be read.
    fileprivate func header(_ length: Int) -> Data? {
        var file: UnsafeMutablePointer<sqlite3_file>?
        guard sqlite3_file_control(sqliteConnection, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK,
            let file, let read = file.pointee.pMethods?.pointee.xRead
        else { return nil }
        var bytes = [UInt8](repeating: 0, count: length)
        guard read(file, &bytes, CInt(length), 0) == SQLITE_OK else { return nil }
        return Data(bytes)
    }
}
