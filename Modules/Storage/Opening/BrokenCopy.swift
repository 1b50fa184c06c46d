import Foundation

/// A copy of a broken file, beside it, that is mended to be read (PRC-14). The broken file itself stays as it is.
struct BrokenCopy {
    /// Where the copy is.
    let path: String

    /// - Parameter mend: what is done with the copy under this path.
    /// - Throws: where it cannot be made, on a full disk for one, or mended; nothing is left of it then.
    init(of broken: String, suffix: String, mend: (String) throws -> Void) throws {
        path = broken + suffix
        // A process that was killed over it has left one in the way.
        remove()
        do {
            for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: broken + suffix) {
                try FileManager.default.copyItem(atPath: broken + suffix, toPath: path + suffix)
            }
            try mend(path)
        } catch {
            remove()
            throw error
        }
    }

    /// Takes the copy away, and what SQLite made beside it.
    func remove() {
        for suffix in ["", "-wal", "-shm"] where FileManager.default.fileExists(atPath: path + suffix) {
            do {
                try FileManager.default.removeItem(atPath: path + suffix)
            } catch {
                // kept: it takes room beside the file that was moved aside, and nothing else.
                continue
            }
        }
    }
}
