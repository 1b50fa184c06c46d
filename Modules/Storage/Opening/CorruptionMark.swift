import Foundation

/// A file beside a large database that an operation found corrupt: the next opening looks the whole file through.
struct CorruptionMark {
    let path: String

    init(database: String) { path = database + "-corrupt" }

    var isSet: Bool { FileManager.default.fileExists(atPath: path) }

    func set() { _ = FileManager.default.createFile(atPath: path, contents: Data()) }

    func remove() {
        guard FileManager.default.fileExists(atPath: path) else { return }
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            // kept: it stays: the next opening looks again, which costs time only.
            return
        }
    }
}
