#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// Where the database is: where the options say, or in a new folder that goes away with the server.
struct DatabasePlace {
    let path: String
    private let folder: URL?

    init(_ path: String?) throws(ServeFailure) {
        if let path {
            self.path = path
            folder = nil
            return
        }
        let folder = FileManager.default.temporaryDirectory.appending(path: "boards-server-\(UUID().uuidString)")
        do {
            try FileManager.default.createDirectory(
                at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw .store("No temporary folder can be made at \(folder.path): \(error).")
        }
        self.folder = folder
        self.path = folder.appending(path: "boards.sqlite").path
    }

    /// Removes what was made for this run alone.
    func leave() {
        guard let folder else { return }
        do {
            try FileManager.default.removeItem(at: folder)
        } catch {
            // The system clears its temporary folder by itself; there is nothing to lose in it.
        }
    }
}
