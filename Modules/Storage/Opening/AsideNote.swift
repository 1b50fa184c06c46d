import Foundation
import SyncCore

/// A file beside a database whose predecessor was corrupt and moved aside: it names that one until its queue is saved.
///
/// Between the two anything may happen: the app's own tables are still to be made, or the process is killed. Whoever
/// opens the new file first, saves. It holds the name alone, since folders move.
struct AsideNote {
    private let database: String
    private var path: String { database + "-aside" }

    init(database: String) { self.database = database }

    /// Where the old file is, or is to go; `nil` where nothing is to be saved.
    var target: String? {
        guard let data = FileManager.default.contents(atPath: path) else { return nil }
        let name = String(decoding: data, as: UTF8.self)
        guard !name.isEmpty, !name.contains("/") else { return nil }
        return URL(fileURLWithPath: database).deletingLastPathComponent().appendingPathComponent(name).path
    }

    func set(target: String) throws(StoreFailure) {
        do {
            try Data(URL(fileURLWithPath: target).lastPathComponent.utf8).write(
                to: URL(fileURLWithPath: path), options: .atomic)
        } catch {
            throw StoreFailure(
                kind: .corrupt,
                message: "The database is corrupt, and cannot be moved aside: \(error.localizedDescription)")
        }
    }

    /// The queue is saved.
    func remove() throws(StoreFailure) {
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            throw StoreFailure(error, while: "removing the note of a corrupt database")
        }
    }
}
