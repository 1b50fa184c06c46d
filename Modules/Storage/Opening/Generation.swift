import Foundation

/// A number beside the file, which an older copy of the file does not have (PRC-15, PRC-19).
///
/// The database counts its openings; after each the number is written into `<path>-device`, which no copy of
/// the database contains. A file that counts less than that is an older one: restored, or without its `-wal`.
/// The place of a file (volume and inode) says the same for a copy elsewhere; this says it for one at the same place.
struct Generation {
    let path: String

    /// - Parameter database: the path of the database.
    init(database: String) { path = database + "-device" }

    /// The number beside the file; `nil` where there is none that can be read.
    func read() -> Int64? {
        guard let data = FileManager.default.contents(atPath: path) else { return nil }
        return Int64(String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines))
    }

    /// Notes the number after a commit; a note that is behind only makes an older copy harder to notice.
    func write(_ number: Int64) {
        guard number > read() ?? 0 else { return }
        _ = FileManager.default.createFile(atPath: path, contents: Data("\(number)\n".utf8))
    }

}

/// A file beside a large database that an operation found corrupt: the next opening looks the whole file through.
struct CorruptionMark {
    let path: String

    init(database: String) { path = database + "-corrupt" }

    func set() { _ = FileManager.default.createFile(atPath: path, contents: Data()) }

    func remove() {
        guard FileManager.default.fileExists(atPath: path) else { return }
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            // It stays: the next opening looks again, which costs time only.
            return
        }
    }
}
